# SPDX-License-Identifier: Apache-2.0
"""Doors of others that are busy: their pauses hold requests and copies of all runs, and runs share their streams."""

import itertools
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from tpcsweep.common import processes
from tpcsweep.common.errors import BrokenError
from tpcsweep.common.urls import MadeFolder, door_of, made_up
from tpcsweep.measuring.tools.http_tpc import failure
from tpcsweep.testbeds.endpoints import ledger, pauses, trial
from tpcsweep.testbeds.endpoints.doors import DoorError
from tpcsweep.testbeds.endpoints.pauses import BusyDoorError
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.endpoints.shared_doors import SharedDoors

from tests.support.foreign import Foreign, Handler, foreign_door
from tests.support.foreign_cells import KIB, cell, own_state, settings
from tests.support.sites import files
from tests.support.storage import deployed


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_state(tmp_path, monkeypatch)


def test_a_refusal_without_a_body_ends_with_its_pause() -> None:
    text = failure(503, "Service Unavailable", b"", {"retry-after": "20"})
    assert text == "HTTP 503 Service Unavailable, asks for a pause of 20 s"
    text = failure(503, "Service Unavailable", b"full", {"retry-after": "20"})
    assert text == "HTTP 503 Service Unavailable, asks for a pause of 20 s: full"


def copies(door: Foreign) -> int:
    return sum(method == "COPY" for method, *_ in door.asked)


