# SPDX-License-Identifier: Apache-2.0
"""Groups of a dataset, written in slabs, and cells' files read by several processes: all is in its place."""

import contextlib
import itertools
import math
import multiprocessing
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import xarray as xr
from tpcsweep.common.signals import interruptible
from tpcsweep.data import folding, groups, labels, reduction
from tpcsweep.data import folding as dataset
from tpcsweep.data.cell_files import format_content, parse_content
from tpcsweep.data.variables import ORIGIN_SAMPLES, SAMPLES, TRANSFERS
from tpcsweep.sweeps.parameters import Value

from tests.support import synthetic
from tests.support.workflow import wait_until

AXES: dict[str, Sequence[Value]] = {"origins": [1, 2, 3], "tool": ["curl", "gfal-copy"]}
AXES |= {"streams": [1, 2, 4, 8, 16], "repetition": [1, 2]}
HOLES = [{"origins": 2, "tool": "curl"}, {"streams": 4, "repetition": 2}]
LATEST = 40
"""The last sample of any cell, in intervals."""
FORTY = {"origins": [1, 2], "streams": [*range(1, 11)], "repetition": [1, 2]}
Cells = dict[Path, dict[str, Any]]


@pytest.fixture
def uneven(tmp_path: Path) -> Cells:
    """Cells of all lengths, in no order: some without some series, with gaps, or without samples or transfers."""
    chance = random.Random(1)
    specs = synthetic.write_sweep(tmp_path, AXES, missing=HOLES)
    cells: Cells = {}
    for path, spec in chance.sample([*specs.items()], len(specs)):
        cell = parse_content(path.read_bytes())
        index = sorted(chance.sample(range(1, LATEST + 1), chance.choice([0, 1, 7, LATEST])))

        def row(count: int = len(index)) -> list[float | None]:
            known = [chance.choice([None, chance.uniform(0, 1e5)]) for _ in range(count)]
            return chance.choice([known, [None] * count, [chance.random() for _ in range(count)]])

        names = chance.sample([*SAMPLES], chance.choice([len(SAMPLES), 5]))
        origins = range(spec["parameters"]["origins"])
        cell["samples"] = {name: row() for name in names}
        cell["samples"] |= {name: [row() for _ in origins] for name in ORIGIN_SAMPLES}
        cell["samples"]["time"] = [at * 0.1 + chance.uniform(0, 0.04) for at in index]
        rows = [chance.randrange(2) for _ in range(chance.choice([0, 1, 5]))]
        moved = {name: [two[one] for one in rows] for name, two in cell["transfers"].items()}
        cell["transfers"] = {**moved, "size": [chance.randrange(2**50) for _ in rows]}
        path.write_bytes(format_content(cell))
        cells[path] = cell
    return cells


@pytest.fixture(params=[{}, {"_IN_MEMORY": 100, "_CHUNK": 3 * LATEST, "_SLAB": 4}], ids=["one slab", "many"])
def written(request: Any, uneven: Cells, tmp_path: Path, monkeypatch: Any) -> tuple[Path, dataset.Folded]:
    for name, value in request.param.items():
        monkeypatch.setattr(groups, name, value)
    folded = dataset.fold(uneven, AXES)
    dataset.write(folded, tmp_path / "dataset.nc")
    return tmp_path / "dataset.nc", folded


def place(cell: dict[str, Any]) -> dict[str, Value]:
    return {name: cell["spec"]["parameters"].get(name, cell["spec"]["repetition"]) for name in AXES}


def index(where: dict[str, Any]) -> tuple[int, ...]:
    return tuple(list(values).index(where[name]) for name, values in AXES.items())


def test_every_sample_is_in_its_place(written: tuple[Path, dataset.Folded], uneven: Cells) -> None:
    samples = xr.load_dataset(written[0], group="samples")
    xr.testing.assert_identical(samples, written[1].samples)
    expected = {name: np.full_like(one.values, np.nan) for name, one in samples.data_vars.items()}
    clock = {round(float(time) / 0.1): at for at, time in enumerate(samples.time.values)}
    for cell in uneven.values():
        at = index(place(cell))
        time = [clock[round(one / 0.1)] for one in cell["samples"].pop("time")]
        for name, row in cell["samples"].items():
            for origin, values in enumerate(row if name in ORIGIN_SAMPLES else [row]):
                here = expected[name][at][origin] if name in ORIGIN_SAMPLES else expected[name][at]
                here[time] = np.array(values, np.float32)
    for name, values in expected.items():
        np.testing.assert_array_equal(samples[name].values, values, err_msg=str(name))


