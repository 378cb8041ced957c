# SPDX-License-Identifier: Apache-2.0
"""Figures of analyses: comparison of releases, and effect of nodes."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from tpcsweep.analysis.census import half_width, share_interval
from tpcsweep.analysis.hardware import Hardware
from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.data.flags import BROKEN
from tpcsweep.data.labels import STATUS, flagged
from tpcsweep.pages.figures.axis_labels import (
    axis_label,
    escape_math,
    panel_title,
    rate_label,
    tick_labels,
)
from tpcsweep.pages.figures.panels import (
    colours,
    curve_handles,
    finish,
    placeholder,
    point_handle,
    styled,
    tiles,
)
from tpcsweep.pages.panel_grid import Places, arrange_axes, combinations, evenly
from tpcsweep.sweeps.parameters import name_text
from tpcsweep.sweeps.sweep import REPETITION

_NODES = "Effect of nodes on throughput"
_MOST_NAMED = 60  # pairs with names next to them; the table has more
_MOST_ROWS = 8
_SHARES = {
    BROKEN: ("deployment broke", "#D55E00", "h"),
    "failures": ("transfers failed, deployment whole", "#555555", "v"),
}
# share of the distance between two values over which points are spread, so that none hides another
_SPREAD = 0.4


@styled()
def hardware(summary: xr.Dataset, effects: Hardware) -> Figure:
    """Draw each pair's throughput over that of the mean pair, with its interval, by `node_effects`."""
    known = effects.pairs[effects.pairs["with"] > 1].sort_values(["ratio", "pair"])
    if known.empty:
        return placeholder(summary, _NODES, effects.summary())
    named = len(known) <= _MOST_NAMED
    high = 0.6 + (0.2 * len(known) if named else 0.06 * _MOST_NAMED * 3)
    figure, [axes] = tiles(1, 6.4, max(1.6, high), (0, 0))
    at = np.arange(len(known))
    effect = known[["ratio", "ratio_low", "ratio_high"]].to_numpy().T - 1
    axes.axvline(0, color="#555555", linewidth=1)
    axes.hlines(at, effect[1], effect[2], color="#0072B2", linewidth=1.2)
    axes.plot(effect[0], at, "o", color="#0072B2", markersize=4 if named else 2)
    labels = [f"{pair} ({count})" for pair, count in zip(known["pair"], known["deployments"], strict=True)]
    axes.set_yticks(at if named else [], list(map(escape_math, labels)) if named else [])
    axes.set(xlabel="throughput, difference from the mean pair", ylim=(-0.6, len(known) - 0.4))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(visible=True, axis="x", alpha=0.3)
    notes = [
        effects.summary(),
        f"Adjusted for settings; (n): deployments; bars: {CONFIDENCE:.0%} intervals (Student's t), uncorrected.",
    ]
    if not named:
        notes.append(f"{len(known)} pairs, in the order of the table.")
    finish(figure, summary, _NODES, notes)
    return figure


@styled()
def releases(summary: xr.Dataset, transfers: xr.Dataset, x: str, curve: str) -> Figure:
    """Draw throughput, CPU per Gbit, time to first byte, and shares of broken and failed cells.

    The axis `x`, such as xrootd, is horizontal with evenly spaced values. The axis `curve` has one colour for each
    value. Each combination of the other axes' values has a row of panels, if any cell was measured there.
    """
    cells = _cells(summary, transfers)
    others = [name for name in map(str, cells["measured"].dims) if name not in (x, curve, REPETITION)]
    every = combinations(cells, others)
    every = [where for where in every if cells["measured"].sel(where).any()] or every[:1]
    rows = [every[at] for at in evenly(len(every), _MOST_ROWS)]
    labels = {
        "throughput": rate_label(summary),
        "source_cost": "CPU of the source (s/Gbit)",
        "destination_cost": "CPU of the destination (s/Gbit)",
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
        line[0].set_title(textwrap.fill(panel_title(where), 36))
    grid = arrange_axes(summary[["throughput"]], Places(x, curve))
    for axes in panels[-1]:
        axes.set_xticks(range(grid.size(x)), tick_labels(grid, x), rotation=30, ha="right")
        axes.set(xlabel=axis_label(x), xlim=(-0.5, grid.size(x) - 0.5))
    handles = curve_handles(curve, summary[curve].values.tolist(), palette)
    handles += [point_handle(*look) for look in _SHARES.values()]
    finish(figure, summary, f"{name_text(x)} compared", _notes(summary, len(rows), len(every)), handles)
    return figure


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
    """Return figures of successful cells, and the outcome of all measured ones."""
    broken, measured = flagged(summary, BROKEN), summary["status"] != STATUS.index("not_measured")
    well = (summary["status"] == STATUS.index("ok")) & ~broken
    throughput = summary["throughput"].where(well & (summary["throughput"] > 0))
    startup = transfers["startup"].to_series().groupby(transfers["cell"].values).median()
    startup = startup.reindex(range(throughput.size)).to_numpy().reshape(throughput.shape)
    return xr.Dataset(
        {
            "throughput": throughput,
            "source_cost": summary["source_cpu"] / throughput,
            "destination_cost": summary["destination_cpu"] / throughput,
            "first_byte": throughput.copy(data=startup).where(well),
            "measured": measured,
            BROKEN: measured & broken,
            "failures": measured & ~broken & ~(well & ~(summary["transfers_failed"] > 0)),
        }
    )


def _means(axes: Axes, values: xr.DataArray, x: str, curve: str, palette: Sequence[Any]) -> None:
    for index, colour in enumerate(palette):
        points = values.isel({curve: index}).transpose(x, REPETITION)
        at = np.arange(points.sizes[x]) + _shift(index, len(palette))
        middle, half = points.mean(REPETITION), half_width(points, REPETITION)
        axes.errorbar(at, middle, np.nan_to_num(half), color=colour, marker=".", linewidth=1.2, capsize=2)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)


def _shares(axes: Axes, cells: xr.Dataset, x: str) -> None:
    counts = cells[["measured", *_SHARES]].sum([name for name in cells["measured"].dims if name != x])
    for index, (name, (_, colour, marker)) in enumerate(_SHARES.items()):
        for at, whole in enumerate(counts["measured"].values.tolist()):
            if whole:
                part = int(counts[name][at])
                low, high = share_interval(part, whole)
                where = at + _shift(index, len(_SHARES))
                axes.vlines(where, low, high, color=colour, linewidth=1.2)
                axes.plot(where, part / whole, marker=marker, color=colour, markersize=5)
    axes.set(ylim=(-0.02, 1.02), ylabel="share of cells")
    axes.grid(visible=True, alpha=0.3)


def _shift(index: int, count: int) -> float:
    return _SPREAD * ((index + 0.5) / count - 0.5)
