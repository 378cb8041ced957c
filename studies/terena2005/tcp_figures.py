# SPDX-License-Identifier: Apache-2.0
"""Figures of TCP on long fat paths: published values, formulas, simulations and measurements.

Simulated values never look like measured ones: hollow squares for ns-3, filled circles for a kernel, stars for
published values, lines for formulas, as explained in the legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import formulas
import numpy as np
from cases import SHARES, UTILISATIONS, Kind
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from runs import Made, Run, interval
from tpcsweep.analysis.claims.before_2023 import RECOVERIES
from tpcsweep.common.numbers import plain
from tpcsweep.measuring.tcp import recovery_time
from tpcsweep.pages.figures.panels import add_header, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS: dict[Made, dict[str, Any]] = {
    "simulated": {"marker": "s", "markerfacecolor": "none", "markersize": 6, "label": "simulated by ns-3"},
    "measured": {"marker": "o", "markersize": 5, "label": "measured on a kernel"},
}
_LOSSES = np.logspace(-6, -1, 101)
_CONTROLS = {"reno": "#0072b2", "cubic": "#d55e00", "bbr": "#009e73"}
_PUBLISHED = Line2D([], [], linestyle="", marker="*", markersize=11, color="black", label="published")
_BARS = "Bars: 95 % confidence interval over repetitions."


@styled()
def utilisation(runs: Sequence[Run]) -> Figure:
    """Draw utilisation against loss: Reno on the published paths, and other congestion controls."""
    runs = _of(runs, "loss")
    paths = sorted({(run.case.rtt, run.case.bandwidth) for run in runs if run.case.control == "reno"})
    shades = dict(zip(paths, ("#56b4e9", "#e69f00", "#0072b2", "#cc79a7"), strict=False))
    figure, (left, right) = _two_panels(sharey=True)
    for (rtt, bandwidth), shade in shades.items():
        for acks, style in ((1, "-"), (2, ":")):
            used = [formulas.utilisation(bandwidth, rtt, 1500, loss, acks) for loss in _LOSSES]
            left.plot(_LOSSES, used, style, color=shade, linewidth=1.2)
    for control, formula in (("reno", formulas.utilisation), ("cubic", formulas.cubic_utilisation)):
        used = [formula(1, 120, 1500, loss) for loss in _LOSSES]
        right.plot(_LOSSES, used, color=_CONTROLS[control], linewidth=1.2)
    for run in runs:
        case = run.case
        if case.control == "reno":
            _point(left, case.loss, run.utilisations, run.made, shades[case.rtt, case.bandwidth])
        if case.rtt == 120:
            _point(right, case.loss, run.utilisations, run.made, _CONTROLS[case.control])
    for row in UTILISATIONS:
        for axes in (left, right) if row.rtt == 120 else (left,):
            axes.plot(row.loss, row.published, "*", color="black", markersize=11, zorder=5)
    left.set(title="Reno, 1 Gbit/s, MTU 1500", ylabel="payload over bandwidth")
    right.set(title="120 ms: 1 Gbit/s; BBR 0.1 Gbit/s")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="share of packets lost", ylim=(2e-5, 1.6))
        axes.yaxis.set_major_formatter(lambda value, _: f"{plain(100 * value)} %")
    handles = [
        Line2D([], [], color=shade, label=f"RTT {plain(rtt)} ms") for (rtt, _), shade in shades.items()
    ]
    handles += _controls(runs)
    handles += [Line2D([], [], color="grey", linestyle=":", label="formula, delayed ACKs")]
    note = "Lines: formula, an ACK for each packet (Mathis; for CUBIC RFC 9438)."
    _finish(figure, "Utilisation of one TCP stream against loss", [note, _BARS], handles, runs)
    return figure


@styled()
def recovery(runs: Sequence[Run]) -> Figure:
    """Draw recovery times from one loss over those of the formula, and the congestion windows behind them."""
    runs = _of(runs, "recovery")
    figure, (left, right) = _two_panels()
    left.axhline(1, color="grey", linewidth=1)
    for row in RECOVERIES:
        place = (row.by_formula, row.published / row.by_formula)
        left.plot(*place, "*", color="black" if row.agrees else "#cc0000", markersize=10)
        if not row.agrees:
            left.annotate(row.path, place, (-8, 0), textcoords="offset points", ha="right", va="center")
    times = {"reno": recovery_time, "cubic": formulas.cubic_recovery_time}
    for run in runs:
        case = run.case
        if formula := times.get(case.control):
            expected = formula(case.bandwidth, case.rtt, case.mtus[0])
            ratios = [seconds / expected for seconds in run.seconds]
            _point(left, expected, ratios, run.made, _CONTROLS[case.control])
    left.set(xscale="log", xlabel="by formula (s)", ylabel="time over that by formula")
    left.set_title("Time to recover from one loss")
    slow = [run for run in runs if run.case.bandwidth == 0.1]
    longest = max((run.case.rtt for run in slow), default=0)
    for run in slow:
        if run.case.rtt == longest and run.series:
            style = "-" if run.made == "measured" else "--"
            colour = _CONTROLS[run.case.control]
            right.plot(run.series["time"], run.series["window"], style, color=colour, linewidth=1)
    right.set(xlabel="time (s)", ylabel="congestion window (packets)", ylim=(0, None))
    right.set_title(f"100 Mbit/s, {plain(longest)} ms (dashed: simulated)")
    note = "Grey: as the formula says. Red: the published time that its own formula does not give."
    _finish(figure, "Recovery from one loss", [note, _BARS], _controls(runs), runs)
    return figure


@styled()
def fairness(runs: Sequence[Run]) -> Figure:
    """Draw the shares of two Reno streams with different MTUs on one path."""
    runs = _of(runs, "mtu_fairness")
    mtus = [row.mtu for row in SHARES]
    bars = [
        ("published\n1 Gbit/s, 117 ms", [row.published for row in SHARES]),
        ("formula\n(as the MSS)", formulas.shares(mtus)),
    ]
    for run in runs:
        means = [float(np.mean(run.goodputs(mtu))) for mtu in mtus]
        bars.append((f"{run.made}\n{plain(run.case.bandwidth)} Gbit/s, {plain(run.case.rtt)} ms", means))
    figure = Figure(figsize=(6.4, 2.9), layout="constrained")
    axes = figure.subplots()
    names = [name for name, _ in bars]
    bottom = np.zeros(len(bars))
    for place, (mtu, colour) in enumerate(zip(mtus, ("#e69f00", "#56b4e9"), strict=True)):
        shares = np.array([values[place] / sum(values) for _, values in bars])
        drawn = axes.bar(names, shares, bottom=bottom, color=colour, label=f"MTU {mtu}", width=0.6)
        axes.bar_label(drawn, [f"{share:.0%}" for share in shares], label_type="center", fontsize=8)
        bottom += shares
        for patch, name in zip(drawn, names, strict=True):
            if name.startswith("simulated"):
                patch.set(hatch="//", edgecolor="white")
    for x, run in enumerate(runs, start=len(bars) - len(runs)):
        rates = zip(*(run.goodputs(mtu) for mtu in mtus), strict=True)
        spread = interval([small / (small + large) for small, large in rates])
        if spread is not None and np.isfinite(spread.low):
            ends = [[spread.value - max(0.0, spread.low)], [min(1.0, spread.high) - spread.value]]
            axes.errorbar([x + 0.2], [spread.value], ends, color="black", capsize=3, linewidth=1)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_ylabel("share of both streams' goodput")
    notes = ["Hatched: simulated by ns-3.", f"{_BARS} One repetition has none."]
    handles = axes.get_legend_handles_labels()[0]
    _finish(figure, "Two Reno streams of different MTU on one path", notes, handles, runs, marked=False)
    return figure


def _two_panels(*, sharey: bool = False) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(7.8, 3.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=sharey)
    for axes in panels:
        axes.grid(visible=True, alpha=0.3)
    return figure, panels


def _of(runs: Sequence[Run], kind: Kind) -> list[Run]:
    return [run for run in runs if run.case.kind == kind and run.refused is None]


def _point(axes: Axes, x: float, values: Sequence[float], made: Made, colour: str) -> None:
    mean = interval([value for value in values if value > 0])
    if mean is None:
        return
    # On a logarithmic scale the lower end must be positive.
    low = mean.value - max(mean.low, mean.value / 10) if np.isfinite(mean.low) else 0.0
    high = mean.high - mean.value if np.isfinite(mean.high) else 0.0
    look = {**LOOKS[made], "label": None}
    axes.errorbar([x], [mean.value], [[low], [high]], color=colour, capsize=2, linewidth=1, **look)


def _controls(runs: Sequence[Run]) -> list[Line2D]:
    used = {run.case.control for run in runs}
    return [
        Line2D([], [], color=colour, label=name.upper()) for name, colour in _CONTROLS.items() if name in used
    ]


def _finish(
    figure: Figure,
    title: str,
    notes: Sequence[str],
    handles: Sequence[Any],
    runs: Sequence[Run],
    *,
    marked: bool = True,
) -> None:
    """Add the title with the sources, notes with missing data, and the legend, including drawn marks."""
    looks = [look for made, look in LOOKS.items() if any(run.made == made for run in runs)]
    notes = [*notes]
    if broken := sum(len(run.broken) for run in runs):
        notes.append(f"{broken} repetitions in which ns-3 stalled or crashed are left out.")
    if not any(run.made == "measured" for run in runs):
        notes.append("Nothing was measured: snakemake -s studies/terena2005/Snakefile measured.")
    marks = [_PUBLISHED, *(Line2D([], [], linestyle="", color="grey", **look) for look in looks)]
    sources = ", ".join(["published", "by formula", *(look["label"] for look in looks)])
    add_header(figure, f"{title}: {sources}", notes, [*(marks if marked else []), *handles])
