# SPDX-License-Identifier: Apache-2.0
"""Figure of the effects of settings inside blocks."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tpcsweep.analysis.block_effects import (
    THROUGHPUT,
    BlockEffects,
    Row,
    reference_text,
    row_label,
    verdict_text,
)
from tpcsweep.common.numbers import CONFIDENCE, counted, plain
from tpcsweep.common.texts import capital
from tpcsweep.pages.figures.axis_labels import escape_math
from tpcsweep.pages.figures.panels import finish, point_handle, styled, tiles

TOPIC = "Effects of settings on throughput"
_LOOK = {"gain": ("#0072B2", "^"), "less": ("#D55E00", "v"), "undecided": ("#777777", "o")}
_WIDEST = 20.0  # largest ratio that is drawn


@styled()
def forest(summary: xr.Dataset, found: BlockEffects) -> Figure:
    """Draw the ratio of each value over its reference with its interval, and of parts of the grid that differ."""
    rows = [row for row in found.rows if row.measure == THROUGHPUT]
    figure, [axes] = tiles(1, 6.4, 0.7 + 0.22 * len(rows), (0, 0))
    wanted = 1 + found.at_least
    axes.axvline(1, color="black", linewidth=0.8)
    axes.axvline(wanted, color="black", linewidth=0.8, linestyle="--")
    for place, row in enumerate(rows):
        colour, marker = _LOOK[str(row.verdict)]
        axes.hlines(place, row.low, row.high, color=colour, linewidth=1.2)
        axes.plot(row.ratio, place, marker, color=colour, markersize=5 if not row.axis else 4)
    axes.set_yticks(range(len(rows)), [escape_math(row_label(found, row)) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    ends = np.clip(
        [0.95, wanted, *(end for row in rows for end in (row.low, row.high))], 1 / _WIDEST, _WIDEST
    )
    axes.set_xscale("log")
    axes.set_xlim(ends.min() / 1.03, ends.max() * 1.03)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.set_xlabel(f"throughput over that of {reference_text(found)}")
    axes.grid(visible=True, axis="x", alpha=0.3)
    finish(figure, summary, TOPIC, _notes(found, rows), _handles(found.at_least, rows))
    return figure


def _notes(found: BlockEffects, rows: list[Row]) -> list[str]:
    blocks = max(row.blocks for row in rows)
    undecided = [
        f"{row_label(found, row)} {verdict_text(row, found.at_least)}."
        for row in rows
        if row.verdict == "undecided"
    ]
    return [
        f"Pairs inside {counted(blocks, 'block')}; bars: {CONFIDENCE:.0%} intervals (Student's t), not corrected. "
        "Verdicts are corrected together (Holm).",
        *undecided,
        *(f"{capital(note)}." for note in found.notes),
    ]


def _handles(at_least: float, rows: list[Row]) -> list[Any]:
    words = {str(row.verdict): verdict_text(row, at_least).partition(":")[0] for row in rows}
    return [point_handle(words[verdict], *look) for verdict, look in _LOOK.items() if verdict in words]
