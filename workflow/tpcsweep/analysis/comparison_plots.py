# SPDX-License-Identifier: Apache-2.0
"""Figures of a comparison of two datasets: its cells as a list, and over the grid."""

import math
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tpcsweep.analysis.comparison import Comparison, deviations, flag_counts, repetition_note, slower_machine
from tpcsweep.common.numbers import CONFIDENCE, between, plain, short
from tpcsweep.common.texts import capital
from tpcsweep.data.run_effects import FASTER, NOT_COMPARABLE, SAME, SLOWER
from tpcsweep.pages.figures.axis_labels import panel_title
from tpcsweep.pages.figures.maps import HATCHED, draw_map, fill_cell, label_map, map_size, names_room
from tpcsweep.pages.figures.panels import add_header, lay_out, point_handle, styled, tiles
from tpcsweep.pages.panel_grid import arrange_axes
from tpcsweep.sweeps.parameters import name_text, value_text

_LOOK = {FASTER: ("#0072B2", "^"), SLOWER: ("#D55E00", "v"), SAME: ("#777777", "o")}
_MOST_ROWS = 80
_WIDEST = 20.0  # largest ratio of axes and colours
_COLOURS = "RdBu"


@styled()
def forest(comparison: Comparison) -> Figure:
    """Draw the ratio of each cell with its interval, largest first, and the overall ratio at the bottom."""
    used = comparison.cells[comparison.cells["verdict"] != NOT_COMPARABLE]
    used = used.sort_values("ratio", ascending=False, kind="stable")
    notes = _notes(comparison)
    if len(used) > _MOST_ROWS:
        notes.append(f"The {_MOST_ROWS} cells of {len(used)} with the smallest p; the table has all.")
        used = used.loc[used.index.isin(used.nsmallest(_MOST_ROWS, "p", keep="first").index)]
    rows = len(used)
    figure, [axes] = tiles(1, 7.6, 0.9 + 0.19 * (rows + 2), (0, 0))
    for verdict, (colour, marker) in _LOOK.items():
        chosen = (used["verdict"] == verdict).to_numpy()
        at, part = np.flatnonzero(chosen), used[chosen]
        axes.hlines(at, part["ratio_low"], part["ratio_high"], color=colour, linewidth=1.2)
        axes.scatter(part["ratio"], at, color=colour, marker=marker, s=20, zorder=3)
    overall = comparison.overall
    if overall.cells:
        diamond = [overall.low, overall.ratio, overall.high, overall.ratio]
        axes.fill(diamond, rows + 0.6 + np.array([0, -0.35, 0, 0.35]), color="black", zorder=3)
        axes.axvspan(overall.low, overall.high, color="black", alpha=0.08, linewidth=0)
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks([*range(rows), rows + 0.6], [*_places(comparison, used), "overall"], fontsize=7)
    axes.set_ylim(rows + 1.4, -0.8)
    _ratio_axis(axes, used)
    axes.set_xlabel("throughput, new over base")
    axes.grid(visible=True, axis="x", alpha=0.3)
    handles: list[Any] = [
        Line2D([], [], color=colour, marker=marker, label=verdict)
        for verdict, (colour, marker) in _LOOK.items()
    ]
    title = f"Throughput of {comparison.new} against {comparison.base}"
    add_header(figure, title, [*notes, _differences(comparison)], handles)
    return figure


