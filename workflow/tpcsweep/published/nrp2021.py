# SPDX-License-Identifier: Apache-2.0
"""The 100 Gbit/s WAN study (2021): throughput against RTT by tool, of its authors' measurements."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tpcsweep.figures.labels import plain
from tpcsweep.figures.line_plots import colours
from tpcsweep.figures.panels import styled
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.layout import board, close


@styled()
def _against_rtt(data: Data, shown: Shown) -> Figure:
    """Draw every link's measurements, and for each tool the median with its quartiles."""
    cells = data.summary["throughput"].to_dataframe()["throughput"].dropna().reset_index()
    tools = sorted(cells["tool"].unique())
    figure, [panel] = board([1], 6.4, 4.0, shown)
    for place, (tool, colour) in enumerate(zip(tools, colours(len(tools) + 1)[:-1], strict=True)):
        part = cells[cells["tool"] == tool]
        # Beside each other: both tools were used on the same links.
        rtt = part["rtt"] * 1.02 ** (place - len(tools) / 2)
        panel.scatter(rtt, part["throughput"], s=4, alpha=0.25, color=colour, linewidth=0)
        quartiles = part.groupby("rtt")["throughput"].quantile([0.25, 0.5, 0.75]).unstack()
        several = quartiles[part.groupby("rtt").size() >= 10]
        panel.errorbar(
            several.index * 1.02 ** (place - len(tools) / 2),
            several[0.5],
            yerr=np.abs(several[[0.25, 0.75]].T.values - several[0.5].values),
            linestyle="",
            marker="o",
            markersize=4,
            color=colour,
            label=plain(tool),
            capsize=2,
        )
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set(xlabel="RTT (ms)", ylabel="throughput (Gbit/s)", ylim=(0, None))
    panel.legend(fontsize=8)
    panel.grid(visible=True, alpha=0.3)
    notes = [
        "Dots: single measurements. Circles: median and quartiles of links with ten or more.",
        str(data.summary.attrs.get("references", "")),
    ]
    close(figure, shown, notes)
    return figure


FIGURES = (
    PublishedFigure(
        "nrp2021",
        "WAN study of 2021: throughput against RTT by tool",
        ("nrp2021.xrootd_vs_gridftp",),
        _against_rtt,
        source="nrp-wan-2020",
    ),
)
