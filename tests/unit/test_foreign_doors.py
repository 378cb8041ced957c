# SPDX-License-Identifier: Apache-2.0
"""Storage of others: nothing outside tpcsweep's own new folder is written or deleted, whatever a URL contains."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import ValidationError
from tpcsweep import testbeds
from tpcsweep.configuration.endpoints import Endpoints
from tpcsweep.testbeds.endpoints import ledger, site, trial
from tpcsweep.testbeds.endpoints.doors import DoorError

from tests.support.foreign import Foreign, foreign_door
from tests.support.sites import files
from tests.support.storage import deployed

TESTBED = testbeds.load_testbed("endpoints")
KIB = 1 << 10
PIECES = ("a", "test", "run", "#", "?", "&x=1", ";v=1", "..", ".", "", "%2f", "%2F..", "%23", "%3f", "%00", "%25")
PIECES += ("%2e%2e", "%20", " ", "\\", "é", "\n", "a@b", ":", "~", "{x}", "[1]", "*", "$HOME", "|", "%zz", "'", '"')
PATHS = st.lists(st.lists(st.sampled_from(PIECES), max_size=3).map("".join), max_size=4).map("/".join)
QUICK = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for module in (ledger, site):
        monkeypatch.setattr(module, "LINGER", 0.1)
    yield tmp_path / "state/tpcsweep/endpoints"


def settings(door: Foreign, source: str = "/test", destination: str = "/test", **changes: Any) -> Endpoints:
    ends = {"source": {"urls": [f"{door.url}{source}"]}, "destination": {"urls": [f"{door.url}{destination}"]}}
    content = {"kind": "endpoints", "budget": {"bytes": 1 << 30, "time": 600}, "max_streams": 2}
    return Endpoints.model_validate({**content, "pairs": [{"name": "p", **ends}], **changes})


def configured(door: Foreign, source: str, destination: str) -> Endpoints | None:
    """Settings of folders that are there, as the door reads their paths; None if they are refused."""
    for path in (source, destination):
        door.add(path)
    try:
        return settings(door, source, destination)
    except ValidationError:
        return None


WAYS = st.fixed_dictionaries({
    "cuts": st.sampled_from(["", "#", "?", ";", "&", "#?;&%"]),
    "tidies": st.booleans(),
    "exists": st.sampled_from([405, 201, 200, 409]),
})  # fmt: skip


@examples(max_examples=60, **QUICK)
@given(WAYS, PATHS, PATHS)
def test_check_changes_nothing_of_others(ways: dict[str, Any], source: str, destination: str) -> None:
    with foreign_door(**ways) as door:
        if accepted := configured(door, f"/{source}", f"/{destination}"):
            list(trial.findings(accepted))
        assert door.wrong() == []
        assert door.left == []


@pytest.mark.parametrize("path", ["/test/run", "/a%20b", "/test/run#5", "/test/a;b", "/test//run", "/run%23"])
@pytest.mark.parametrize("cuts", ["", "#;%"])
def test_a_sweep_changes_nothing_of_others(tmp_path: Path, path: str, cuts: str) -> None:
    with foreign_door(cuts=cuts) as door:
        accepted = configured(door, path, path)
        assert bool(accepted) == (path in ("/test/run", "/a%20b"))
        if accepted:
            with deployed(accepted, tmp_path, pair="p", tool="native", file_size=64 * KIB) as (_, measure):
                assert measure(files(3))["summary"]["transfers"] == 3
        assert door.wrong() == door.left == []


@pytest.mark.parametrize("exists", [405, 200, 201])
def test_a_folder_that_exists_under_a_new_name_is_neither_used_nor_deleted(
    tmp_path: Path, exists: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a door that answers for the folder above, because it drops the end of a path."""
    with foreign_door(exists=exists) as door:
        door.add("/test")
        accepted = settings(door)
        read = door.path
        monkeypatch.setattr(door, "path", lambda target: read(target.partition("tpcsweep-")[0]))
        refused = pytest.raises(DoorError, match="Fix: use another URL")
        with refused, deployed(accepted, tmp_path, pair="p", tool="native"):
            raise AssertionError("deployed")
        TESTBED.reap(accepted)
        assert any(row.status == "failed" for row in trial.findings(accepted))
        assert {name for name, content in door.files.items() if content != b"precious"} == set()
        assert door.changed == []
