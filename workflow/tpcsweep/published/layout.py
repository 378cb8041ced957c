# SPDX-License-Identifier: Apache-2.0
"""Layout of figures with their claims at the side, and the usual one: throughput against streams."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from tpcsweep.figures.grid import arrange
from tpcsweep.figures.labels import literal, throughput_note
from tpcsweep.figures.line_plots import draw_lines
from tpcsweep.figures.panels import head, styled, used_panels
from tpcsweep.published.base import ASSUMPTION, INPUT, Caption, Carried, Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "holds": "#1b7837",
    "does not hold": "#b2182b",
    "not decided": "#8c6d1f",
    "not testable here": "#666666",
    "input": "#2166ac",
}
"""Colours by verdict, which is written too."""

_WIDE = 3.3  # inches of the panel of claims
_LETTERS = 56  # characters that fit into its width
_LINE = 0.128  # inches of a line
_GAP = 0.09


def board(rows: Sequence[int], wide: float, high: float, shown: Caption) -> tuple[Figure, list[Axes]]:
    """Return a figure with rows of panels (inches `wide` × `high`), and the panel of claims at its right."""
    columns = max(rows)
    needed = sum(len(_lines(claim)) * _LINE + _GAP for claim in shown.claims) + 0.3
    size = (wide * columns + _WIDE, max(high * len(rows), needed))
    figure = Figure(figsize=size, layout="constrained")
    halves = figure.add_gridspec(1, 2, width_ratios=(wide * columns, _WIDE), wspace=0.02)
    grid = halves[0].subgridspec(len(rows), columns)
    axes = grid.subplots(squeeze=False)
    _claims(figure.add_subplot(halves[1]), shown.claims, size[1])
    return figure, used_panels(axes, rows)


@styled()
def against_streams(data: Data, shown: Caption, curve: str = "rtt", across: int = 3) -> Figure:
    """Draw throughput over streams with its intervals.

    Each value of the axis `curve` has a line, and each combination of the other axes' values a panel, at most `across`
    side by side.
    """
    summary = data.summary
    chosen = ("streams", curve) if summary.sizes.get(curve, 1) > 1 else ("streams",)
    grid = arrange(summary, [axis for axis in chosen if axis in summary["throughput"].dims])
    places = [where for row in grid.panels() for where in row]
    rows = [len(places[first : first + across]) for first in range(0, len(places), across)]
    figure, panels = board(rows, 3.9 if max(rows) < 3 else 3.3, 3.0, shown)
    handles = draw_lines(list(zip(panels, places, strict=True)), grid, summary)
    close(figure, shown, [throughput_note(summary)], handles)
    return figure


def close(figure: Figure, shown: Caption, notes: Sequence[str] = (), handles: Sequence[Any] = ()) -> None:
    head(figure, shown.title, [*shown.notes, *notes], handles)


def _claims(axes: Axes, claims: Sequence[Carried], high: float) -> None:
    axes.set_axis_off()
    down = 0.0
    for lines in ([("Claims, judged on the data drawn", "#000000", True)], *map(_lines, claims)):
        for line, colour, bold in lines:
            weight = "bold" if bold else "normal"
            look: dict[str, Any] = {"va": "top", "fontsize": 7, "color": colour, "fontweight": weight}
            text = axes.text(0.02, 1 - down / high, literal(line), transform=axes.transAxes, **look)
            text.set_in_layout(False)
            down += _LINE
        down += _GAP


def _lines(claim: Carried) -> list[tuple[str, str, bool]]:
    verdict = claim.verdict
    word = claim.word + (f" ({verdict.outcome.value})" if claim.role == INPUT else "")
    effect = verdict.effect or textwrap.shorten(verdict.reason, 4 * _LETTERS, placeholder=" …")
    role = f"follows from an assumption: {claim.assumed}" if claim.role == ASSUMPTION else claim.role
    agree = f"{claim.agree} of {claim.draws} random parameter sets agree" if claim.counted else ""
    texts = {
        f"“{verdict.claim.text}”": "#222222",
        f"Found: {effect}.": "#222222",
        "; ".join(part for part in (role, agree) if part): "#555555",
    }
    return [
        (f"{verdict.claim.name}: {word}", COLOURS[claim.word], True),
        *((line, colour, False) for text, colour in texts.items() for line in textwrap.wrap(text, _LETTERS)),
    ]
