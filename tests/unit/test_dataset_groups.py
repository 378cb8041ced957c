# SPDX-License-Identifier: Apache-2.0
"""Groups of a dataset that are kept on disk and written in slabs: every value is where its cell is."""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import xarray as xr
from tpcsweep import dataset
from tpcsweep.configuration.parameters import Value
from tpcsweep.dataset import groups
from tpcsweep.variables import ORIGIN_SAMPLES, SAMPLES, TRANSFERS

from tests.support import synthetic

AXES: dict[str, Sequence[Value]] = {"origins": [1, 2, 3], "tool": ["curl", "gfal-copy"]}
AXES |= {"streams": [1, 2, 4, 8, 16], "repetition": [1, 2]}
HOLES = [{"origins": 2, "tool": "curl"}, {"streams": 4, "repetition": 2}]
LATEST = 40
"""The last sample of any cell, in intervals."""
Cells = dict[Path, dict[str, Any]]


@pytest.fixture
def uneven(tmp_path: Path) -> Cells:
    """Cells of all lengths, in no order: some without some series, with gaps, or without samples or transfers."""
    chance = random.Random(1)
    specs = synthetic.write_sweep(tmp_path, AXES, missing=HOLES)
    cells: Cells = {}
    for path, spec in chance.sample([*specs.items()], len(specs)):
        cell = orjson.loads(path.read_bytes())
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
        path.write_bytes(orjson.dumps(cell))
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
    transfers = xr.load_dataset(written[0], group=dataset.TRANSFERS_GROUP)
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
