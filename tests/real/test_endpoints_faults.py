# SPDX-License-Identifier: Apache-2.0
"""Faults of storage that runs: each ends with its problem, its place and what to do, and leaves nothing behind."""

import asyncio
import contextlib
import itertools
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpcsweep.common.urls import NewFolder, made_up
from tpcsweep.deploying.xrootd.credentials import create_credentials
from tpcsweep.measuring.tools.http_tpc import macaroon_request, parse_macaroon
from tpcsweep.measuring.tools.native import Copier
from tpcsweep.measuring.tools.tool import Credentials, Transfer
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.endpoints import trial
from tpcsweep.testbeds.endpoints.doors import DoorError
from tpcsweep.testbeds.endpoints.settings import Budget, Endpoints
from tpcsweep.testbeds.endpoints.spending import BudgetError
from tpcsweep.testbeds.endpoints.webdav import HttpDoors
from tpcsweep.testbeds.interface import TeardownError

from tests.support.front import Front, front_of
from tests.support.sites import MIB, files
from tests.support.storage import ADDRESSES, Storage, assert_no_failure, deployed

pytestmark = pytest.mark.usefixtures("nothing_left")
TESTBED = kinds.load_testbed("endpoints")


@pytest.fixture(autouse=True)
def proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # where nobody listens: doors and tools ignore it


EVERYTHING = b'{"caveats": ["activity:DOWNLOAD,LIST,UPLOAD,MANAGE,DELETE"], "validity": "PT600S"}'


def macaroon(storage: Storage, role: str, request: bytes = EVERYTHING) -> str:
    kind = {"Content-Type": "application/macaroon-request"}
    door = HttpDoors(Credentials(storage.pki), role)
    answer = door.ok("POST", f"{storage.url(role)}/", headers=kind, body=lambda: [request], size=len(request))
    return parse_macaroon(answer.body)


@contextlib.contextmanager
def fronted(storage: Storage, folder: Path) -> Iterator[tuple[Front, Endpoints]]:
    """A front before the destination, and settings with a macaroon for each end."""
    door = storage.url("destination").removesuffix("/data/test")
    with front_of(door, ADDRESSES["source"], storage.pki) as front:
        ends: dict[str, Any] = {}
        for role, url in {"source": storage.url("source"), "destination": f"{front.url}/data/test"}.items():
            file = folder / f"{role}.token"
            file.write_text(macaroon(storage, role))
            ends[role] = {"urls": [url], "credentials": {"token_file": str(file)}}
        yield front, storage.settings(pairs=[{"name": "loopback", **ends}])


@pytest.mark.usefixtures("lingering")
@pytest.mark.parametrize("mode", ["pull", "push"])
def test_a_full_disk_fails_the_cell(storage: Storage, tmp_path: Path, mode: str) -> None:
    data = storage.folder / "destination/data/test"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=777", "tpcsweep-test", data], check=True)
    try:
        how = {"file_size": 8 * MIB, "tool": "curl", "copy_mode": mode}
        with deployed(storage.settings(), tmp_path, **how) as (_, measured):
            result = measured(files(2))
        assert result["status"] == "failed"
        # The pushing end does not hear why the other one has closed the connection.
        assert ("the storage is full" if mode == "pull" else "its disk and its log") in result["message"]
        assert storage.files("destination") == []
    finally:
        subprocess.run(["umount", data], check=True)


def test_a_missing_right_to_write_is_found_before_measuring(storage: Storage, tmp_path: Path) -> None:
    storage.restart("destination", rights="lr")
    settings = storage.settings()
    with pytest.raises(DoorError, match=r"MKCOL .*403.*ask for the right"), deployed(settings, tmp_path):
        raise AssertionError("deployed")
    failed = [row for row in trial.findings(settings) if row.status == "failed"]
    assert failed[0].check == "make a folder"
    assert "ask for the right" in failed[0].reason
    storage.restart("destination")
    TESTBED.reap(settings)


