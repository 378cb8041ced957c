# SPDX-License-Identifier: Apache-2.0
"""Simulated studies, when their cells end, and their layers and tools; SimGrid and the fixed point."""

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import xarray as xr
import yaml
from tpcsweep import dataset, extras
from tpcsweep.configuration.checks import check
from tpcsweep.configuration.loading import Configuration, cell_spec
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.dataset import tables
from tpcsweep.results import parse_content
from tpcsweep.testbeds.simulation import engine
from tpcsweep.testbeds.simulation import testbed as study
from tpcsweep.testbeds.simulation.engine import CellError, Engine, SimulationError
from tpcsweep.testbeds.simulation.model import central, model_cells, terms
from tpcsweep.testbeds.simulation.result import SAMPLES
from tpcsweep.variables import SUMMARY

from tests.support.projects import study_of
from tests.support.simulating import AT_ONCE, PHYSICS, ROOT, fixed_point, folded, simulated_course

Patch = pytest.MonkeyPatch
EXACT = 0.01


def seconds(time: float, interval: float = 0.1) -> Measurement:
    return Measurement(until="seconds", seconds=time, interval=interval)


def files(count: int, max_time: float = 1e5) -> Measurement:
    return Measurement(until="files", files=count, max_time=max_time)


# Alone, sharing a path, waiting for set-ups more than moving bytes, and more than are simulated one by one.
SHARED = (
    Parameters(streams=1, rtt=20, bandwidth=10, file_size=10**9, tcp_buffer=2**26),
    Parameters(streams=20, rtt=20, bandwidth=10, file_size=10**9, tcp_buffer=2**28),
    Parameters(streams=300, rtt=5, bandwidth=400, file_size=2 * 10**7, tcp_buffer=2**28, origins=4, cores=32),
    Parameters(streams=500, rtt=60, bandwidth=100, file_size=10**9, tcp_buffer=2**28, origins=2, cores=64),
)


@pytest.mark.parametrize("one", SHARED[:3])
def test_a_cell_of_some_time_has_the_throughput_of_the_fixed_point(simgrid: Engine, one: Parameters) -> None:
    found = simulated_course(simgrid, one, seconds(60))
    assert found.duration == pytest.approx(60)
    assert found.throughput == pytest.approx(fixed_point(one), rel=0.03)
    assert found.steady
    # With its ramp-up a cell has less, and in its best second not less than on average.
    assert found.average < found.throughput <= found.largest * (1 + EXACT)
    assert found.goodput.size == 600
    assert found.goodput.mean() == pytest.approx(found.average, rel=EXACT)
    assert found.goodput.max() <= fixed_point(one.model_copy(update={"file_size": 10**13})) * (1 + EXACT)
    assert not found.rows


def test_the_warm_up_is_the_first_set_up_and_slow_start(simgrid: Engine) -> None:
    one = SHARED[0]
    at = terms(np.array([fixed_point(one)]), model_cells([one]), central(PHYSICS), "path")
    expected = float(at.setup[0] + at.rounds[0] * 0.02)
    found = simulated_course(simgrid, one, seconds(60))
    assert found.warmup == pytest.approx(expected, rel=EXACT)
    assert (found.goodput[: int(float(at.setup[0]) / 0.1)] == 0).all()
    # One of half of a cell or more is not cut, and the cell says so.
    short = simulated_course(simgrid, one, seconds(1.5 * expected))
    assert (short.steady, short.warmup) == (False, 0.0)
    assert short.throughput == pytest.approx(short.average)


def test_samples_of_a_long_cell_stay_bounded_and_lose_no_byte(simgrid: Engine) -> None:
    one = SHARED[1]
    fine = simulated_course(simgrid, one, seconds(24, interval=0.002))
    coarse = simulated_course(simgrid, one, seconds(24))
    assert 5000 <= fine.goodput.size < 10_000
    assert fine.goodput.sum() * fine.step == pytest.approx(coarse.goodput.sum() * coarse.step, rel=EXACT)
    assert fine.throughput == pytest.approx(coarse.throughput, rel=1e-6)


def test_a_cell_of_some_files_ends_with_the_last_and_lists_each(simgrid: Engine) -> None:
    one = SHARED[0]
    found = simulated_course(simgrid, one, files(4))
    whole = 8 / fixed_point(one)  # 10⁹ bytes, alone
    assert found.duration == pytest.approx(4 * whole, rel=EXACT)
    assert (found.complete, found.transfers) == (True, 4)
    rows = np.array(found.rows)
    assert rows[:, :2].tolist() == [[0, number] for number in range(4)]
    assert rows[1:, 2] == pytest.approx(rows[:-1, 4])  # each begins as the one before ends
    assert rows[:, 4] - rows[:, 2] == pytest.approx(whole, rel=EXACT)
    setup = float(terms(np.zeros(1), model_cells([one]), central(PHYSICS), "path").setup[0])
    assert rows[:, 3] - rows[:, 2] == pytest.approx(setup, rel=EXACT)