def test_every_transfer_is_a_row(written: tuple[Path, dataset.Folded], uneven: Cells) -> None:
    transfers = xr.load_dataset(written[0], group=labels.TRANSFERS_GROUP)
    xr.testing.assert_identical(transfers, written[1].transfers)
    found = transfers.to_dataframe()
    expected: list[dict[str, Any]] = []
    for cell in uneven.values():
        columns = cell["transfers"]
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        expected += [{**place(cell), **row} for row in rows]
    for name in expected[0]:
        wanted = [math.nan if row[name] is None else row[name] for row in expected]
        np.testing.assert_array_equal(found[name].to_numpy(), wanted, err_msg=name)
    np.testing.assert_array_equal(found["total"], found["end"] - found["start"])
    shape = [len(values) for values in AXES.values()]
    cells = [np.ravel_multi_index(index(row), shape) for row in expected]
    np.testing.assert_array_equal(found["cell"], cells)
    assert set(TRANSFERS) <= set(found)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files of 40 cells, of which processes take three at a time after the first five."""
    monkeypatch.setattr(reduction, "SERIAL_CELLS", 5)
    monkeypatch.setattr(reduction, "_BATCH", 3)
    return [*synthetic.write_sweep(tmp_path, FORTY, missing=[{"streams": 7}], failed=[{"streams": 3}])]


UNLIKE, UNFLAGGED = (b'"mtu":9000', b'"mtu":1500'), (b'"flags"', b'"flag"')


@pytest.mark.parametrize("first", [6, 35])
@pytest.mark.parametrize(
    ("how", "says"),
    [(UNLIKE, r"other settings than .*parameters\.mtu is 1500, not 9000"), (UNFLAGGED, "without flags")],
)
def test_the_first_of_the_wrong_files_is_named(files: list[Path], first: int, how: Any, says: str) -> None:
    files[first].write_bytes(synthetic.edited(files[first].read_bytes().replace(*how)))
    for other in files[first + 1 : first + 10]:
        unlike = synthetic.edited(other.read_bytes().replace(*UNLIKE))
        other.write_bytes(b"{" if how is UNLIKE else unlike)
    for processes in (1, 2):
        with pytest.raises(reduction.DatasetError, match=says) as caught:
            dataset.fold(files, FORTY, processes=processes)
        assert str(caught.value).startswith(f"{files[first]}: ")


def test_a_file_twice_or_missing_is_named(files: list[Path]) -> None:
    with pytest.raises(reduction.DatasetError, match=rf"{files[30]}: another file .* same point"):
        dataset.fold([*files, files[30]], FORTY, processes=2)
    files[30].unlink()
    with pytest.raises(FileNotFoundError, match=str(files[30])):
        dataset.fold(files, FORTY, processes=2)


def test_a_process_that_dies_is_an_error(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction.Reader, "_fixed", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(reduction, "SERIAL_CELLS", 0)
    with pytest.raises(reduction.DatasetError, match="a process that reads cell files was killed"):
        dataset.fold(files, FORTY, processes=2)


@contextlib.contextmanager
def endless(folder: Path, before: Callable[[], object] = os.getpid) -> Iterator[BaseProcess]:
    """A process that folds one file again and again, after something else."""
    axes = {"streams": [1], "repetition": [1]}
    [path] = synthetic.write_sweep(folder, axes)

    def fold() -> None:
        os.setsid()
        reduction.SERIAL_CELLS = 0
        folding._Grid.add = lambda *_: None
        before()
        with interruptible():
            dataset.fold(itertools.repeat(path), axes, processes=2)

    child = multiprocessing.get_context("fork").Process(target=fold)
    child.start()
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.join()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_ends_folding_ends_its_processes(tmp_path: Path, how: signal.Signals) -> None:
    with endless(tmp_path) as child:
        parent = psutil.Process(child.pid)
        wait_until(lambda: len(parent.children()) == 2, "it reads with two processes")
        processes = parent.children()
        if how == signal.SIGINT:
            os.killpg(child.pid, how)  # as Ctrl-C
            child.join(60)
            assert child.exitcode == 128 + how
        else:
            child.kill()
        assert not psutil.wait_procs(processes, timeout=60)[1]


def test_signals_during_a_fork_end_the_process(tmp_path: Path) -> None:
    def ask() -> None:
        os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))

    with endless(tmp_path, ask) as child:
        child.join(60)
        assert child.exitcode == 128 + signal.SIGTERM