@styled()
def ratios(comparison: Comparison) -> Figure:
    """Draw the ratios as heat maps over the axes, with marks on faster and slower cells."""
    axes = comparison.alignment.axes
    cells, shape = comparison.cells[["log_ratio", "verdict"]], [len(values) for values in axes.values()]
    columns = {name: (list(axes), cells[name].to_numpy().reshape(shape)) for name in cells}
    grid = arrange_axes(xr.Dataset(columns, {name: list(values) for name, values in axes.items()}))
    wide, high, _ = map_size(grid)
    largest = float(np.fmax.reduce(np.abs(grid.cells["log_ratio"].values), None, initial=math.log(1.1)))
    reach = min(largest, math.log(_WIDEST))
    norm = Normalize(-reach, reach)
    ticks = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if reach > math.log(3) else (0.5, 0.7, 0.9, 1, 1.1, 1.4, 2)
    figure, panels, notes = lay_out(grid, wide, high, margin=names_room(grid, wide))
    for panel, where in panels:
        values, verdicts = grid.plane("log_ratio", where), grid.plane("verdict", where)
        draw_map(panel, grid, np.ma.masked_invalid(values), cmap=_COLOURS, norm=norm)
        for (row, column), value in np.ndenumerate(values):
            if np.isnan(value):
                fill_cell(panel, row, column, **HATCHED)
                continue
            verdict = str(verdicts[row, column])
            panel.text(
                column + 0.5,
                row + 0.5,
                f"{math.exp(value):.2f}" + ({FASTER: "\n▲", SLOWER: "\n▼"}.get(verdict, "")),
                ha="center",
                va="center",
                fontsize=8,
                fontweight="normal" if verdict == SAME else "bold",
                color="white" if abs(value) > 0.65 * reach else "black",
                linespacing=1.1,
            )
    label_map(panels, grid, wide)
    bar = figure.colorbar(
        ScalarMappable(norm, _COLOURS),
        ax=[panel for panel, _ in panels],
        aspect=30,
        pad=0.02,
        ticks=np.log([tick for tick in ticks if abs(math.log(tick)) <= reach]),
        format=FuncFormatter(lambda value, _: short(math.exp(value), 2)),
        extend="both" if largest > reach else "neither",
    )
    bar.set_label("ratio of throughput")
    handles: list[Any] = [point_handle(name, "black", _LOOK[name][1]) for name in (FASTER, SLOWER)]
    handles.append(Patch(**HATCHED, label=NOT_COMPARABLE))
    title = f"Throughput of {comparison.new} / {comparison.base}"
    add_header(figure, title, [*_notes(comparison), *notes, _differences(comparison)], handles)
    return figure


def _places(comparison: Comparison, cells: pd.DataFrame) -> list[str]:
    axes = comparison.alignment.axes
    names = [name for name, values in axes.items() if len(values) > 1] or list(axes)
    return [panel_title({name: row[name] for name in names}) for _, row in cells.iterrows()]


def _notes(comparison: Comparison) -> list[str]:
    overall = comparison.overall
    counts = ", ".join(f"{count} {verdict}" for verdict, count in comparison.verdicts.items() if count)
    notes = [f"Cells: {counts}; corrected together with values and the overall ratio."]
    if overall.cells:
        notes.append(
            f"Overall: {short(overall.ratio)} ({CONFIDENCE:.0%} interval {between(overall.low, overall.high)}), "
            f"{overall.verdict}. Intervals are {CONFIDENCE:.0%} each, not corrected."
        )
    clauses = filter(None, [deviations(comparison), flag_counts(comparison), slower_machine(comparison)])
    notes += [f"{capital(clause)}." for clause in clauses]
    return [*notes, repetition_note(comparison)]


def _differences(comparison: Comparison) -> str:
    texts = [
        f"{name_text(name)} {' → '.join('unknown' if v is None else value_text(name, v) for v in pair)}"
        for name, pair in comparison.alignment.different.items()
    ]
    return f"Different from base to new: {', '.join(texts)}." if texts else ""


def _ratio_axis(axes: Any, used: pd.DataFrame) -> None:
    low = max(float(np.nanmin([*used["ratio_low"], 0.9])), 1 / _WIDEST)
    high = min(float(np.nanmax([*used["ratio_high"], 1.1])), _WIDEST)
    axes.set_xscale("log")
    axes.set_xlim(low / 1.05, high * 1.05)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high / low > 4 else MaxNLocator(8))
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))
    axes.xaxis.set_minor_formatter(NullFormatter())
