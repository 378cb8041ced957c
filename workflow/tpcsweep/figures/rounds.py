"""How a sweep that is measured in rounds came to know its surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from tpcsweep.figures.panels import finish, placeholder, styled

_WHAT = "Estimated error of the surface"


def rounds(summary: xr.Dataset, log: Mapping[str, Any]) -> Figure:
    """Draw the estimated error after each round against the share of cells that were measured.

    log: the content of rounds.json.
    """
    known = [one for one in log["rounds"] if one.get("error")]
    if not known:
        return placeholder(summary, _WHAT, "Every cell was measured: there is nothing to estimate.")
    shares = [one["share"] for one in known]
    with styled():
        figure = Figure(figsize=(5.2, 3.2), layout="constrained")
        axes = figure.subplots()
        (total,) = axes.plot(shares, [one["error"] for one in known], "o-", label="cells not measured")
        (noise,) = axes.plot(
            shares, [one["noise"] for one in known], ":", color="#666666", label="of it noise: it stays"
        )
        line = axes.axhline(log["asked"], linestyle="--", color="black", label="asked for")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1))
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("share of the grid that was measured")
        axes.set_ylabel("RMS error over the range")
        ended = f"Ended: {log['ended']}." if log["ended"] else "Not ended."
        finish(figure, summary, _WHAT, [ended], [total, noise, line])
    return figure
