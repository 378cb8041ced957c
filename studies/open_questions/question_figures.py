# SPDX-License-Identifier: Apache-2.0
"""Figures of the open questions: netem's limit by arithmetic, and measurements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from arithmetic import ABOUT_1, RTT, Setup
from matplotlib.figure import Figure
from tpcsweep.common.numbers import plain
from tpcsweep.pages.figures.axis_labels import escape_math
from tpcsweep.pages.figures.panels import styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_STREAMS = range(1, 521)


def _look(place: int) -> dict[str, Any]:
    """Return colour and marker of a series by its index."""
    at = place % len(_COLOURS)
    return {"color": _COLOURS[at], "marker": "osD^vP"[at], "markersize": 4}


@styled()
def prediction() -> Figure:
    """Draw goodput over streams by arithmetic at 120 ms: a band for each MTU, with and without offloads.

    Bands reach from all of the delay on one side to half on each; they are faint if packets may have any size.
    """
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    settings = [(mtu, offloads) for mtu in (9000, 1500) for offloads in (True, False)]
    for colour, (mtu, offloads) in zip(_COLOURS, settings, strict=False):
        whole, half = (Setup(share * RTT, mtu, offloads) for share in (1, 0.5))
        settled = np.array(_STREAMS) > half.crossover.high
        label = f"MTU {mtu}, offloads {'on' if offloads else 'off'}"
        least = [whole.goodput(count).low for count in _STREAMS]
        most = [half.goodput(count).high for count in _STREAMS]
        look: dict[str, Any] = {"x": _STREAMS, "y1": least, "y2": most, "color": colour}
        axes.fill_between(**look, where=settled, alpha=0.5, linewidth=1, label=label)
        axes.fill_between(**look, where=~settled, alpha=0.1, linewidth=0)
    axes.axhspan(*ABOUT_1, color="#555555", alpha=0.15, label="about 1 Gbit/s, as published")
    axes.set(xscale="log", yscale="log", xlabel="streams", ylabel="goodput (Gbit/s), by arithmetic")
    axes.set_title(f"By arithmetic, not measured: what 1000 packets leave at {plain(RTT)} ms")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    return figure


@styled()
def against_arithmetic(seen: pd.DataFrame) -> Figure:
    """Draw throughput with a packet limit over the span of the arithmetic."""
    rows = seen[np.isfinite(seen["limit"].astype(float))]
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for place, (source, group) in enumerate(rows.groupby("source")):
        middle = np.sqrt(group["least"] * group["most"])
        ends = [middle - group["least"], group["most"] - middle]
        label = escape_math(f"SIMULATED: {source}" if group["simulated"].any() else source)
        bars: dict[str, Any] = {"xerr": ends, "yerr": 2 * group["error"], "linewidth": 0.8, "linestyle": ""}
        axes.errorbar(middle, group["throughput"], **bars, **_look(place), alpha=0.8, label=label)
    if len(rows):
        ends = [rows[["least", "throughput"]].min().min(), rows[["most", "throughput"]].max().max()]
        axes.plot(ends, ends, color="#555555", linestyle=":", linewidth=1, label="as by arithmetic")
        axes.set(xscale="log", yscale="log")
        axes.legend(fontsize="small")
    axes.set(xlabel="by arithmetic, least to most (Gbit/s)", ylabel="throughput (Gbit/s)")
    axes.set_title("Throughput with a packet limit, and what the limit leaves by arithmetic")
    axes.grid(visible=True, alpha=0.3)
    return figure


@styled()
def over_rtt(seen: pd.DataFrame) -> Figure:
    """Draw throughput over RTT at fixed streams: one panel for each source, one line for each setting."""
    alike = ["source", "explanation", "streams", "limit", "mtu"]
    lines = [(key, rows) for key, rows in seen.groupby(alike, dropna=False) if rows["rtt"].nunique() > 2]
    sources = sorted({key[0] for key, _ in lines}) or ["not measured"]
    figure = Figure(figsize=(4.6 * len(sources), 4), layout="constrained")
    for axes, source in zip(figure.subplots(1, len(sources), squeeze=False)[0], sources, strict=True):
        chosen = [(key, rows) for key, rows in lines if key[0] == source]
        for place, (key, rows) in enumerate(chosen):
            _over_rtt(axes, key, rows, place)
        simulated = bool(seen.loc[seen["source"] == source, "simulated"].any())
        axes.set(xlabel="RTT (ms)", ylabel=f"throughput (Gbit/s){', SIMULATED' * simulated}")
        axes.set_title(escape_math(source), fontsize="small", wrap=True)
        axes.grid(visible=True, alpha=0.3)
        if chosen:
            axes.set(xscale="log", yscale="log")
            axes.legend(fontsize="x-small")
    return figure


def _over_rtt(axes: Axes, key: tuple[Any, ...], rows: pd.DataFrame, place: int) -> None:
    _, _, streams, limit, mtu = key
    rows = rows.groupby("rtt", as_index=False).mean(numeric_only=True)
    packets = "no limit" if limit == math.inf else f"limit {plain(limit)}"
    label = f"{plain(streams)} streams, {packets}, MTU {plain(mtu)}"
    axes.errorbar(rows["rtt"], rows["throughput"], yerr=2 * rows["error"], label=label, **_look(place))
    last = rows.iloc[-1]
    inverse = last["throughput"] * last["rtt"] / rows["rtt"]
    colour, label = _look(place)["color"], "" if place else "1/RTT"
    axes.plot(rows["rtt"], inverse, color=colour, linestyle=":", linewidth=1, label=label)
