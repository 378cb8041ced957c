# SPDX-License-Identifier: Apache-2.0
"""Where and with which commit cells were measured, for a page; of several values each names its cells."""

import xarray as xr

from tpcsweep.common.numbers import counted
from tpcsweep.data.made_with import cells_with
from tpcsweep.sweeps.parameters import name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION


def provenance_text(summary: xr.Dataset, name: str) -> str:
    """Return the host, CPU, kernel or commit of a dataset, with the cells of each if it has several."""
    found = cells_with(summary, name)
    if len(found) < 2:
        return str(summary.attrs.get(name, ""))
    every = xr.concat(found.values(), "value").any("value")
    most_first = sorted(found.items(), key=lambda each: -int(each[1].sum()))
    return "; ".join(f"{value} in {_cells(which, every, summary)}" for value, which in most_first)


def _cells(which: xr.DataArray, every: xr.DataArray, summary: xr.Dataset) -> str:
    """Count some of the measured cells, and name the values of axes if these alone tell which cells."""
    count = counted(int(which.sum()), "cell")
    spans = {str(name): which.any([other for other in which.dims if other != name]) for name in which.dims}
    box = every
    for span in spans.values():
        box = box & span
    if not bool((box == which).all()):
        return count
    named = [
        f"{_axis(summary, name)} {', '.join(value_text(name, one) for one in summary[name].values[span].tolist())}"
        for name, span in spans.items()
        if not span.all()
    ]
    return f"{count} ({'; '.join(named)})" if named else count


def _axis(summary: xr.Dataset, name: str) -> str:
    in_blocks = name == REPETITION and summary.attrs.get("order") == "blocks"
    return "block" if in_blocks else name_text(name)
