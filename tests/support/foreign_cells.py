# SPDX-License-Identifier: Apache-2.0
"""Testbeds, cells and the state of tests at a door of somebody else."""

from pathlib import Path
from typing import Any

import pytest
from tpcsweep.testbeds.endpoints import large_file
from tpcsweep.testbeds.endpoints.settings import Endpoints

from tests.support.foreign import Foreign
from tests.support.sites import files
from tests.support.storage import deployed, linger

KIB = 1 << 10


def own_state(folder: Path, patched: pytest.MonkeyPatch) -> Path:
    """Keep ledgers in a folder, and return their place; no test waits for servers, or copies large files."""
    patched.setenv("XDG_STATE_HOME", str(folder / "state"))
    linger(patched, 0.1)
    patched.setattr(large_file, "LARGE", 1152 * KIB)
    return folder / "state/tpcsweep/endpoints"


def settings(door: Foreign, source: str = "/test", destination: str = "/test", **changes: Any) -> Endpoints:
    ends = {
        "source": {"urls": [f"{door.url}{source}"]},
        "destination": {"urls": [f"{door.url}{destination}"]},
    }
    content = {"kind": "endpoints", "budget": {"bytes": 1 << 30, "time": 600}, "max_streams": 2}
    return Endpoints.model_validate({**content, "pairs": [{"name": "p", **ends}], **changes})


def cell(door: Foreign, folder: Path, tool: str = "native", **changes: Any) -> dict[str, Any]:
    """A cell between two folders of a door."""
    door.add("/test")
    with deployed(settings(door, **changes), folder, pair="p", tool=tool, file_size=64 * KIB) as (_, measure):
        result: dict[str, Any] = measure(files(3))
    assert door.wrong() == door.left == []
    return result
