"""Figures with the claims that they carry beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from tpcsweep.figures.panels import head
from tpcsweep.published.base import Shown
from tpcsweep.published.carried import ASSUMPTION, INPUT, Carried

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

COLOURS = {
    "holds": "#1b7837",
    "does not hold": "#b2182b",
    "not decided": "#8c6d1f",
    "not testable here": "#666666",
    "input": "#2166ac",
}
"""By verdict, which is written out as well."""

_WIDE = 3.3  # inches of the panel of claims
_LETTERS = 56  # that fit into its width
_LINE = 0.128  # inches of a line
_GAP = 0.09


def board(
    rows: int, columns: int, wide: float, high: float, shown: Shown, projection: str | None = None
) -> tuple[Figure, NDArray[Any]]:
    """Make a figure of rows × columns panels, each so many inches, with the panel of claims on its right.

    Returns:
        The figure, and its panels as rows × columns of axes.
    """
    needed = sum(_height(claim) for claim in shown.claims) + 0.3
    size = (wide * columns + _WIDE, max(high * rows, needed))
    figure = Figure(figsize=size, layout="constrained")
    halves = figure.add_gridspec(1, 2, width_ratios=(wide * columns, _WIDE), wspace=0.02)
    keywords: dict[str, Any] = {"projection": projection} if projection else {}
    axes = halves[0].subgridspec(rows, columns).subplots(squeeze=False, subplot_kw=keywords)
    _claims(figure.add_subplot(halves[1]), shown.claims, size[1])
    return figure, np.asarray(axes)


def close(figure: Figure, shown: Shown, notes: Sequence[str] = (), handles: Sequence[Any] = ()) -> None:
    """Add title, notes and legend."""
    head(figure, shown.title, [*shown.notes, *notes], handles)


def _claims(axes: Axes, claims: Sequence[Carried], high: float) -> None:
    axes.set_axis_off()
    down = 0.0
    for lines in ([("Claims, judged on the data drawn", "#000000", True)], *map(_lines, claims)):
        for line, colour, bold in lines:
            text = axes.text(
                0.02,
                1 - down / high,
                line,
                va="top",
                fontsize=7,
                color=colour,
                fontweight="bold" if bold else "normal",
                transform=axes.transAxes,
            )
            text.set_in_layout(False)
            down += _LINE
        down += _GAP


def _height(claim: Carried) -> float:
    return len(_lines(claim)) * _LINE + _GAP


def _lines(claim: Carried) -> list[tuple[str, str, bool]]:
    """What the panel says of a claim: lines with their colours and whether they are bold."""
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
