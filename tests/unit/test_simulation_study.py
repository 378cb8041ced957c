# SPDX-License-Identifier: Apache-2.0
"""A simulated study: all cells in one file, those that are there reused, failures, and a job that is killed."""

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from tpcsweep import extras
from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.results import content_of
from tpcsweep.testbeds.simulation import engine
from tpcsweep.testbeds.simulation import testbed as study
from tpcsweep.testbeds.simulation.engine import CellError, Engine, SimulationError
from tpcsweep.testbeds.simulation.result import SAMPLES
from tpcsweep.variables import SUMMARY

from tests.support.projects import study_of
from tests.support.simulating import folded

Patch = pytest.MonkeyPatch
STREAMS = [1, 3, 8, 40, 200]
ASKED: dict[str, Any] = {"streams": STREAMS, "rtt": [1, 60], "cores": 16, "bandwidth": 20}
ASKED["file_size"] = "1 GB"
SECONDS = {"until": "seconds", "seconds": 30}


def asked(folder: Path, measurement: dict[str, Any] | None = None, **parameters: Any) -> Configuration:
    asked = ASKED | parameters
    return study_of(folder, "simulation", parameters=asked, measurement=measurement or {})


def specs(cells: list[dict[str, Any]]) -> list[Any]:
    return [cell["spec"] for cell in cells]