def test_streams_that_are_done_leave_the_path_to_the_others(simgrid: Engine) -> None:
    # Three streams on two origins: two share the cores of one, and the third is done first.
    one = Parameters(streams=3, origins=2, cores=2, bandwidth=400, file_size=10**10, tcp_buffer=2**30)
    found = simulated_course(simgrid, one, files(1), AT_ONCE)
    ends = sorted(row[4] for row in found.rows)
    assert ends[0] < 0.6 * ends[2]
    assert ends[1] == pytest.approx(ends[2], rel=EXACT)
    assert found.average == pytest.approx(3 * 80 / ends[2], rel=EXACT)


def test_files_that_are_missing_when_time_is_up_are_flagged(simgrid: Engine) -> None:
    found = simulated_course(simgrid, SHARED[1], files(50, max_time=30))
    assert not found.complete
    assert found.duration == pytest.approx(30)
    assert found.transfers < 50 * 20
    # Streams in groups are not listed, and count with those that they stand for.
    grouped = simulated_course(simgrid, SHARED[3], files(2))
    assert (grouped.rows, grouped.transfers, grouped.complete) == ((), 1000, True)


STREAMS = [1, 3, 8, 40, 200]
ASKED = {"streams": STREAMS, "rtt": [1, 60], "cores": 16, "bandwidth": 20, "file_size": "1 GB"}
THIRTY = {"until": "seconds", "seconds": 30}


def asked(folder: Path, measurement: dict[str, Any] | None = None, **parameters: Any) -> Configuration:
    return study_of(folder, "simulation", parameters=ASKED | parameters, measurement=measurement or {})


def test_what_would_take_too_long_to_simulate_is_refused_with_what_to_do(tmp_path: Path) -> None:
    hour, small = {"until": "seconds", "seconds": "1 h"}, {"streams": [1, 32], "rtt": 1, "file_size": "1 MB"}
    [problem] = check(asked(tmp_path, hour, **small))
    assert "streams=32" in str(problem)
    assert "larger ones (file_size)" in str(problem)
    assert not check(asked(tmp_path, hour, **small | {"file_size": "1 GB"}))
    for shorter in (THIRTY, {"until": "files", "files": 9, "max_time": "1 h"}, None):
        assert not check(asked(tmp_path, shorter, **small))


def test_single_transfers_reach_the_dataset_and_their_tables_say_simulated(tmp_path: Path) -> None:
    three = {"until": "files", "files": 3, "max_time": "1 h"}
    made = folded(asked(tmp_path, three, streams=[2, 40], rtt=20), tmp_path)
    dataset.write(made, tmp_path / "dataset.nc")
    transfers = xr.load_dataset(tmp_path / "dataset.nc", group=dataset.TRANSFERS_GROUP)
    assert transfers.sizes["transfer"] == 2 * 3  # those of 40 streams move in groups
    assert set(transfers.streams.values) == {2}
    assert (transfers.ok == 1).all() and (transfers["size"] == 10**9).all()
    assert transfers.xrootd_begin.isnull().all() and (transfers.xrootd_direction == "").all()
    assert transfers.rate.values == pytest.approx(8 / transfers.total.values)
    shown = tables.transfers_of_cell(transfers, 0), tables.transfer_means(transfers)
    assert all("simulated" in table.to_html() for table in shown)
    summary = made.summary.isel(repetition=0)
    assert summary.transfers.values.tolist() == [6, 120]
    assert (summary.throughput_average < summary.throughput).all()


def test_the_tests_of_2007_say_what_bound_them(tmp_path: Path) -> None:
    content = yaml.safe_load((ROOT / "config/published/usatlas2007.yaml").read_text())
    content["parameters"] |= {"tcp_buffer": ["64 KiB", "8 MB"], "streams": [1, 12]}
    configured = study_of(tmp_path, "simulation-usatlas2007", **content)
    summary = folded(configured, tmp_path).summary.isel(repetition=0)
    tuned = summary.sel(tcp_buffer=8_000_000, streams=12)
    bound = {str(at): {*tuned.limit.sel(layer=at).values.tolist()} - {""} for at in tuned.layer.values}
    assert bound["network"] == bound["memory_to_memory"] == {"bandwidth"}
    assert bound["memory_to_disk"] == bound["disk_to_disk"] == {"disk"}
    untuned = summary.sel(tcp_buffer=65536, streams=1, layer="network", tool="iperf3")
    assert (untuned.limit, untuned.transfers, untuned.fairness.isnull()) == ("window", 0, True)
    assert (summary.duration.fillna(120) == 120).all()


def specs(cells: list[dict[str, Any]]) -> list[Any]:
    return [cell["spec"] for cell in cells]