@pytest.mark.parametrize("tool", ["curl", "xrdcp"])
def test_a_source_file_needs_the_right_to_read_alone(storage: Storage, tmp_path: Path, tool: str) -> None:
    own = storage.folder / "source/data/test/mine"
    own.write_bytes(bytes(MIB))
    storage.restart("source", rights="lr")
    content = storage.settings_for(tool).model_dump()
    content["pairs"][0]["source"]["file"] = "mine"
    settings = Endpoints.model_validate(content)
    try:
        rows = list(trial.findings(settings))
        assert {row.check for row in rows if row.status == "failed"} == set()
        assert {("size", "source"), ("download", "source")} <= {
            (row.check, row.role) for row in rows if row.status == "ok"
        }
        with deployed(settings, tmp_path, tool=tool) as (_, measured):
            result = measured(files(3))
        assert result["status"] == "ok", result["message"]
        assert storage.files("source") == ["mine"]
    finally:
        own.unlink()
        storage.restart("source")


def test_no_right_to_delete_stays_in_the_ledger_until_it_is_given(storage: Storage, tmp_path: Path) -> None:
    storage.restart("destination", rights="lrwi")
    settings = storage.settings()
    refused = pytest.raises(DoorError, match=r"DELETE .*403.*ask for the right")
    with refused, deployed(settings, tmp_path, tool="curl"):
        raise AssertionError("deployed")
    assert len(storage.files("destination")) == 2
    with pytest.raises(TeardownError, match="left: DELETE"):
        TESTBED.reap(settings)
    storage.restart("destination")
    assert len(TESTBED.reap(settings)) == 1


@pytest.mark.usefixtures("lingering")
def test_a_slow_server_fails_a_cell_too_short_for_a_file(storage: Storage, tmp_path: Path) -> None:
    storage.restart("source", also="xrootd.fslib throttle default\nthrottle.throttle data 1m")
    with deployed(storage.settings(), tmp_path, tool="native", file_size=4 * MIB) as (_, measured):
        result = measured(Measurement(until="seconds", seconds=2))
    assert result["status"] == "failed"
    assert "smaller file_size" in result["message"]


@pytest.mark.usefixtures("lingering")
@pytest.mark.parametrize(("tool", "mode"), [("curl", "pull"), ("native", "push")])
def test_markers_show_the_bytes_of_a_file_under_way(
    storage: Storage, tmp_path: Path, tool: str, mode: str
) -> None:
    source = storage.folder / "source/data/test/big"
    with source.open("wb") as file:
        file.truncate(256 * MIB)
    storage.restart("source", also="xrootd.fslib throttle default\nthrottle.throttle data 8m")
    ends = {role: {"urls": [storage.url(role)]} for role in ADDRESSES}
    pair = {"name": "loopback", **ends, "source": {**ends["source"], "file": "big"}}
    how = {"tool": tool, "copy_mode": mode, "file_size": 256 * MIB}
    with deployed(storage.settings(pairs=[pair]), tmp_path, **how) as (site, measured):
        with sizes_of(storage.folder / "destination/data/test") as sizes:
            result = measured(Measurement(until="seconds", seconds=13))
        last = site.markers.all[-1]
    source.unlink()
    assert result["status"] == "ok", result["message"]
    assert result["limit"] in ("not_visible", "machine")
    assert result["transfers"]["stream"] == []
    # The sender counts bytes that are in buffers of sockets, or not yet on the disk.
    assert last["bytes"] == pytest.approx(np.interp(last["time"], *zip(*sizes, strict=True)), abs=8 * MIB)
    duration, throughput = (result["summary"][name] for name in ("duration", "throughput_average"))
    assert duration > 8
    assert throughput * duration == pytest.approx(last["bytes"] * 8e-9, rel=0.05)