def simulated(configuration: Configuration, folder: Path, processes: int = 1) -> list[dict[str, Any]]:
    study.simulate(configuration, folder / "cells.jsonl", folder, processes)
    assert sorted(file.name for file in folder.iterdir() if "cells" in file.name) == ["cells.jsonl"]
    return [content_of(line) for line in (folder / "cells.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("measurement", [None, SECONDS])
def test_cells_are_in_the_order_of_the_grid(tmp_path: Path, measurement: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr(study, "AT_ONCE", 3)
    if measurement is None:  # cells until steady need no SimGrid
        monkeypatch.setattr(engine, "SIMGRID_PYTHON", "/nowhere")
    configuration = asked(tmp_path, measurement)
    cells = simulated(configuration, tmp_path, processes=2)
    assert specs(cells) == [wanted(configuration, one) for one in configuration.grid.cells]
    for cell in cells:
        about = cell["format"], cell["status"], cell["flags"], cell["summary"]["attempts"]
        assert about == (1, "ok", [], 1)
        assert cell["summary"].keys() == SUMMARY.keys() and cell["limit"]
        assert ("simgrid" in cell["provenance"]["software"]) == bool(measurement)
        # A constant course needs few samples.
        assert measurement or 1 <= len(cell["samples"]["goodput"]) <= SAMPLES


def test_a_new_value_computes_the_new_cells_only_and_another_order_none(tmp_path: Path) -> None:
    file = tmp_path / "cells.jsonl"
    before = simulated(asked(tmp_path), tmp_path)
    started = {cell["provenance"]["started"] for cell in before}
    file.write_bytes(file.read_bytes().rstrip())  # whatever editor has dropped the last end of line
    turned = asked(tmp_path, streams=STREAMS[::-1], rtt=[60, 1])
    after = simulated(turned, tmp_path)
    assert specs(after) == [wanted(turned, cell) for cell in turned.grid.cells]
    assert sorted(map(orjson.dumps, after)) == sorted(map(orjson.dumps, before))
    more = asked(tmp_path, rtt=[0.5, 1, 60], streams=[*STREAMS, 300])
    cells = simulated(more, tmp_path)
    assert specs(cells) == [wanted(more, cell) for cell in more.grid.cells]
    assert [cell for cell in cells if cell["provenance"]["started"] in started] == before
    # Another fixed parameter changes every cell, and a smaller grid drops lines.
    assert not [cell for cell in simulated(asked(tmp_path, mtu=1500), tmp_path) if cell in cells]
    assert len(simulated(asked(tmp_path, mtu=1500, rtt=1), tmp_path)) == len(STREAMS)


def test_a_cell_that_simgrid_refuses_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = study.cell_plan
    plan = lambda one, *rest: usual(one, *rest) | ({"phases": []} if one.streams == 8 else {})  # noqa: E731
    monkeypatch.setattr(study, "cell_plan", plan)
    configuration = asked(tmp_path, SECONDS, rtt=1)
    [failed] = [cell for cell in simulated(configuration, tmp_path) if cell["status"] == "failed"]
    assert failed["spec"]["parameters"]["streams"] == 8 and "exit code 1" in failed["message"]
    summary = folded(configuration, tmp_path).summary
    assert summary["status"].sel(streams=8).item() == 2 and summary["throughput"].isnull().sum() == 1


PYTHONS = [(sys.executable, r"make setup EXTRAS=simulation`$"), ("/nowhere", "cannot be run")]


@pytest.mark.parametrize(("python", "said"), PYTHONS)
def test_without_simgrid_it_is_asked_for(tmp_path: Path, monkeypatch: Patch, python: str, said: str) -> None:
    for module in (engine, extras):
        monkeypatch.setattr(module, "SIMGRID_PYTHON", python)
    with pytest.raises(SimulationError, match=said) as caught:
        study.simulate(asked(tmp_path, SECONDS), tmp_path / "cells.jsonl", tmp_path, 2)
    assert not isinstance(caught.value, CellError)
    assert not (tmp_path / "cells.jsonl").exists()


def test_computed_cells_outlive_a_simgrid_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, computed = Engine.simulate, []

    def simulate(simgrid: Engine, cell: Any) -> dict[str, Any]:
        if len(computed) == 2:
            simgrid._process.kill()
        computed.append(usual(simgrid, cell))
        return computed[-1]

    monkeypatch.setattr(Engine, "simulate", simulate)
    configuration = asked(tmp_path, SECONDS, rtt=1)
    with pytest.raises(SimulationError, match="has ended"):
        study.simulate(configuration, tmp_path / "cells.jsonl", tmp_path, 1)
    assert not (tmp_path / "cells.jsonl").exists()
    monkeypatch.setattr(Engine, "simulate", lambda *given: computed.append(usual(*given)) or computed[-1])
    assert len(simulated(configuration, tmp_path)) == len(computed) == len(STREAMS)


def killed(configuration: Configuration, folder: Path) -> None:
    """Compute two cells at a time, and be killed while the third two are computed."""
    usual, left = study._Lines.of, [2]

    def texts(*given: Any) -> list[bytes]:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return usual(*given)

    study._Lines.of, study.AT_ONCE = texts, 2  # type: ignore[assignment]
    study.simulate(configuration, folder / "cells.jsonl", folder, 1)


def test_cells_of_a_killed_job_are_kept_and_damaged_lines_computed_again(tmp_path: Path) -> None:
    configuration = asked(tmp_path)
    child = multiprocessing.get_context("fork").Process(target=killed, args=(configuration, tmp_path))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    [left] = tmp_path.glob(".cells.jsonl.*")
    with left.open("ab") as file:
        file.write(b'{"spec":{"form')  # a line that was being written
    kept = [orjson.loads(line) for line in left.read_bytes().splitlines()[1:-1]]
    cells = simulated(configuration, tmp_path)
    assert len(cells) == 10
    started, again = ([one["provenance"]["started"] for one in of] for of in (kept, cells))
    assert again[: len(kept)] == started
    lines = (tmp_path / "cells.jsonl").read_bytes().splitlines()
    lines[:6] = [b"{", lines[1].replace(b'"ok"', b'"OK"'), b"\xff", b'{"spec":7}', b"[]", b"null"]
    (tmp_path / "cells.jsonl").write_bytes(b"\n".join(lines))
    again = simulated(configuration, tmp_path)
    assert {cell["status"] for cell in again} == {"ok"}
    assert [cell["summary"] for cell in again] == [cell["summary"] for cell in cells]
