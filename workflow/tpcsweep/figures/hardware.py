# SPDX-License-Identifier: Apache-2.0
"""What the nodes did to throughput, for each pair of them."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from tpcsweep.figures.labels import plain
from tpcsweep.figures.panels import finish, placeholder, styled
from tpcsweep.hardware import CONFIDENCE, Hardware

_TITLE = "What nodes did to throughput"
_MOST_NAMED = 60
"""Pairs that have their names beside them; of more the table has them."""


@styled()
def hardware(summary: xr.Dataset, found: Hardware) -> Figure:
    """Draw the throughput of each pair over that of the mean pair, with its interval.

    Args:
        summary: the dataset that was looked at.
        found: what `tpcsweep.hardware.hardware` says of it.
    """
    known = found.pairs[found.pairs["with"] > 1].sort_values(["ratio", "pair"])
    if known.empty:
        return placeholder(summary, _TITLE, found.summary())
    named = len(known) <= _MOST_NAMED
    high = 0.6 + (0.2 * len(known) if named else 0.06 * _MOST_NAMED * 3)
    figure = Figure(figsize=(6.4, max(1.6, high)), layout="constrained")
    axes = figure.subplots()
    at = np.arange(len(known))
    effect = known[["ratio", "ratio_low", "ratio_high"]].to_numpy().T - 1
    axes.axvline(0, color="#555555", linewidth=1)
    axes.hlines(at, effect[1], effect[2], color="#0072B2", linewidth=1.2)
    axes.plot(effect[0], at, "o", color="#0072B2", markersize=4 if named else 2)
    labels = [f"{pair} ({count})" for pair, count in zip(known["pair"], known["deployments"], strict=True)]
    axes.set_yticks(at if named else [], list(map(plain, labels)) if named else [])
    axes.set(xlabel="throughput over that of the mean pair, less 1", ylim=(-0.6, len(known) - 0.4))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(visible=True, axis="x", alpha=0.3)
    notes = [
        found.summary(),
        f"Settings apart. In brackets: deployments. Bars: {CONFIDENCE:.0%} intervals (Student's t), each for itself.",
    ]
    if not named:
        notes.append(f"{len(known)} pairs, in the order of the table.")
    finish(figure, summary, _TITLE, notes)
    return figure