@pytest.mark.parametrize(("tool", "refusals"), [("native", 1), ("curl", 1), ("gfal-copy", 2), ("gfal2", 2)])
def test_copies_wait_as_the_door_asks(
    tmp_path: Path, tool: str, refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gfal2 hides the header, so the door is asked once more, for a copy that no server can carry out."""
    with foreign_door(refused=("COPY",), refusal=429, refusals=refusals, retry_after="2") as door:
        times = list[float]()
        copy = Handler.on_copy
        monkeypatch.setattr(Handler, "on_copy", lambda *a: times.append(time.monotonic()) or copy(*a))
        began = time.monotonic()
        result = cell(door, tmp_path, tool)
    assert result["summary"]["transfers"] == 3
    assert "asks for a pause of 2 s" in " ".join(result["transfers"]["message"])
    assert times[0] - began >= 2
    assert result["summary"]["waited_share"] == pytest.approx(2 / result["summary"]["duration"], rel=0.15)
    assert "waited" in result["flags"]
    own = [headers for method, path, headers in door.asked if method == "COPY" and path.endswith(".busy")]
    assert len(own) == refusals - 1
    assert not any({"Source", "Destination"} & headers.keys() for headers in own)


@pytest.mark.parametrize("tool", ["gfal-copy", "native"])
def test_a_door_that_does_not_say_how_long_is_asked_again_later(tmp_path: Path, tool: str) -> None:
    with foreign_door(refused=("COPY",), refusals=1) as door:
        result = cell(door, tmp_path, tool)
    assert (result["summary"]["transfers"], result["summary"]["transfers_failed"]) == (3, 1)
    assert result["summary"]["waited_share"] == 0 and "waited" not in result["flags"]
    assert "asks for a pause" not in " ".join(result["transfers"]["message"])


def test_a_pause_of_own_requests_holds_copies_and_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, copy = list[float](), Handler.on_copy
    monkeypatch.setattr(Handler, "on_copy", lambda *a: times.append(time.monotonic()) or copy(*a))
    with foreign_door(retry_after="4") as door:
        door.add("/test")
        with deployed(settings(door), tmp_path, pair="p", tool="native", file_size=KIB) as (_, measure):
            door.refused, door.refusals = ("DELETE",), 1
            result = measure(files(20))
    assert result["summary"]["transfers"] == 20
    assert f"{door_of(door.url)} asked for a pause of 4 s" in result["message"]
    assert any(later - earlier >= 2 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("seconds", [0.3, 600])
def test_checks_and_reap_keep_a_pause_that_a_run_was_asked_for(seconds: float) -> None:
    with foreign_door() as door, foreign_door() as other:
        for one in (door, other):
            one.add("/test")
        pairs = [
            pair.model_copy(update={"name": name})
            for one, name in ((door, "p"), (other, "q"))
            for pair in settings(one).pairs
        ]
        content = settings(door).model_dump() | {"pairs": [pair.model_dump() for pair in pairs]}
        both = Endpoints.model_validate(content)
        pauses.ask(door_of(door.url), seconds)
        rows = list(trial.findings(both))
        failed = [(row.pair, row.check) for row in rows if row.status == "failed"]
        if seconds < 1:
            assert failed == []
            return
        assert failed == [("p", "accepts requests")] * 2
        assert all(
            re.search(r"asks for a pause of \d+ s. Fix: try again later", row.reason)
            for row in rows
            if row.status == "failed"
        )
        assert any(row.pair == "q" and row.check == "pull, 64 MiB" and row.status == "ok" for row in rows)
        file = ledger.place() / "x.json"
        ledger.Entry(
            file, "here", "p", {"source": MadeFolder(f"{door.url}/test", made_up())}, "/none"
        ).write()
        assert "asks for a pause" in ledger.reap(both)[1][0]
        assert door.asked == []


@pytest.mark.parametrize("form", ["600", "date"])
@pytest.mark.parametrize("tool", ["native", "curl"])
def test_a_long_pause_ends_the_cell_and_holds_the_door_for_all_runs(
    tmp_path: Path, tool: str, form: str
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    after = form if form == "600" else later
    how = {"pair": "p", "tool": tool, "file_size": KIB, "streams": 2}
    with foreign_door(refused=("COPY",), refusal=503, retry_after=after) as door, foreign_door() as other:
        door.add("/test")
        other.add("/test")
        with deployed(settings(door), tmp_path, **how) as (_, measure):
            result = measure(files(1))
            assert result["status"] == "failed"
            assert re.search(r"asks for a pause of (600|59\d) s", result["message"])
            assert copies(door) <= 2, "one for each stream"
            before = copies(door)
            with pytest.raises(BusyDoorError, match=r"asks for a pause of \d+ s. Fix: measure later"):
                measure(files(1))
        asked = len(door.asked)
        refused = pytest.raises(BusyDoorError, match=door.url.partition("//")[2])
        with refused, deployed(settings(door), tmp_path, **how):
            raise AssertionError("deployed")
        assert (copies(door), len(door.asked)) == (before, asked)
        with deployed(settings(other), tmp_path, **how) as (_, measure):
            assert measure(files(1))["summary"]["transfers"] == 2, "other doors do not wait"


def test_own_requests_do_not_insist_on_a_door_that_asks_for_a_long_pause(tmp_path: Path) -> None:
    with foreign_door(refused=("MKCOL",), retry_after="600") as door:
        refused = pytest.raises(DoorError, match=r"MKCOL .* asks for a pause of 600 s")
        with refused, deployed(settings(door), tmp_path, pair="p"):
            raise AssertionError("deployed")
        assert [method for method, *_ in door.asked].count("MKCOL") == 1


def test_runs_of_others_in_a_folder_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with foreign_door() as door:
        door.add(f"/test/{(other := made_up())}")
        with deployed(settings(door), tmp_path, pair="p") as (found, _):
            notes = found.provenance["endpoints"]["other_runs"]
    assert len(notes) == 2 and all(f"1 other run in {door.url}/test" in note for note in notes)
    assert other in capsys.readouterr().out


MOST = dict.fromkeys(["a:443", "b:443", "c:443"], 4)
HOLD = """
import pathlib, sys, time
from tpcsweep.testbeds.endpoints.shared_doors import SharedDoors
with SharedDoors(pathlib.Path(sys.argv[1]), "x").streams({"a:443": 4}, {"a:443": 4}, print):
    print("in", flush=True)
    time.sleep(60)
"""


def test_runs_of_a_user_share_the_streams_of_a_door(tmp_path: Path) -> None:
    first, second = (SharedDoors(tmp_path, name) for name in ("one", "two"))
    said = list[str]()

    def give_up() -> None:
        raise BrokenError("still waiting")

    with first.streams({"a:443": 3, "b:443": 3}, MOST, said.append):
        with second.streams({"a:443": 1}, MOST, said.append), second.streams({"c:443": 4}, MOST, said.append):
            assert said == []
        with pytest.raises(BrokenError), second.streams({"b:443": 2}, MOST, said.append, give_up):
            raise AssertionError("five streams")
        assert re.fullmatch(
            r"waiting for 3 streams of other runs at b:443 \(testbed one, pid \d+\), as max_streams is 4",
            said[0],
        )
    with second.streams({"b:443": 4}, MOST, said.append, give_up):
        pass
    pipes = {"stdout": subprocess.PIPE}
    with processes.start(
        [sys.executable, "-c", HOLD, str(tmp_path)], processes.python(tmp_path), **pipes
    ) as run:
        assert run.stdout and run.stdout.readline() == b"in\n"
        with pytest.raises(BrokenError), second.streams({"a:443": 1}, MOST, said.append, give_up):
            raise AssertionError("five streams")
        run.kill()
    with second.streams({"a:443": 4}, MOST, said.append, give_up):
        pass
