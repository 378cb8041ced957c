# SPDX-License-Identifier: Apache-2.0
"""What releases of a server differ in, or other values of an axis: speed, CPU, first byte, and what broke."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from tpcsweep.comparing.census import half_width, share_interval
from tpcsweep.comparing.effects import CONFIDENCE
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset.labels import STATUS, flagged
from tpcsweep.figures.grid import evenly, place, values_of
from tpcsweep.figures.labels import axis_label, rate_label, tick_labels, title_of, words, wrapped
from tpcsweep.figures.line_plots import colours
from tpcsweep.figures.panels import curve_handles, finish, point_handle, styled
from tpcsweep.flags import BROKEN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 8
_SHARES = {
    BROKEN: ("deployment broke", "#D55E00", "h"),
    "failures": ("transfers failed, deployment whole", "#555555", "v"),
}
_SPREAD = 0.4
"""Of the distance between two values, what their points are spread over so that intervals do not hide each other."""


@styled()
def releases(summary: xr.Dataset, transfers: xr.Dataset, x: str, curve: str) -> Figure:
    """Draw throughput, CPU for each Gbit, time to first byte and shares of cells that broke or failed.

    Args:
        summary: a measured dataset.
        transfers: its single transfers (group `transfer_times`).
        x: the axis that all is drawn over, such as xrootd: its values lie evenly.
        curve: the axis with a colour for each of its values. The values of the axes that are left have a row of panels
            each.
    """
    cells = _cells(summary, transfers)
    every = _measured(cells, x, curve)
    rows = [every[at] for at in evenly(len(every), _MOST_ROWS)]
    labels = {
        "throughput": rate_label(summary),
        "source": "CPU of the source (s/Gbit)",
        "destination": "CPU of the destination (s/Gbit)",
        "first_byte": "time to first byte (s)",
    }
    figure = Figure(figsize=(2.75 * (len(labels) + 1), 2.5 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), len(labels) + 1, squeeze=False, sharex=True)
    palette = colours(summary.sizes[curve])
    for line, where in zip(panels, rows, strict=True):
        part = cells.sel(where)
        for axes, (name, label) in zip(line, labels.items(), strict=False):
            _means(axes, part[name], x, curve, palette)
            axes.set_ylabel(label)
        _shares(line[-1], part, x)
        line[0].set_title(wrapped([title_of(where)], 36))
    grid = place(summary[["throughput"]], (x, curve))
    for axes in panels[-1]:
        axes.set_xticks(range(grid.size(x)), tick_labels(grid, x), rotation=30, ha="right")
        axes.set(xlabel=axis_label(x), xlim=(-0.5, grid.size(x) - 0.5))
    handles = curve_handles(curve, values_of(summary, curve), palette)
    handles += [point_handle(*look) for look in _SHARES.values()]
    finish(figure, summary, f"{words(x)} compared", _notes(summary, len(rows), len(every)), handles)
    return figure


def _measured(cells: xr.Dataset, x: str, curve: str) -> list[dict[str, Any]]:
    """Give the values of the axes that are left at which any cell was measured; the first ones where none was."""
    others = [name for name in map(str, cells["measured"].dims) if name not in (x, curve, REPETITION)]
    every = [
        dict(zip(others, values, strict=True))
        for values in itertools.product(*(values_of(cells, name) for name in others))
    ]
    return [where for where in every if cells["measured"].sel(where).any()] or every[:1]


def _notes(summary: xr.Dataset, rows: int, every: int) -> list[str]:
    repetitions = summary.sizes.get(REPETITION, 1)
    once = "; one repetition has none" if repetitions == 1 else ""
    notes = [
        f"Means of {repetitions} repetitions that went well, with {CONFIDENCE:.0%} intervals (Student's t){once}. "
        "Time to first byte: median of a cell's transfers.",
        f"Shares: of all measured cells of a row of panels, with {CONFIDENCE:.0%} intervals (Wilson).",
    ]
    if rows < every:
        notes.append(f"{rows} of {every} rows of panels, evenly over their values; the dataset has all.")
    return notes


def _cells(summary: xr.Dataset, transfers: xr.Dataset) -> xr.Dataset:
    """Give what is drawn of each cell: figures of those that went well, and what became of all that were measured."""
    if REPETITION not in summary["throughput"].dims:
        summary = summary.expand_dims(REPETITION, axis=-1)
    broken, measured = flagged(summary, BROKEN), summary["status"] != STATUS.index("not_measured")
    well = (summary["status"] == STATUS.index("ok")) & ~broken
    throughput = summary["throughput"].where(well & (summary["throughput"] > 0))
    return xr.Dataset(
        {
            "throughput": throughput,
            "source": summary["source_cpu"] / throughput,
            "destination": summary["destination_cpu"] / throughput,
            "first_byte": _first_byte(summary, transfers).where(well),
            "measured": measured,
            BROKEN: measured & broken,
            "failures": measured & ~broken & ~(well & ~(summary["transfers_failed"] > 0)),
        }
    )


def _first_byte(summary: xr.Dataset, transfers: xr.Dataset) -> xr.DataArray:
    """Give the median time to the first byte of each cell's transfers, s."""
    times = transfers["startup"].to_series().groupby(transfers["cell"].values).median()
    values = np.full(summary["throughput"].size, np.nan)
    values[times.index] = times
    return summary["throughput"].copy(data=values.reshape(summary["throughput"].shape))


def _means(axes: Axes, values: xr.DataArray, x: str, curve: str, palette: Sequence[Any]) -> None:
    """Draw means of repetitions with their intervals over x, in a colour for each value of the curve."""
    for index, colour in enumerate(palette):
        points = values.isel({curve: index}).transpose(x, REPETITION)
        at = np.arange(points.sizes[x]) + _shift(index, len(palette))
        middle, half = points.mean(REPETITION), half_width(points, REPETITION)
        axes.errorbar(at, middle, np.nan_to_num(half), color=colour, marker=".", linewidth=1.2, capsize=2)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)


def _shares(axes: Axes, cells: xr.Dataset, x: str) -> None:
    """Draw the shares of cells that broke, or failed otherwise, over x, with their intervals."""
    counts: Mapping[str, list[int]] = {
        name: [int(cells[name].isel({x: index}).sum()) for index in range(cells.sizes[x])]
        for name in ("measured", *_SHARES)
    }
    for index, (name, (_, colour, marker)) in enumerate(_SHARES.items()):
        for at, (part, whole) in enumerate(zip(counts[name], counts["measured"], strict=True)):
            if whole:
                low, high = share_interval(part, whole)
                where = at + _shift(index, len(_SHARES))
                axes.vlines(where, low, high, color=colour, linewidth=1.2)
                axes.plot(where, part / whole, marker=marker, color=colour, markersize=5)
    axes.set(ylim=(-0.02, 1.02), ylabel="share of cells")
    axes.grid(visible=True, alpha=0.3)


def _shift(index: int, count: int) -> float:
    """Give how far beside a value the points of one of some curves are drawn."""
    return _SPREAD * ((index + 0.5) / count - 0.5)
