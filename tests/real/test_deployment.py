"""What happens when a deployment breaks, and what stays of it: nothing but its logs."""

from __future__ import annotations

import os
import signal
import ssl
import time
from pathlib import Path

import pytest
from tpcsweep import xrootd
from tpcsweep.measure.cell import measure
from tpcsweep.parameters import Parameters
from tpcsweep.testbed_settings import Netns
from tpcsweep.testbeds.netns import state
from tpcsweep.testbeds.netns.servers import DeploymentError, Servers
from tpcsweep.testbeds.netns.testbed import reap
from tpcsweep.xrootd import Server

from tests.support.leftovers import present, stayed
from tests.support.sites import LONGER, MIB, cell, site_of
from tests.support.workflow import wait_until

pytestmark = pytest.mark.real


def test_killing_a_destination_makes_a_failed_cell_and_never_a_hang(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=2, bandwidth=0.2) as site:
        victim = min(site.sides["dst"].groups[0].pids())
        began = time.monotonic()

        def kill(*_: object) -> None:
            if Path(f"/proc/{victim}").exists():
                os.kill(victim, signal.SIGKILL)

        found = measure(site, Parameters(file_size=64 * MIB, streams=2), LONGER, "k", kill)
        assert time.monotonic() - began < 20
        assert found["status"] == "failed"
        assert found["message"].startswith("dst1: xrootd was killed by SIGKILL")


def test_loss_is_seen_as_retransmissions(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=2, loss=0.01, bandwidth=0.5, mtu=1500) as site:
        found = cell(site, LONGER, streams=2, file_size=64 * MIB)
        share = found["summary"]["retransmits"] * 1500 * 8 / 1e9
        share /= found["summary"]["wire_throughput"] * found["summary"]["duration"]
        assert 0.004 < share < 0.03
        assert found["summary"]["path_drops"] > 0


def test_a_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = xrootd.configuration
    monkeypatch.setattr(xrootd, "configuration", lambda *a: configuration(*a) + "xrd.port nonsense\n")
    with pytest.raises(DeploymentError, match="nonsense") as error, site_of(tmp_path, rtt=0):
        pass
    assert "nothing after" not in str(error.value)  # it was not waited for


def test_a_server_that_crashes_as_it_comes_up_is_started_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivers = Servers._delivers
    crashes = iter(["dst1"])

    def crashing(self: Servers, server: Server, context: ssl.SSLContext) -> bool:
        if next(crashes, None):
            [pid] = self._sides[1].groups[0].pids()
            os.kill(pid, signal.SIGSEGV)
            wait_until(lambda: self.fault() is not None, "it is dead")
            return False
        return delivers(self, server, context)

    monkeypatch.setattr(Servers, "_delivers", crashing)
    with site_of(tmp_path, rtt=0) as site:
        assert cell(site, streams=1, file_size=MIB)["status"] == "ok"
    assert "dst1: xrootd was killed by SIGSEGV" in (tmp_path / "commands.log").read_text()


def test_logs_are_kept_without_tokens(tmp_path: Path) -> None:
    with site_of(tmp_path, origins=2, rtt=0) as site:
        cell(site, streams=2, file_size=MIB)
    names = {path.name for path in tmp_path.iterdir()}
    assert {
        "commands.log",
        "xrootd.src1.log",
        "cmsd.dst2.log",
        "xrootd.dstm.log",
        "stderr.client.log",
    } <= names
    assert "tc " in (tmp_path / "commands.log").read_text()
    assert not any("MDAx" in path.read_text(errors="replace") for path in tmp_path.iterdir())


def test_a_deployment_that_was_killed_at_its_very_beginning_is_reaped() -> None:
    before = present()
    state.STATE.mkdir(mode=0o711, exist_ok=True)
    (state.STATE / "ffffff").mkdir()  # not even an owner was written
    assert reap(Netns(kind="netns")) == ["ffffff (owner unknown)"]
    assert stayed(before) == {}


def test_a_deployment_that_is_up_is_not_reaped(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=0) as site:
        with pytest.raises(state.BusyError, match="deployment of sweep test, pid"):
            reap(Netns(kind="netns"))
        assert cell(site, streams=1, file_size=MIB)["status"] == "ok"
