# SPDX-License-Identifier: Apache-2.0
"""Simulated studies: when their cells end, their layers and tools, and jobs that are killed."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import xarray as xr
import yaml
from tpcsweep.data import folding, labels, tables
from tpcsweep.data.cell_files import parse_content
from tpcsweep.data.variables import SUMMARY
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.testbeds.simulation import testbed as study
from tpcsweep.testbeds.simulation.fixed_point import central, model_cells, terms
from tpcsweep.testbeds.simulation.result import SAMPLES

from tests.support.projects import study_of
from tests.support.simulating import PHYSICS, ROOT, folded

STREAMS = [1, 3, 8, 40, 200]
ASKED = {"streams": STREAMS, "rtt": [1, 60], "cores": 16, "bandwidth": 20, "file_size": "1 GB"}


def asked(folder: Path, measurement: dict[str, Any] | None = None, **parameters: Any) -> SweepStudy:
    return study_of(folder, "simulation", parameters=ASKED | parameters, measurement=measurement or {})


FILES = {"until": "files", "files": 3, "max_time": "1 h"}


@pytest.mark.parametrize(
    ("measurement", "files", "flags"),
    [
        ({}, 1, []),  # steady from its start
        (FILES, 3, []),
        (FILES | {"files": 3000}, None, ["files_missing"]),
        ({"until": "seconds", "seconds": "1 h"}, None, []),
    ],
)
def test_a_cell_lasts_as_long_as_its_files_or_its_time(
    tmp_path: Path, measurement: dict[str, Any], files: int | None, flags: list[str]
) -> None:
    [cell] = computed_cells(asked(tmp_path, measurement, streams=40, rtt=20), tmp_path)
    summary, rate = cell["summary"], cell["summary"]["throughput"]
    each = 40 * 8 / rate  # seconds of 10⁹ bytes
    assert summary["duration"] == pytest.approx(files * each if files else 3600, rel=1e-5)
    assert summary["transfers"] == 40 * (files or 3600 // each)
    assert summary["throughput_average"] == summary["throughput_max"] == rate
    assert (summary["warmup"], summary["fairness"], cell["flags"]) == (0, 1, flags)
    assert set(cell["samples"]["goodput"]) == {rate} and len(cell["samples"]["time"]) <= SAMPLES


def test_single_transfers_reach_the_dataset_and_their_tables_say_simulated(tmp_path: Path) -> None:
    made = folded(asked(tmp_path, FILES, streams=[2, 40], rtt=20), tmp_path)
    folding.write(made, tmp_path / "dataset.nc")
    transfers = xr.load_dataset(tmp_path / "dataset.nc", group=labels.TRANSFERS_GROUP)
    assert transfers.sizes["transfer"] == (2 + 40) * 3
    assert (transfers.ok == 1).all() and (transfers["size"] == 10**9).all()
    assert transfers.xrootd_begin.isnull().all() and (transfers.xrootd_direction == "").all()
    assert transfers.rate.values == pytest.approx(8 / transfers.total.values)
    # Each begins as the one before ends, and the first bytes come after the set-up.
    of_one = transfers.isel(transfer=(transfers.streams == 2) & (transfers.stream == 1))
    assert of_one.start.values[1:] == pytest.approx(of_one.end.values[:-1])
    setup = terms(np.zeros(1), model_cells([Parameters(rtt=20, cores=16)]), central(PHYSICS), "path").setup
    assert (of_one.first_byte - of_one.start).values == pytest.approx(setup.repeat(3), rel=1e-4)
    shown = tables.transfers_of_cell(transfers, 0), tables.transfer_means(transfers)
    assert all("simulated" in table.to_html() for table in shown)


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


def computed_cells(configuration: SweepStudy, folder: Path, processes: int = 1) -> list[dict[str, Any]]:
    study.simulate(configuration, folder / "cells.jsonl", processes)
    assert sorted(file.name for file in folder.iterdir() if "cells" in file.name) == ["cells.jsonl"]
    return [parse_content(line) for line in (folder / "cells.jsonl").read_bytes().splitlines()]


def test_cells_are_in_the_order_of_the_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "AT_ONCE", 3)
    configuration = asked(tmp_path)
    cells = computed_cells(configuration, tmp_path, processes=2)
    assert specs(cells) == [cell_spec(configuration, one) for one in configuration.grid.cells]
    for cell in cells:
        about = cell["format"], cell["status"], cell["flags"], cell["summary"]["attempts"]
        assert about == (1, "ok", [], 1)
        assert cell["summary"].keys() == SUMMARY.keys() and cell["limit"]


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


def killed(configuration: SweepStudy, folder: Path) -> None:
    """Compute two cells at a time, and be killed while the third two are computed."""
    usual, left = study.results, [2]

    def results(*given: Any) -> Any:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return usual(*given)

    study.results, study.AT_ONCE = results, 2
    study.simulate(configuration, folder / "cells.jsonl", 1)


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
