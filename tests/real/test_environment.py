# SPDX-License-Identifier: Apache-2.0
"""Measured is what was asked for, whatever the user's environment and machine hold for other programs."""

import json
from pathlib import Path

import pytest

from tests.support import hostile
from tests.support.workflow import ROOT, Sweep, finished

SWEEPS: dict[str, dict[str, object]] = {
    "tools": {"tool": ["gfal-copy", "gfal2", "curl", "native", "xrdcp"]},
    "pair": {"tool": ["davix-put", "xrdcp-direct"], "copy_mode": "push"},
    "open": {"tool": ["gfal-copy", "gfal2", "curl"], "authorization": "none"},
    "cluster": {"tool": ["gfal-copy"], "origins": 2, "xrootd": ["system", "5.8.1"]},
}


@pytest.mark.parametrize("name", SWEEPS)
def test_all_cells_are_measured_in_a_hostile_environment(name: str, tmp_path: Path) -> None:
    path = {"rtt": "4 ms", "bandwidth": "200 Mbit/s", "file_size": "8 MiB", "streams": 1}
    how = {"until": "files", "files": 2, "max_time": "10 min"}
    sweep = Sweep(tmp_path).define(parameters=path | SWEEPS[name], measurement=how)
    command = hostile.machine(tmp_path, [ROOT, tmp_path], sweep.command("cells"))
    done = finished(command, env=hostile.environment(tmp_path))
    cells = [json.loads(path.read_bytes()) for path in sweep.cells()]
    assert cells, done.stdout
    assert [cell["message"] for cell in cells if cell["status"] != "ok"] == [], done.stdout