@contextlib.contextmanager
def sizes_of(folder: Path) -> Iterator[list[tuple[float, int]]]:
    """The bytes of a folder's files, ten times a second."""
    over, found = threading.Event(), list[tuple[float, int]]()

    def look() -> None:
        while not over.wait(0.1):
            with contextlib.suppress(FileNotFoundError):
                sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
                found.append((time.monotonic(), sum(sizes)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def test_a_redirect_to_another_host_is_followed_but_not_in_clear(storage: Storage, tmp_path: Path) -> None:
    with fronted(storage, tmp_path) as (front, settings):
        assert_no_failure(trial.findings(settings))
        with deployed(settings, tmp_path, tool="curl") as (_, measured):
            result = measured(files(40))  # long enough for samples
            assert result["status"] == "ok", result["message"]
            secure, front.door = front.door, front.door.replace("https:", "http:")  # the port speaks both
            result = measured(files(1))
            front.door = secure
            assert result["status"] == "failed"
            assert 'Protocol "http" ' in result["message"]
        assert {"MKCOL", "PUT", "COPY", "DELETE", "PROPFIND"} <= set(front.asked)


def test_macaroons_allow_copies_and_nothing_else(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").symlink_to(storage.pki / "ca.pem")
    folders = {}
    for role in ADDRESSES:
        (tmp_path / f"{role}.token").write_text(
            macaroon(storage, role, macaroon_request(role, Credentials(storage.pki)))
        )
        door = HttpDoors(Credentials(storage.pki), role)
        folders[role] = door.make_folder(NewFolder(storage.url(role), made_up()))
        door.upload(folders[role].file("file"), lambda: [b"precious"], 8)
        storage.restart(role, rights="l")  # XRootD 5.5.3 adds the rights of the user whom a macaroon names
    holder, put = Credentials(tmp_path), {"body": lambda: [b"other"], "size": 5}
    done = set()
    try:
        for mode in ("pull", "push"):
            ends = folders["source"].file("file").url, folders["destination"].file(mode).url
            assert asyncio.run(Copier(holder).copy(Transfer(*ends, mode))) is None
        for role, method, name in itertools.product(ADDRESSES, ("PUT", "GET", "DELETE"), ("file", "new")):
            url, more = folders[role].file(name).url, put if method == "PUT" else {}
            if HttpDoors(holder, role).request(method, url, **more).well:
                done.add(f"{method} {role} {name}")
    finally:
        for role in ADDRESSES:
            storage.restart(role)
    assert done == {"GET source file", "PUT destination new"}
    for role, left in {"source": ["file"], "destination": ["file", "new", "pull", "push"]}.items():
        name = folders[role].name
        assert storage.files(role) == [name, *(f"{name}/{file}" for file in left)]
        content = {(storage.folder / role / "data/test" / name / file).read_bytes() for file in left}
        assert content <= {b"precious", b"other"}
        HttpDoors(Credentials(storage.pki), role).clear(folders[role])


def test_a_busy_server_is_asked_again_after_the_time_that_it_names(storage: Storage, tmp_path: Path) -> None:
    with fronted(storage, tmp_path) as (front, settings):
        front.status, front.retry_after, front.refusals = 503, "1", 2
        began = time.monotonic()
        with deployed(settings, tmp_path, tool="native") as (_, measured):
            assert time.monotonic() - began >= 2
            assert front.asked[:3] == ["OPTIONS"] * 3
            front.only, front.refusals = "COPY", 1
            result = measured(files(40))  # long enough for samples
            assert result["status"] == "ok", result["message"]
            assert "503" in " ".join(result["transfers"]["message"])
            front.status, front.refusals = 429, 1000
            result = measured(files(3))
            assert result["status"] == "failed"
            assert "fewer streams" in result["message"]
            front.only, front.refusals = "DELETE", 2  # of the folders
        assert front.refusals == 0


def test_another_ca_is_found_before_anything_is_sent(storage: Storage, tmp_path: Path) -> None:
    create_credentials(tmp_path / "pki", ADDRESSES.values(), (0, 0))
    settings = storage.settings(ca=str(tmp_path / "pki/ca"))
    with pytest.raises(DoorError, match="Fix: set ca"), deployed(settings, tmp_path):
        raise AssertionError("deployed")
    failed = [row for row in trial.findings(settings) if row.status == "failed"]
    assert "TLS and CA" in {row.check for row in failed}
    assert "certificate" in failed[0].reason and "Fix: set ca" in failed[0].reason
    TESTBED.reap(storage.settings())


def test_a_budget_is_of_the_whole_run_and_of_failed_transfers_too(storage: Storage, tmp_path: Path) -> None:
    with fronted(storage, tmp_path) as (front, settings):
        little = settings.model_copy(update={"budget": Budget(bytes=10 * MIB, time=600)})
        with deployed(little, tmp_path, tool="native", file_size=MIB // 8) as (_, measured):
            assert measured(files(32))["status"] == "ok"  # 4 MiB, and the source file
        with deployed(little, tmp_path, tool="native", file_size=2 * MIB) as (_, measured):
            front.status, front.only, front.refusals = 500, "COPY", 1000
            result = measured(files(2))
            assert "deployment_broken" in result["flags"]
            assert "testbed here: budget.bytes" in result["message"]
            assert "failed transfers included" in result["message"]
        with pytest.raises(BudgetError, match=r"budget\.bytes.*Raise it"), deployed(little, tmp_path):
            raise AssertionError("deployed")
