# SPDX-License-Identifier: Apache-2.0
"""When simulated cells end: after a time, after files, and what their figures, samples and transfers are then."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from tpcsweep import dataset
from tpcsweep.configuration.checks import check
from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.dataset import tables
from tpcsweep.testbeds.simulation.engine import Engine
from tpcsweep.testbeds.simulation.model import central, model_cells, terms

from tests.support.projects import study_of
from tests.support.simulating import AT_ONCE, PHYSICS, fixed_point, folded, simulated_course

CLOSE = 0.01


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
    assert found.average < found.throughput <= found.largest * (1 + CLOSE)
    assert found.goodput.size == 600
    assert found.goodput.mean() == pytest.approx(found.average, rel=CLOSE)
    assert found.goodput.max() <= fixed_point(one.model_copy(update={"file_size": 10**13})) * (1 + CLOSE)
    assert not found.rows


def test_the_warm_up_is_the_first_set_up_and_slow_start(simgrid: Engine) -> None:
    one = SHARED[0]
    at = terms(np.array([fixed_point(one)]), model_cells([one]), central(PHYSICS), "path")
    expected = float(at.setup[0] + at.rounds[0] * 0.02)
    found = simulated_course(simgrid, one, seconds(60))
    assert found.warmup == pytest.approx(expected, rel=CLOSE)
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
    assert fine.goodput.sum() * fine.step == pytest.approx(coarse.goodput.sum() * coarse.step, rel=CLOSE)
    assert fine.throughput == pytest.approx(coarse.throughput, rel=1e-6)


def test_a_cell_of_some_files_ends_with_the_last_and_lists_each(simgrid: Engine) -> None:
    one = SHARED[0]
    found = simulated_course(simgrid, one, files(4))
    whole = 8 / fixed_point(one)  # 10⁹ bytes, alone
    assert found.duration == pytest.approx(4 * whole, rel=CLOSE)
    assert (found.complete, found.transfers) == (True, 4)
    rows = np.array(found.rows)
    assert rows[:, :2].tolist() == [[0, number] for number in range(4)]
    assert rows[1:, 2] == pytest.approx(rows[:-1, 4])  # each begins as the one before ends
    assert rows[:, 4] - rows[:, 2] == pytest.approx(whole, rel=CLOSE)
    setup = float(terms(np.zeros(1), model_cells([one]), central(PHYSICS), "path").setup[0])
    assert rows[:, 3] - rows[:, 2] == pytest.approx(setup, rel=CLOSE)


def test_streams_that_are_done_leave_the_path_to_the_others(simgrid: Engine) -> None:
    # Three streams on two origins: two share the cores of one, and the third is done first.
    one = Parameters(streams=3, origins=2, cores=2, bandwidth=400, file_size=10**10, tcp_buffer=2**30)
    found = simulated_course(simgrid, one, files(1), AT_ONCE)
    ends = sorted(row[4] for row in found.rows)
    assert ends[0] < 0.6 * ends[2]
    assert ends[1] == pytest.approx(ends[2], rel=CLOSE)
    assert found.average == pytest.approx(3 * 80 / ends[2], rel=CLOSE)


def test_files_that_are_missing_when_time_is_up_are_flagged(simgrid: Engine) -> None:
    found = simulated_course(simgrid, SHARED[1], files(50, max_time=30))
    assert not found.complete
    assert found.duration == pytest.approx(30)
    assert found.transfers < 50 * 20
    # Streams in groups are not listed, and count with those that they stand for.
    grouped = simulated_course(simgrid, SHARED[3], files(2))
    assert (grouped.rows, grouped.transfers, grouped.complete) == ((), 1000, True)


def configured(folder: Path, measurement: str, parameters: str) -> Configuration:
    content = yaml.safe_load(f"{{parameters: {{{parameters}}}, measurement: {{{measurement}}}}}")
    return study_of(folder, "simulation", **content)


def test_what_would_take_too_long_to_simulate_is_refused_with_what_to_do(tmp_path: Path) -> None:
    hour, small = "until: seconds, seconds: 1 h", "streams: [1, 32], bandwidth: 10, file_size: 1 MB"
    [problem] = check(configured(tmp_path, hour, small))
    assert "streams=32" in str(problem)
    assert "larger ones (file_size)" in str(problem)
    assert not check(configured(tmp_path, hour, small.replace("1 MB", "1 GB")))
    for shorter in ("until: seconds, seconds: 1 min", "until: files, files: 9, max_time: 1 h", ""):
        assert not check(configured(tmp_path, shorter, small))


def test_single_transfers_reach_the_dataset_and_their_tables_say_simulated(tmp_path: Path) -> None:
    asked = "streams: [2, 40], rtt: 20, bandwidth: 10, file_size: 1 GB"
    made = folded(configured(tmp_path, "until: files, files: 3, max_time: 1 h", asked), tmp_path)
    dataset.write(made, tmp_path / "dataset.nc")
    transfers = xr.load_dataset(tmp_path / "dataset.nc", group=dataset.TRANSFERS_GROUP)
    assert transfers.sizes["transfer"] == 2 * 3  # those of 40 streams move in groups
    assert set(transfers.streams.values) == {2}
    assert (transfers.ok == 1).all() and (transfers["size"] == 10**9).all()
    assert transfers.xrootd_begin.isnull().all() and (transfers.xrootd_direction == "").all()
    assert transfers.rate.values == pytest.approx(8 / transfers.total.values)
    shown = tables.of_cell(transfers, 0), tables.per_cell(transfers)
    assert all("simulated" in table.to_html() for table in shown)
    summary = made.summary.isel(repetition=0)
    assert summary.transfers.values.tolist() == [6, 120]
    assert (summary.throughput_average < summary.throughput).all()