def computed_cells(configuration: Configuration, folder: Path, processes: int = 1) -> list[dict[str, Any]]:
    study.simulate(configuration, folder / "cells.jsonl", folder, processes)
    assert sorted(file.name for file in folder.iterdir() if "cells" in file.name) == ["cells.jsonl"]
    return [parse_content(line) for line in (folder / "cells.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("measurement", [None, THIRTY])
def test_cells_are_in_the_order_of_the_grid(tmp_path: Path, measurement: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr(study, "AT_ONCE", 3)
    if measurement is None:  # cells until steady need no SimGrid
        monkeypatch.setattr(engine, "SIMGRID_PYTHON", "/nowhere")
    configuration = asked(tmp_path, measurement)
    cells = computed_cells(configuration, tmp_path, processes=2)
    assert specs(cells) == [cell_spec(configuration, one) for one in configuration.grid.cells]
    for cell in cells:
        about = cell["format"], cell["status"], cell["flags"], cell["summary"]["attempts"]
        assert about == (1, "ok", [], 1)
        assert cell["summary"].keys() == SUMMARY.keys() and cell["limit"]
        assert ("simgrid" in cell["provenance"]["software"]) == bool(measurement)
        # A constant course needs few samples.
        assert measurement or 1 <= len(cell["samples"]["goodput"]) <= SAMPLES


def test_a_new_value_computes_the_new_cells_only_and_another_order_none(tmp_path: Path) -> None:
    file = tmp_path / "cells.jsonl"
    before = computed_cells(asked(tmp_path), tmp_path)
    started = {cell["provenance"]["started"] for cell in before}
    file.write_bytes(file.read_bytes().rstrip())  # whatever editor has dropped the last end of line
    turned = asked(tmp_path, streams=STREAMS[::-1], rtt=[60, 1])
    after = computed_cells(turned, tmp_path)
    assert specs(after) == [cell_spec(turned, cell) for cell in turned.grid.cells]
    assert sorted(map(orjson.dumps, after)) == sorted(map(orjson.dumps, before))
    more = asked(tmp_path, rtt=[0.5, 1, 60], streams=[*STREAMS, 300])
    cells = computed_cells(more, tmp_path)
    assert specs(cells) == [cell_spec(more, cell) for cell in more.grid.cells]
    assert [cell for cell in cells if cell["provenance"]["started"] in started] == before
    # Another fixed parameter changes every cell, and a smaller grid drops lines.
    assert not [cell for cell in computed_cells(asked(tmp_path, mtu=1500), tmp_path) if cell in cells]
    assert len(computed_cells(asked(tmp_path, mtu=1500, rtt=1), tmp_path)) == len(STREAMS)


def test_a_cell_that_simgrid_refuses_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = study.cell_plan
    plan = lambda one, *rest: usual(one, *rest) | ({"phases": []} if one.streams == 8 else {})  # noqa: E731
    monkeypatch.setattr(study, "cell_plan", plan)
    configuration = asked(tmp_path, THIRTY, rtt=1)
    [failed] = [cell for cell in computed_cells(configuration, tmp_path) if cell["status"] == "failed"]
    assert failed["spec"]["parameters"]["streams"] == 8 and "exit code 1" in failed["message"]
    summary = folded(configuration, tmp_path).summary
    assert summary["status"].sel(streams=8).item() == 2 and summary["throughput"].isnull().sum() == 1


PYTHONS = [(sys.executable, r"make setup EXTRAS=simulation`$"), ("/nowhere", "cannot be run")]


@pytest.mark.parametrize(("python", "said"), PYTHONS)
def test_without_simgrid_it_is_asked_for(tmp_path: Path, monkeypatch: Patch, python: str, said: str) -> None:
    for module in (engine, extras):
        monkeypatch.setattr(module, "SIMGRID_PYTHON", python)
    with pytest.raises(SimulationError, match=said) as caught:
        study.simulate(asked(tmp_path, THIRTY), tmp_path / "cells.jsonl", tmp_path, 2)
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
    configuration = asked(tmp_path, THIRTY, rtt=1)
    with pytest.raises(SimulationError, match="has ended"):
        study.simulate(configuration, tmp_path / "cells.jsonl", tmp_path, 1)
    assert not (tmp_path / "cells.jsonl").exists()
    monkeypatch.setattr(Engine, "simulate", lambda *given: computed.append(usual(*given)) or computed[-1])
    assert len(computed_cells(configuration, tmp_path)) == len(computed) == len(STREAMS)


def killed(configuration: Configuration, folder: Path) -> None:
    """Compute two cells at a time, and be killed while the third two are computed."""
    usual, left = study._Lines.compute, [2]

    def texts(*given: Any) -> list[bytes]:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return usual(*given)

    study._Lines.compute, study.AT_ONCE = texts, 2
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
    cells = computed_cells(configuration, tmp_path)
    assert len(cells) == 10
    started, again = ([one["provenance"]["started"] for one in of] for of in (kept, cells))
    assert again[: len(kept)] == started
    lines = (tmp_path / "cells.jsonl").read_bytes().splitlines()
    lines[:6] = [b"{", lines[1].replace(b'"ok"', b'"OK"'), b"\xff", b'{"spec":7}', b"[]", b"null"]
    (tmp_path / "cells.jsonl").write_bytes(b"\n".join(lines))
    again = computed_cells(configuration, tmp_path)
    assert {cell["status"] for cell in again} == {"ok"}
    assert [cell["summary"] for cell in again] == [cell["summary"] for cell in cells]
