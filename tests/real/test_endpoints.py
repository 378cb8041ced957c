# SPDX-License-Identifier: Apache-2.0
"""Cells between XRootD servers that tpcsweep has not started."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.flags import BrokenError
from tpcsweep.testbeds import TeardownError
from tpcsweep.testbeds.endpoints import ledger, trial
from tpcsweep.testbeds.endpoints.doors import Doors
from tpcsweep.xrootd.credentials import create_credentials

from tests.support.sites import MIB, files
from tests.support.storage import ADDRESSES, TESTBED, Storage, deployed, lingering, storage_of


@pytest.fixture(scope="module", params=[False, True], ids=["anybody", "macaroons"])
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    with storage_of(request.param) as found:
        yield found


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lingering(monkeypatch, 1.0)


def measured(storage: Storage, folder: Path, how: Measurement, **parameters: Any) -> dict[str, Any]:
    with deployed(storage.settings(), folder, **parameters) as measure:
        found = measure(how)
        assert "deployment_broken" not in found["flags"], found["message"]
        assert len(storage.files("destination")) == 1, "only the folder of the deployment"
    assert storage.files("source") == storage.files("destination") == []
    assert not list(ledger.place().glob("*.json"))
    return found


@pytest.mark.parametrize("mode", ["pull", "push"])
@pytest.mark.parametrize("tool", ["curl", "native", "gfal-copy", "gfal2"])
def test_a_cell_between_servers_that_run(storage: Storage, tmp_path: Path, tool: str, mode: str) -> None:
    how = {"tool": tool, "streams": 2, "file_size": 8 * MIB, "copy_mode": mode}
    found = measured(storage, tmp_path, files(4), **how)
    assert found["status"] == "ok", found["message"]
    assert found["summary"]["transfers"] == 8
    assert found["limit"] in ("not_visible", "between_files", "machine"), "no limit of a server is visible"
    assert 0 < found["summary"]["throughput_average"] < 100
    # Times are since the cell's start: the start of a tool's worker, long on a busy machine, counts or does not.
    starts, ends = (found["transfers"][name] for name in ("start", "end"))
    least, most = (8 * 8 * MIB * 8e-9 / time for time in (max(ends), max(ends) - min(starts)))
    assert 0.65 * least < found["summary"]["throughput_average"] < 1.35 * most


def test_a_cell_of_fixed_time_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    how = Measurement(until="seconds", seconds=4)
    found = measured(storage, tmp_path, how, tool="curl", streams=2, file_size=16 * MIB)
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


def test_check_names_what_fails(storage: Storage, tmp_path: Path) -> None:
    other = tmp_path / "pki"
    create_credentials(other, ADDRESSES.values(), (0, 0))
    rows = list(trial.findings(storage.settings(ca=str(other / "ca"))))
    failed = [row for row in rows if row.status == "failed"]
    assert {row.check for row in failed} >= {"TLS and CA"}
    assert "certificate" in failed[0].reason or "self" in failed[0].reason
    assert "Fix: set ca" in failed[0].reason
    gone = {"source": "davs://127.0.8.9:9/data", "destination": "davs://nowhere.invalid/data"}
    ends = {role: {"urls": [url]} for role, url in gone.items()}
    settings = storage.settings(pairs=[{"name": "gone", **ends}])
    failed = [row for row in trial.findings(settings) if row.status == "failed"]
    assert [row.check for row in failed][:2] == ["TCP, RTT of the connect", "list"]


def test_files_that_cannot_be_deleted_end_the_cell_and_stay_in_the_ledger(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Doors.ok

    def refused(self: Doors, method: str, url: str, *_: int, **how: Any) -> Any:
        return real(self, method, f"{url}/no" if method == "DELETE" else url, **how)

    with (
        pytest.raises(TeardownError, match="left behind"),
        deployed(storage.settings(), tmp_path, tool="curl") as measure,
    ):
        monkeypatch.setattr(Doors, "ok", refused)
        result = measure(files(3))
        assert "deployment_broken" in result["flags"]
        assert "files are left behind: DELETE" in result["message"]
    assert list(ledger.place().glob("*.json"))
    monkeypatch.setattr(Doors, "ok", real)
    assert len(TESTBED.reap(storage.settings())) == 1
    assert storage.files("destination") == []


def test_a_door_that_dies_breaks_the_cell(storage: Storage, tmp_path: Path) -> None:
    process = storage.processes["destination"]
    with (
        pytest.raises(TeardownError),
        deployed(storage.settings(), tmp_path, tool="curl") as measure,
    ):
        process.kill()
        process.wait()
        try:
            assert measure(files(50))["status"] == "failed"
        except BrokenError:
            pass
    storage.restart("destination")
    assert len(TESTBED.reap(storage.settings())) == 1
    assert storage.files("destination") == []
