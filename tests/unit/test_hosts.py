# SPDX-License-Identifier: Apache-2.0
"""Hosts of a testbed: how they are asked, their load, and how datasets, comparisons and pages name their settings."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import yaml
from tpcsweep.common import processes
from tpcsweep.data import made_with
from tpcsweep.measuring import host_state
from tpcsweep.running import hosts, runner
from tpcsweep.running.hosts import CellClock, Look, Watch
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.testbed_settings import SavedHost

from tests.support import synthetic
from tests.support.jobs import Played
from tests.support.projects import study_of

MAC = re.compile(r"\b(?!00:00:00:00:00:00)([0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE)


def test_a_host_is_described_without_addresses_and_keys() -> None:
    found = host_state.state()
    assert found["kernel"] == os.uname().release
    assert "cubic" in found["sysctls"]["net.ipv4.tcp_available_congestion_control"]
    assert found["interfaces"]
    assert all(each["mtu"] >= 68 for each in found["interfaces"].values())
    assert not [name for name in found["sysctls"] if name.endswith("key")]
    text = json.dumps(found)
    assert not MAC.search(text)
    assert os.uname().nodename not in text or len(os.uname().nodename) < 4


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ("qdisc noqueue 0: root refcnt 2 \n", "noqueue"),
        (
            "qdisc mq 8001: root \n"
            "qdisc fq 0: parent 8001:2 limit 10000p maxrate 2Gbit\n"
            "qdisc fq 0: parent 8001:1 limit 10000p maxrate 2Gbit\n",
            "mq; fq limit 10000p maxrate 2Gbit x2",
        ),
        ("", ""),
    ],
)
def test_queueing_disciplines_have_no_handles(shown: str, name: str) -> None:
    assert host_state.qdisc(shown) == name


def test_current_values_of_rings_are_read() -> None:
    shown = "Pre-set maximums:\nRX:\t4096\nCurrent hardware settings:\nRX:\t512\nRX Mini:\tn/a\nTX:\t256\n"
    assert host_state.current(shown) == {"RX": "512", "TX": "256"}


def looks(rate: float, *, busy: float = 25, seconds: int = 10, ahead: float = 1000) -> list[Look]:
    """Readings once a second of a host that receives `rate` Gbit/s and sends a tenth of it; its clock is ahead."""
    step = rate * 1e9 / 8
    return [
        Look(
            at,
            at + ahead,
            (busy * at, 10 * at, 100 * at),
            {"eth0": (step * at, step * at / 10), "eth1": (0, 0)},
        )
        for at in range(seconds + 1)
    ]


def load_between(looks: Sequence[Look], begin: float, end: float) -> hosts.Load | None:
    return hosts.load_of(hosts.looks_between(looks, begin, end))


def test_the_load_is_that_of_the_cells_time() -> None:
    first = looks(1.0, seconds=5)
    rest = [
        each._replace(
            traffic={"eth0": (first[-1].traffic["eth0"][0] + 5e8 * at, first[-1].traffic["eth0"][1])},
            cpu=(125 + 50 * at, 50, 500 + 100 * at),
        )
        for at, each in enumerate(looks(0.0, seconds=10)[5:])
    ]
    found = load_between([*first, *rest[1:]], 5.0, 10.5)
    assert found is not None
    assert (found.cpu, found.iowait, found.received) == pytest.approx((0.5, 0.0, 4.0))
    assert load_between(first, 4.5, 10.0) is None, "too few readings are none"
    assert load_between([], 0.0, 1.0) is None
    assert load_between([*looks(3.0)[3:], looks(0.0)[-1]], 3.0, 10.0) is None, "a counter began again"


@pytest.mark.parametrize(
    ("rates", "speed", "flags"),
    [
        ({"a": 1.1, "b": 0.2}, 10.0, []),  # as much as the cell may be with its headers
        ({"a": 1.1, "b": 3.2}, 10.0, ["production_load"]),
        ({"a": 1.1, "b": 3.2}, 100.0, []),
        ({"a": 1.1, "b": 3.2}, 0.0, []),  # without a speed nobody knows
    ],
)
def test_traffic_of_others_flags_a_cell(rates: dict[str, float], speed: float, flags: list[str]) -> None:
    asked: Any = {
        name: SimpleNamespace(looks=looks(rate), speed=speed, described=dict) for name, rate in rates.items()
    }
    clock = CellClock(lambda *_: None)
    clock.began = 0.0
    cell = synthetic.result(None, {"throughput": 1.0, "warmup": 2.0, "duration": 10.0}, flags=("not_steady",))
    found = Watch(asked, {}).with_load(cell, clock)
    assert found.flags == ("not_steady", *flags)
    figures = found.summary.figures
    assert figures["host_received"] == pytest.approx(max(rates.values()))
    assert figures["host_sent"] == pytest.approx(max(rates.values()) / 10)
    assert figures["host_cpu"] == pytest.approx(0.25)
    assert figures["host_others"] == pytest.approx(max(0, max(rates.values()) - 1 / 0.85), rel=1e-4)
    assert figures["throughput"] == 1.0
    assert Watch({}, {}).with_load(cell, clock) is cell


def test_a_host_that_cannot_be_asked_stops_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hosts, "ANSWER", 3.0)
    saved = tmp_path / "saved.json"
    saved.write_text("[]")
    ways = {
        "here": "local",
        "failing": "sh -c 'echo secret.example.org: no route >&2; exit 255'",
        "silent": "sh -c 'exec sleep 60'",
        "bare": "env PATH=/nonexistent /bin/sh -c 'exec /bin/sh'",
        "missing": "./no-such-program",
        "open": "sh -c '",
        "greeting": "sh -c 'echo Welcome to dtn1; exec sh'",
        "missing_file": SavedHost(saved=f"{tmp_path}/none.json"),
        "wrong_file": SavedHost(saved=str(saved)),
    }
    lines: list[str] = []
    with hosts.watched(ways, 60, lines.append) as watch:
        reasons = {name: state.get(made_with.NOT_RECORDED, "") for name, state in watch.states.items()}
    assert reasons == {
        "here": "",
        "failing": "exit code 255",
        "silent": "no answer within 3 s",
        "bare": "no python3",
        "missing": "its command does not start: No such file or directory",
        "open": "its command does not start: No closing quotation",
        "greeting": "",
        "missing_file": "its file cannot be read: No such file or directory",
        "wrong_file": "its file is not a state that fasterdata-tuning.sh saved",
    }
    assert "host failing: not recorded: exit code 255; secret.example.org: no route" in lines
    assert {found.subject: found.status for found in hosts.findings({"here": "local", "no": "false"})} == {
        "host here": "ok",
        "host no": "warning",
    }


STARTER = """
import os, sys, time
from tpcsweep.running import hosts
with hosts.watched({"here": "local"}, float(sys.argv[1]), print) as watch:
    print(watch._hosts["here"]._process.pid, flush=True)
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), int(sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("seconds", "sleep", "end"), [(300, 0, signal.SIGKILL), (300, 0, 0), (1, 3, signal.SIGSTOP)]
)
def test_the_process_on_a_host_ends_on_every_way_out(seconds: float, sleep: float, end: int) -> None:
    """By kill -9, by an ordinary end, and after its time though the job stands still."""
    command = [sys.executable, "-c", STARTER, str(seconds), str(sleep), str(int(end))]
    with subprocess.Popen(
        command, env=processes.full_environment(), stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout
        asked = int(job.stdout.readline())
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up and alive(asked):
            time.sleep(0.05)
        assert not alive(asked)
        job.kill()


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


SAVED: dict[str, Any] = {
    "metadata": {"version": "1.0", "hostname": "dtn1.example.org", "kernel": "5.14.0", "label": "stock"},
    "sysctl": {"net.ipv4.tcp_rmem": "4096\t131072\t6291456"},
    "sysctl_file": {"path": "/etc/sysctl.d/90-fasterdata.conf", "exists": False},
    "interfaces": {
        "ens1": {
            "state": "UP",
            "mtu": 9000,
            "txqueuelen": 10000,
            "speed": 100000,
            "qdisc": "qdisc fq 8002: root refcnt 129 limit 10000p",
            "ethtool_features": {"large-receive-offload": "off"},
            "ring_buffers": {"rx": 8192, "rx_max": 8192, "tx": 0, "tx_max": 8192},
            "nm_connection": "secret",
            "nm_mtu": 0,
        }
    },
    "cpu": {"governors": {"cpu0": "performance", "cpu1": "performance"}, "smt": {"control": "on"}},
    "tuned": {"available": True, "active_profile": "network-throughput"},
    "warnings": [],
}


def test_a_saved_state_has_the_keys_of_a_host(tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text(json.dumps(SAVED))
    found = hosts.saved_state(SavedHost(saved=str(tmp_path / "saved.json")))
    assert found == {
        "kernel": "5.14.0",
        "governor": "performance",
        "smt": "on",
        "tuned": "network-throughput",
        "interfaces": {
            "ens1": {
                "speed": 100000,
                "mtu": 9000,
                "txqueuelen": 10000,
                "qdisc": "fq limit 10000p",
                "rings": {"RX": "8192"},
                "offloads": {"large-receive-offload": "off"},
            }
        },
        "sysctls": {"net.ipv4.tcp_rmem": "4096 131072 6291456"},
        "source": "a saved state",
    }


def study(folder: Path, testbed: Any) -> SweepStudy:
    (folder / "hosts.yaml").write_text(yaml.safe_dump({"kind": "netns", **testbed}))
    return study_of(folder, f"{folder}/hosts.yaml", parameters={"tuning": "fq"}, retry_share=0, seed=0)


def test_cells_record_hosts_as_their_settings_left_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "ledgers"))
    (tmp_path / "logs").mkdir()
    tuning = {"values": {"fq": "touch applied"}, "restore": "rm applied"}
    ways = {"dtn1": "sh -c 'test -e applied && exec sh'", "dtn2": "false"}
    found = study(tmp_path, {"settings": {"tuning": tuning}, "hosts": ways})
    monkeypatch.setattr(runner.kinds, "load_testbed", lambda _: Played([]))
    runner.run(found, "deployment=only", tmp_path / "logs")
    [cell] = [json.loads(found.cell_file(cell).read_bytes()) for cell in found.grid.cells]
    assert cell["status"] == "ok"
    assert cell["provenance"]["hosts"]["dtn1"]["kernel"] == os.uname().release
    assert cell["provenance"]["hosts"]["dtn2"] == {"not_recorded": "exit code 1"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"dtn1": 5}, "hosts.dtn1"),
        ({"dtn1": {"saved": ""}}, "hosts.dtn1"),
        ({"dtn1": {"file": "x"}}, "hosts.dtn1"),
        ({"dtn1.example.org": "local"}, "hosts"),
    ],
)
def test_wrong_hosts_are_refused(tmp_path: Path, given: Any, problem: str) -> None:
    tuning = {"tuning": {"values": {"fq": "true"}, "restore": "true"}}
    with pytest.raises(ConfigurationError) as error:
        study(tmp_path, {"settings": tuning, "hosts": given})
    assert problem in str(error.value)


def test_hosts_of_one_kernel_are_one_machine() -> None:
    """As namespaces and containers of a machine are: they share its CPUs, and so does the client."""
    with hosts.watched({"a1": "local", "b1": "local"}, 20.0, print, interval=0.0) as watch:
        assert watch.one_machine == [["local", "a1", "b1"]]
