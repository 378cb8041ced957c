# SPDX-License-Identifier: Apache-2.0
"""How a sweep that is measured in rounds came to know its surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from tpcsweep.figures.panels import finish, placeholder, styled

_TITLE = "Estimated error of the surface"


@styled()
def rounds(summary: xr.Dataset, log: Mapping[str, Any]) -> Figure:
    """Draw the estimated error after each round against the share of cells that were measured.

    Args:
        summary: the dataset of the cells.
        log: the content of rounds.json.
    """
    known = [entry for entry in log["rounds"] if entry.get("error")]
    if not known:
        return placeholder(summary, _TITLE, "Every cell was measured: there is nothing to estimate.")
    shares, errors, noises = ([entry[name] for entry in known] for name in ("share", "error", "noise"))
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    axes = figure.subplots()
    (total,) = axes.plot(shares, errors, "o-", label="cells not measured")
    (noise,) = axes.plot(shares, noises, ":", color="#666666", label="of it noise: it stays")
    line = axes.axhline(log["asked"], linestyle="--", color="black", label="asked for")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="share of the grid that was measured", ylabel="RMS error over the range")
    ended = f"Ended: {log['ended']}." if log["ended"] else "Not ended."
    finish(figure, summary, _TITLE, [ended], [total, noise, line])
    return figure
