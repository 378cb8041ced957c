# SPDX-License-Identifier: Apache-2.0
"""The same cell from inside and from outside: between the servers of a deployment across a path of 20 ms."""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.deploying.linux.namespaces import call_in_namespace
from tpcsweep.measuring.cell import measure
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.testbeds.endpoints.settings import Endpoints

from tests.support.sites import MIB, files, site_of
from tests.support.storage import deployed

CELL: dict[str, Any] = {"tool": "native", "streams": 2, "file_size": 4 * MIB}
PATH: dict[str, Any] = {"rtt": 20.0, "bandwidth": 0.05}
FILES = 8


def outside(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    how = {**CELL, **PATH, "pair": "a-b", "source_content": "random"}
    with deployed(Endpoints.model_validate(settings), folder, **how) as (_, measured):
        result: dict[str, Any] = measured(files(FILES))
    return result


def test_cells_from_outside_and_inside_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with site_of(tmp_path, ["native"], CELL["streams"], **PATH) as site:
        asked = Parameters(**CELL, **PATH, source_content="random")

        def inside_cell(prefix: str) -> tuple[float, float]:
            return interval(measure(site, asked, files(FILES), prefix, lambda *_: None).to_json())

        before = inside_cell("c0")
        [urls, *_] = site.pairs("redirector")
        secrets = site.servers.credentials
        ends = {role: {"urls": [url]} for role, url in zip(("source", "destination"), urls, strict=True)}
        settings = {
            "kind": "endpoints",
            "budget": {"bytes": 1 << 40, "time": 600},
            "max_streams": 2,
            "ca": str(secrets / "ca"),
            "credentials": {"proxy": str(secrets / "user.key")},
            "pairs": [{"name": "a-b", **ends, **PATH}],
        }
        # A process that a thread in the namespace forks is there, too, and may handle signals.
        with ProcessPoolExecutor(1, get_context("fork")) as pool:
            begin = partial(pool.submit, outside, settings, tmp_path)
            found = call_in_namespace(f"{site.prefix}-client", begin).result()
        after = inside_cell("c1")
    low, high = interval(found)
    # Other work on the machine slows cells down: the truth of one may be that of the cell before or after it.
    within = (min(before[0], after[0]), max(before[1], after[1]))
    assert within[0] <= high and low <= within[1], f"{low} to {high} outside; inside {before}, then {after}"


def interval(result: dict[str, Any]) -> tuple[float, float]:
    assert result["status"] == "ok", result["message"]
    return result["summary"]["throughput_low"], result["summary"]["throughput_high"]
