# SPDX-License-Identifier: Apache-2.0
"""Figures of analyses: the effect of nodes, and the rounds of an adaptive sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from tpcsweep.figures.labels import plain
from tpcsweep.figures.panels import finish, placeholder, styled
from tpcsweep.hardware import CONFIDENCE, Hardware

_NODES = "What nodes did to throughput"
_MOST_NAMED = 60
"""Pairs that have their names beside them; of more the table has them."""
_ROUNDS = "Estimated error of the surface"


@styled()
def hardware(summary: xr.Dataset, found: Hardware) -> Figure:
    """Draw the throughput of each pair over that of the mean pair, with its interval.

    Args:
        summary: the dataset that was looked at.
        found: what `tpcsweep.hardware.node_effects` says of it.
    """
    known = found.pairs[found.pairs["with"] > 1].sort_values(["ratio", "pair"])
    if known.empty:
        return placeholder(summary, _NODES, found.summary())
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
    finish(figure, summary, _NODES, notes)
    return figure


@styled()
def rounds(summary: xr.Dataset, log: Mapping[str, Any]) -> Figure:
    """Draw the estimated error after each round against the share of cells that were measured.

    Args:
        summary: the dataset of the cells.
        log: the content of rounds.json.
    """
    known = [entry for entry in log["rounds"] if entry.get("error")]
    if not known:
        return placeholder(summary, _ROUNDS, "Every cell was measured: there is nothing to estimate.")
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
    finish(figure, summary, _ROUNDS, [ended], [total, noise, line])
    return figure
