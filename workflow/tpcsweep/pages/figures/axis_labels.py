# SPDX-License-Identifier: Apache-2.0
"""Texts of figures: names and values of axes, titles of panels, and notes on throughput."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.font_manager import findfont, get_font
from numpy.typing import NDArray

from tpcsweep.common.numbers import CONFIDENCE, plain
from tpcsweep.data.labels import IMPORTED, SIMULATED, axis_name, describe
from tpcsweep.pages.panel_grid import Arrangement
from tpcsweep.sweeps.parameters import name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION

GAP = 0.08  # inches between neighbouring tick labels


def panel_title(where: Mapping[str, Any]) -> str:
    """Return the values of some axes as one text, each with its unit."""
    return ", ".join(f"{escape_math(name_text(name))} {_drawn(name, value)}" for name, value in where.items())


def _drawn(name: str, value: Any, most: int = 32) -> str:
    """Return a value's text, shortened in the middle to `most` letters, so that it leaves room for the panel."""
    text = value_text(name, value)
    begin = most * 3 // 5
    return escape_math(text if len(text) <= most else f"{text[:begin]}…{text[begin + 1 - most :]}")


def text_width(text: str, points: float = 8) -> float:
    """Return the width of a drawn text in inches."""
    font = get_font(findfont("DejaVu Sans"))
    font.set_size(points, 72)
    font.set_text(text.replace(r"\$", "$"), 0.0)
    return float(font.get_width_height()[0]) / 64 / 72


def turned_height(texts: Sequence[str], distance: float) -> float:
    """Return the height in inches that tick labels need if they must be turned, `distance` inches apart; 0 if not.

    Labels are turned that would touch their neighbours.
    """
    widths = [text_width(text) for text in texts]
    touch = any(sum(pair) / 2 + GAP > distance for pair in pairwise(widths))
    return max(widths) if touch else 0.0


def escape_math(text: str) -> str:
    """Escape a text so that matplotlib draws it literally; it parses text between two $ as a formula.

    Characters that the figures' font lacks become their Unicode escapes.
    """
    font = get_font(findfont("DejaVu Sans"))
    known = (sign if sign == "\n" or font.get_char_index(ord(sign)) else ascii(sign)[1:-1] for sign in text)
    return re.sub(r"(?<!\\)\$", r"\$", "".join(known))


def tick_labels(grid: Arrangement, name: str | None, most: int = 32) -> list[str]:
    """Return the tick labels of an axis, without its unit if the axis label has it."""
    if name is None:
        return [""]
    values = grid.cells[name].values.tolist()
    if describe(name).units in ("", "1", "B"):  # sizes are easier to read each in its own unit
        return [_drawn(name, value, most) for value in values]
    return [value_text(name, value) if math.isinf(value) else plain(value) for value in values]


def axis_label(name: str | None) -> str:
    """Return an axis' name with its unit, unless the tick labels have units; "" without an axis."""
    if name is None:
        return ""
    unit = describe(name).units
    return escape_math(axis_name(name)) if unit in ("", "1", "B") else f"{axis_name(name)} ({unit})"


def positions(cells: xr.Dataset, name: str) -> NDArray[np.float64]:
    """Return positions of values on an axis: logarithmic or to scale; words and infinities evenly."""
    values = cells[name].values.tolist()
    if any(isinstance(value, str) or math.isinf(value) for value in values):
        return np.arange(len(values), dtype=float)
    numbers = np.array(values, dtype=float)
    if name == "streams" or (numbers.min() > 0 and numbers.max() >= 16 * numbers.min()):
        return np.asarray(np.log2(numbers))
    return numbers


def spaced(at: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Choose positions of ticks, by index: all if few, otherwise with room for `most` labels."""
    if len(at) <= most:
        return np.arange(len(at))
    chosen: list[int] = []
    for place in np.argsort(at, kind="stable"):
        if not chosen or at[place] - at[chosen[-1]] >= np.ptp(at) / most:
            chosen.append(int(place))
    return np.array(chosen)


def mean_note(summary: xr.Dataset) -> str:
    """Describe the throughput, and how repetitions are combined."""
    count = summary.sizes.get(REPETITION, 1)
    if summary.attrs["testbed_kind"] == IMPORTED:
        return f"Throughput as found, mean of up to {count} measurements of a cell."
    if summary.attrs["testbed_kind"] == SIMULATED:
        return "Simulated goodput at the destination: computed from a model, not measured."
    several = f", mean of {count} repetitions or of those without a warning" if count > 1 else ""
    return f"Mean goodput at the destination after warm-up{several}."


def band_note(summary: xr.Dataset, shown_as: str = "Bars") -> str:
    """Describe the intervals that a figure shows as bars, bands or numbers."""
    if summary.attrs["testbed_kind"] == SIMULATED:
        return f"{shown_as}: {confidence(summary)} of random parameter sets within their stated ranges."
    whose = " of the mean" if summary.sizes.get(REPETITION, 1) > 1 else ""
    return f"{shown_as}: {confidence(summary)} confidence interval{whose}."


def throughput_note(summary: xr.Dataset) -> str:
    return f"{mean_note(summary)} {band_note(summary)}"


def rate_label(summary: xr.Dataset, rate: str = "throughput") -> str:
    """Return the axis label of a throughput, which marks simulated data."""
    return f"{'simulated ' * (summary.attrs['testbed_kind'] == SIMULATED)}{rate} (Gbit/s)"


def confidence(summary: xr.Dataset) -> str:
    return f"{plain(100 * float(summary.attrs.get('measurement_confidence', CONFIDENCE)))} %"
