# SPDX-License-Identifier: Apache-2.0
"""Datasets with little or odd data: what is made of a dataset has to do with each of them, or say why it cannot."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr
from tpcsweep.data import folding, labels
from tpcsweep.data.importing.import_settings import Import
from tpcsweep.data.importing.table_import import import_table
from tpcsweep.sweeps.parameters import Value
from tpcsweep.testbeds.loading import load

from tests.support import simulated, synthetic

STRANGE = ["<b>bold</b> & 'co'", "$\\frac{1}$ 5 % of_a #1", "速度 🚀", "x" * 150, "curl"]
"""Words with signs of HTML and TeX, signs that no font here has, and a long one."""
Axes = Mapping[str, Sequence[Value]]
FOUR: Axes = {"rtt": [5.0, 50.0], "streams": [1, 2], "repetition": [1]}
_ONE: Axes = {"rtt": [5.0], "streams": [1], "repetition": [1]}
_FIGURES = ("throughput", "throughput_low", "throughput_high")
_RATES = "day,kind,gbps\n2026-01-05,True,1\n2026-01-05,False,0.5\n2026-01-12,True,2\n2026-01-12,False,0\n"

Summary = Callable[[xr.Dataset], xr.Dataset]


def _measured(axes: Axes, file: Path, *, change: Summary | None = None, **cells: object) -> None:
    made = folding.fold(synthetic.write_sweep(file.parent / "made", axes, **cells), axes)
    folding.write(made, file)
    if change is not None:
        rewrite(file, change)


def rewrite(file: Path, change: Summary) -> None:
    """Write a dataset again, with other content in its first group; the others get its coordinates."""
    groups = {name: xr.load_dataset(file, group=name) for name in labels.GROUPS}
    groups[None] = change(groups[None])
    for name, group in groups.items():
        known = {axis: at for axis, at in groups[None].coords.items() if name == "samples" and axis in group}
        group.assign_coords(known).to_netcdf(file, mode="w" if name is None else "a", group=name)


def _without_intervals(summary: xr.Dataset) -> xr.Dataset:
    return summary.assign({name: summary[name] * np.nan for name in _FIGURES[1:]})


def _imported(file: Path, change: Summary | None = None, **axes: str) -> None:
    table = file.parent / "rates.csv"
    table.write_text(_RATES)
    content = {
        "axes": {name: {"column": column} for name, column in axes.items()},
        "variables": {"throughput": {"column": "gbps", "unit": "Gbit/s"}},
    }
    folding.write(import_table(Import.model_validate(content), table, "rates"), file)
    if change is not None:
        rewrite(file, change)


def _simulated(file: Path) -> None:
    configured = load({"sweep": "demo", "testbed": "simulation", "results": str(file.parent)}, Path())
    simulated.write(configured, file)


ODD: Mapping[str, Callable[[Path], None]] = {
    "one cell": partial(_measured, _ONE),
    "one value on each axis": partial(_measured, {**_ONE, "cores": [1.0], "repetition": [1, 2, 3]}),
    "all failed": partial(_measured, FOUR, failed=[{}]),
    "all zero": partial(_measured, FOUR, change=lambda summary: summary.assign({
        name: summary[name] * 0 for name in (*_FIGURES, "throughput_max", "source_cpu", "destination_cpu")
    })),
    "no intervals": partial(_measured, FOUR, change=_without_intervals),
    "one repetition of several": partial(
        _measured, {**FOUR, "repetition": [1, 2, 3]}, missing=[{"repetition": 2}, {"repetition": 3}]
    ),
    "some not measured": partial(_measured, FOUR, missing=[{"rtt": 50.0}, {"streams": 2}]),
    "fifty words": partial(_measured, {"tool": [f"tool-{n}" for n in range(50)], "repetition": [1]}),
    "dates": partial(_imported, day="day"),
    "truths": partial(_imported, kind="kind", change=lambda summary: summary.assign_coords(kind=[True, False])),
    "unlimited": partial(_measured, {"cores": [1.0, 2.0, None], "repetition": [1, 2]}),
    "simulated": _simulated,
    "imported without axes": _imported,
    "strange words": partial(
        _measured, {"tool": STRANGE, "streams": [1, 2], "repetition": [1]},
        change=lambda summary: summary.assign_attrs(sweep=STRANGE[0] + STRANGE[1] + STRANGE[2], testbed=STRANGE[3]),
    ),
}  # fmt: skip
"""For each kind of odd data a function that writes such a dataset to a file."""
