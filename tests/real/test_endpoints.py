# SPDX-License-Identifier: Apache-2.0
"""Cells between XRootD servers that tpcsweep has not started."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tpcsweep import testbeds
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.flags import BrokenError
from tpcsweep.testbeds import Request, TeardownError
from tpcsweep.testbeds.endpoints import ledger, trial
from tpcsweep.testbeds.endpoints.doors import HttpDoors
from tpcsweep.tools import TOOLS
from tpcsweep.xrootd.credentials import create_credentials

from tests.support.sites import MIB, files, handlers_kept
from tests.support.storage import ADDRESSES, PORTS, Storage, storage_of

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module", params=[False, True], ids=["anybody", "macaroons"])
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    with storage_of(request.param) as found:
        yield found


def request(folder: Path, **parameters: Any) -> Request:
    asked = Parameters(**{"pair": "loopback", "source_content": "random", "tool": "curl", **parameters})
    return Request("test", "pair=loopback", asked, [asked.tool], 60.0, folder, print)


def measured(
    storage: Storage, folder: Path, how: Measurement, tool: str, **parameters: Any
) -> dict[str, Any]:
    testbed = testbeds.load_testbed("endpoints")
    settings = storage.settings_for(tool)
    wanted = request(folder, tool=tool, **parameters)
    with handlers_kept(), testbed.deployed(settings, wanted) as site:
        found = testbed.measure(site, Parameters(**vars(wanted.parameters)), how, "c0", lambda *_: None)
        assert "deployment_broken" not in found["flags"], found["message"]
        assert len(storage.files("destination")) == 1, "only the folder of the deployment"
    return found


@pytest.mark.parametrize(
    ("tool", "mode"),
    [
        *itertools.product(["curl", "native", "gfal-copy", "gfal2"], ["pull", "push"]),
        *(("xrdcp", "pull"), ("davix-put", "push"), ("davix-get", "pull"), ("xrdcp-direct", "push")),
    ],
)
def test_a_cell_between_servers_that_run(storage: Storage, tmp_path: Path, tool: str, mode: str) -> None:
    how = {"streams": 2, "file_size": 8 * MIB, "copy_mode": mode}
    found = measured(storage, tmp_path, files(4), tool, **how)
    assert found["status"] == "ok", found["message"]
    assert found["summary"]["transfers"] == 8
    assert found["limit"] in ("not_visible", "between_files", "machine"), "no limit of a server is visible"
    assert 0 < found["summary"]["throughput_average"] < 100
    over = found["summary"]["duration"]
    counted = found["summary"]["throughput_average"] * over / (8 * MIB * 8e-9)
    ended, begun = (sum(time <= over for time in found["transfers"][name]) for name in ("end", "start"))
    assert ended - 0.01 <= counted <= begun + 0.01, "files, of which those under way count in part"


@pytest.mark.usefixtures("lingering")
def test_a_cell_of_fixed_time_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    how = Measurement(until="seconds", seconds=4)
    found = measured(storage, tmp_path, how, "curl", streams=2, file_size=16 * MIB)
    assert found["status"] == "ok", found["message"]
    assert found["summary"]["rtt_idle"] is None
    assert found["summary"]["duration"] <= 4.2


def test_check_tries_everything_and_leaves_nothing(storage: Storage) -> None:
    rows = list(trial.findings(storage.settings()))
    assert [row for row in rows if row.status == "failed"] == []
    done = {row.check for row in rows if row.status == "ok"}
    assert {"TLS and CA", "upload", "download", "delete", "pull", "push", "pull with 2 connections"} <= done
    assert ("macaroon" in done) == ("checksum" in done) == storage.asks
    assert storage.files("source") == storage.files("destination") == []


def test_check_tries_the_root_protocol_and_names_what_it_has_not(storage: Storage) -> None:
    rows = list(trial.findings(storage.settings_for("xrdcp")))
    assert [row for row in rows if row.status == "failed"] == []
    done = {row.check for row in rows if row.status == "ok"}
    assert {"list", "make a folder", "upload", "download", "delete", "xrdcp", "nothing left"} <= done
    other = {row.check for row in rows if row.reason == "https:// only"}
    assert other == {
        "TLS and CA",
        "macaroon",
        "pull",
        "push",
        "pull with 2 connections",
        "performance markers",
    }
    assert storage.files("source") == storage.files("destination") == []


@pytest.mark.parametrize("tool", ["davix-put", "davix-get", "xrdcp-direct"])
def test_check_tries_the_tools_of_a_local_folder_and_nothing_else_between_the_ends(
    storage: Storage, tool: str
) -> None:
    rows = list(trial.findings(storage.settings_for(tool)))
    assert [row for row in rows if row.status == "failed"] == []
    local, server = f"loopback {(place := TOOLS[tool].place)}", {"source", "destination"} - {place}
    why = {row.check: row.reason for row in rows if row.subject == local and row.status == "skipped"}
    assert {check for check, reason in why.items() if reason == "a local folder"} == {
        "name resolves",
        "TCP, RTT of the connect",
        "credential usable",
    }
    done = {(row.subject, row.check) for row in rows if row.status == "ok"}
    assert {(local, name) for name in ("list", "upload", "download", "checksum", "delete")} <= done
    assert (f"loopback {server.pop()}", "upload") in done
    between = {row.check: row.reason for row in rows if row.subject == "loopback" and row.status == "skipped"}
    unfit = {"pull", "push", "pull with 2 connections", "xrdcp", "performance markers"}
    assert {check for check, reason in between.items() if reason == "two servers only"} == unfit
    assert [row.check for row in rows if row.subject == "loopback" and row.status == "ok"] == [
        tool,
        "nothing left",
    ]
    assert storage.files("source") == storage.files("destination") == []


def test_check_names_what_fails(storage: Storage, tmp_path: Path) -> None:
    other = tmp_path / "pki"
    create_credentials(other, ADDRESSES.values(), (0, 0))
    rows = list(trial.findings(storage.settings(ca=str(other / "ca"))))
    failed = [row for row in rows if row.status == "failed"]
    assert {row.check for row in failed} >= {"TLS and CA"}
    assert "certificate" in failed[0].reason or "self" in failed[0].reason
    assert "Fix: set ca" in failed[0].reason
    gone = storage.settings(
        pairs=[
            {
                "name": "gone",
                "source": {"urls": ["davs://127.0.8.9:9/data"]},
                "destination": {"urls": ["davs://nowhere.invalid/data"]},
            }
        ]
    )
    failed = [row for row in trial.findings(gone) if row.status == "failed"]
    assert [row.check for row in failed][:2] == ["TCP, RTT of the connect", "list"]
    assert "nothing left" not in {row.check for row in failed}, "no folder was begun"


KILLED = """
import json, os, signal, sys, threading, time
from pathlib import Path
from tests.real.test_endpoints import request
from tests.support.storage import PORTS, Storage
from tpcsweep import testbeds
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import Measurement

folder, pki, asks, moment = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "True", float(sys.argv[4])
PORTS.update(json.loads(sys.argv[6]))
tool = sys.argv[7]
storage = Storage(folder, pki, asks, {})
testbed = testbeds.load_testbed("endpoints")
settings = storage.settings_for(tool)
wanted = request(Path(sys.argv[5]), tool=tool, streams=2, file_size=64 << 20)
with testbed.deployed(settings, wanted) as site:
    print("begun", flush=True)
    threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL)).start()
    how = Measurement(until="seconds", seconds=30)
    testbed.measure(site, Parameters(**vars(wanted.parameters)), how, "c0", lambda *_: None)
"""


@pytest.mark.usefixtures("lingering")
@pytest.mark.parametrize(
    ("moment", "tool"), [(0.05, "curl"), (1.0, "curl"), (3.0, "curl"), (3.0, "xrdcp"), (1.0, "davix-get")]
)
def test_what_a_killed_run_leaves_is_reaped(
    storage: Storage, tmp_path: Path, moment: float, tool: str
) -> None:
    settings = storage.settings_for(tool)
    arguments = [storage.folder, storage.pki, storage.asks, moment, tmp_path, json.dumps(PORTS), tool]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    killed = subprocess.run([sys.executable, "-c", KILLED, *map(str, arguments)], env=environment, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert storage.files("destination") != []
    time.sleep(1)
    reaped = testbeds.load_testbed("endpoints").reap(settings)
    assert len(reaped) == 1
    assert storage.files("source") == storage.files("destination") == []
    assert testbeds.load_testbed("endpoints").reap(settings) == []


@pytest.mark.usefixtures("lingering")
def test_files_that_cannot_be_deleted_end_the_cell_and_stay_in_the_ledger(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    testbed = testbeds.load_testbed("endpoints")
    wanted = request(tmp_path, file_size=MIB)
    real = HttpDoors.ok

    def refused(self: HttpDoors, method: str, url: str, *_: int, **how: Any) -> Any:
        return real(self, method, f"{url}/no" if method == "DELETE" else url, **how)

    with (
        handlers_kept(),
        pytest.raises(TeardownError, match="left behind"),
        testbed.deployed(storage.settings(), wanted) as site,
    ):
        monkeypatch.setattr(HttpDoors, "ok", refused)
        result = testbed.measure(site, wanted.parameters, files(3), "c0", lambda *_: None)
        assert "deployment_broken" in result["flags"]
        assert "files are left behind: DELETE" in result["message"]
    assert list(ledger.place().glob("*.json"))
    monkeypatch.setattr(HttpDoors, "ok", real)
    assert len(testbed.reap(storage.settings())) == 1
    assert storage.files("destination") == []


@pytest.mark.usefixtures("lingering")
def test_a_door_that_dies_breaks_the_cell(storage: Storage, tmp_path: Path) -> None:
    testbed = testbeds.load_testbed("endpoints")
    wanted = request(tmp_path, file_size=MIB)
    process = storage.processes["destination"]
    with pytest.raises(TeardownError), testbed.deployed(storage.settings(), wanted) as site:
        process.kill()
        process.wait()
        try:
            result = testbed.measure(site, wanted.parameters, files(50), "c0", lambda *_: None)
            assert result["status"] == "failed"
        except BrokenError:
            pass
    storage.restart("destination")
    assert len(testbed.reap(storage.settings())) == 1
    assert storage.files("destination") == []
