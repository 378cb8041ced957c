"""Figures of TCP on long fat paths: what was published, formulas, simulations and measurements side by side.

A simulated value is never drawn like a measured one: hollow squares by ns-3, filled circles on a kernel, stars as
published, lines by formula, and the legend says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from tpcsweep import tcp
from tpcsweep.claims.terena2005 import RECOVERIES
from tpcsweep.figures.panels import head, styled
from tpcsweep.studies.terena2005.outcomes import Made, Outcome, interval
from tpcsweep.studies.terena2005.published import SHARES, UTILISATIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS: dict[Made, dict[str, Any]] = {
    "simulated": {"marker": "s", "markerfacecolor": "none", "markersize": 6},
    "measured": {"marker": "o", "markersize": 5},
}
MEANINGS: dict[Made, str] = {"simulated": "simulated by ns-3", "measured": "measured on a kernel"}
_LOSSES = np.logspace(-6, -1, 101)
_CONTROLS = {"reno": "#0072b2", "cubic": "#d55e00", "bbr": "#009e73"}
_PUBLISHED = Line2D([], [], linestyle="", marker="*", markersize=11, color="black", label="published")
_NONE_MEASURED = "Nothing was measured: snakemake terena2005_measured."


def utilisation(outcomes: Sequence[Outcome]) -> Figure:
    """Draw utilisation against loss: Reno on the published paths, other congestion controls beside it."""
    chosen = [one for one in outcomes if one.case.kind == "loss" and one.refused is None]
    paths = sorted({(one.case.rtt, one.case.bandwidth) for one in chosen if one.case.control == "reno"})
    shades = dict(zip(paths, ("#56b4e9", "#e69f00", "#0072b2", "#cc79a7"), strict=False))
    with styled():
        figure = Figure(figsize=(7.8, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for (rtt, bandwidth), shade in shades.items():
            for acks, style in ((1, "-"), (2, ":")):
                used = [tcp.utilisation(bandwidth, rtt, 1500, loss, acks) for loss in _LOSSES]
                left.plot(_LOSSES, used, style, color=shade, linewidth=1.2)
        for one in chosen:
            case = one.case
            if case.control == "reno":
                _point(left, case.loss, one.utilisations, one.made, shades[case.rtt, case.bandwidth])
            if case.rtt == 120:
                _point(right, case.loss, one.utilisations, one.made, _CONTROLS[case.control])
        for row in UTILISATIONS:
            for axes in (left, right) if row.rtt == 120 else (left,):
                axes.plot(row.loss, row.published, "*", color="black", markersize=11, zorder=5)
        reno = [tcp.utilisation(1, 120, 1500, loss) for loss in _LOSSES]
        cubic = [tcp.cubic_utilisation(1, 120, 1500, loss) for loss in _LOSSES]
        right.plot(_LOSSES, reno, color=_CONTROLS["reno"], linewidth=1.2)
        right.plot(_LOSSES, cubic, color=_CONTROLS["cubic"], linewidth=1.2)
        left.set_title("Reno, 1 Gbit/s, MTU 1500")
        right.set_title("120 ms: 1 Gbit/s; BBR 0.1 Gbit/s")
        for axes in (left, right):
            axes.set(xscale="log", yscale="log", xlabel="share of packets lost", ylim=(2e-5, 1.6))
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
            axes.grid(visible=True, alpha=0.3)
        left.set_ylabel("payload over bandwidth")
        handles = [Line2D([], [], color=shade, label=f"RTT {rtt:g} ms") for (rtt, _), shade in shades.items()]
        handles += _controls(chosen)
        handles += [Line2D([], [], color="grey", linestyle=":", label="formula, delayed ACKs")]
        notes = [
            "Lines: formula, an ACK for each packet (Mathis; for CUBIC RFC 9438).",
            _bars(),
            _said(chosen),
        ]
        _finish(figure, "Utilisation of one TCP stream against loss", notes, handles, chosen)
    return figure


def recovery(outcomes: Sequence[Outcome]) -> Figure:
    """Draw times to recover from one loss over those of the formula, and the congestion windows that show them."""
    chosen = [one for one in outcomes if one.case.kind == "recovery" and one.refused is None]
    with styled():
        figure = Figure(figsize=(7.8, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.axhline(1, color="grey", linewidth=1)
        for row in RECOVERIES:
            over = row.published / row.by_formula
            left.plot(row.by_formula, over, "*", color="black" if row.agrees else "#cc0000", markersize=10)
            if not row.agrees:
                left.annotate(
                    row.path,
                    (row.by_formula, over),
                    (-8, 0),
                    textcoords="offset points",
                    ha="right",
                    va="center",
                )
        by_formula: dict[str, Callable[[float, float, int], float]] = {
            "reno": tcp.recovery_time,
            "cubic": tcp.cubic_recovery_time,
        }
        for one in chosen:
            case = one.case
            if formula := by_formula.get(case.control):
                at = formula(case.bandwidth, case.rtt, case.mtus[0])
                _point(left, at, [seconds / at for seconds in one.seconds], one.made, _CONTROLS[case.control])
        left.set(xscale="log", xlabel="by formula (s)", ylabel="time over that by formula")
        left.set_title("Time to recover from one loss")
        longest = max((one.case.rtt for one in chosen if one.case.bandwidth == 0.1), default=0)
        for one in chosen:
            if one.case.rtt == longest and one.case.bandwidth == 0.1 and one.series:
                style = "-" if one.made == "measured" else "--"
                right.plot(
                    one.series["time"],
                    one.series["window"],
                    style,
                    color=_CONTROLS[one.case.control],
                    linewidth=1,
                )
        right.set(xlabel="time (s)", ylabel="congestion window (packets)", ylim=(0, None))
        right.set_title(f"100 Mbit/s, {longest:g} ms (dashed: simulated)")
        for axes in (left, right):
            axes.grid(visible=True, alpha=0.3)
        handles = _controls(chosen)
        notes = [
            "Grey: as the formula says. Red: the published time that its own formula does not give.",
            _bars(),
            _said(chosen),
        ]
        _finish(figure, "Recovery from one loss", notes, handles, chosen)
    return figure


def fairness(outcomes: Sequence[Outcome]) -> Figure:
    """Draw what two Reno streams that differ in MTU alone get of one path, as shares of what both get."""
    chosen = [one for one in outcomes if one.case.kind == "mtu_fairness" and one.refused is None]
    mtus = [row.mtu for row in SHARES]
    bars = [
        ("published\n1 Gbit/s, 117 ms", [row.published for row in SHARES]),
        ("formula\n(as the MSS)", tcp.shares(mtus)),
    ]
    for one in chosen:
        means = [float(np.mean(one.goodputs(mtu))) for mtu in mtus]
        case = one.case
        bars.append((f"{one.made}\n{case.bandwidth:g} Gbit/s, {case.rtt:g} ms", means))
    with styled():
        figure = Figure(figsize=(6.4, 2.9), layout="constrained")
        axes = figure.subplots()
        names = [name for name, _ in bars]
        bottom = np.zeros(len(bars))
        for at, (mtu, colour) in enumerate(zip(mtus, ("#e69f00", "#56b4e9"), strict=True)):
            shares = np.array([values[at] / sum(values) for _, values in bars])
            drawn = axes.bar(names, shares, bottom=bottom, color=colour, label=f"MTU {mtu}", width=0.6)
            axes.bar_label(drawn, [f"{share:.0%}" for share in shares], label_type="center", fontsize=8)
            bottom += shares
        for at, one in enumerate(chosen, start=len(bars) - len(chosen)):
            each = list(zip(*(one.goodputs(mtu) for mtu in mtus), strict=True))
            spread = interval([got[0] / sum(got) for got in each])
            if spread is not None and np.isfinite(spread.low):
                ends = [[spread.value - max(0.0, spread.low)], [min(1.0, spread.high) - spread.value]]
                axes.errorbar([at + 0.2], [spread.value], ends, color="black", capsize=3, linewidth=1)
        for patch, (name, _) in zip(axes.patches, bars * len(mtus), strict=True):
            if name.startswith("simulated"):
                patch.set(hatch="//", edgecolor="white")
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_ylabel("share of both streams' goodput")
        handles, _ = axes.get_legend_handles_labels()
        notes = ["Hatched: simulated by ns-3.", f"{_bars()} One repetition has none.", _said(chosen)]
        title = f"Two Reno streams of different MTU on one path: {_sources(chosen)}"
        head(figure, title, [note for note in notes if note], handles)
    return figure


def _point(axes: Axes, x: float, values: Sequence[float], made: Made, colour: str) -> None:
    found = interval([value for value in values if value > 0])
    if found is None:
        return
    # On a logarithmic scale the lower end stays above nothing.
    low = found.value - max(found.low, found.value / 10) if np.isfinite(found.low) else 0.0
    high = found.high - found.value if np.isfinite(found.high) else 0.0
    axes.errorbar([x], [found.value], [[low], [high]], color=colour, capsize=2, linewidth=1, **LOOKS[made])


def _controls(chosen: Sequence[Outcome]) -> list[Line2D]:
    there = {one.case.control for one in chosen}
    return [Line2D([], [], color=c, label=name.upper()) for name, c in _CONTROLS.items() if name in there]


def _bars() -> str:
    return "Bars: 95 % confidence interval over repetitions."


def _said(chosen: Sequence[Outcome]) -> str:
    texts = []
    broken = sum(len(one.broken) for one in chosen)
    if broken:
        texts.append(f"{broken} repetitions in which ns-3 stalled or crashed are left out.")
    if not any(one.made == "measured" for one in chosen):
        texts.append(_NONE_MEASURED)
    return " ".join(texts)


def _finish(
    figure: Figure, what: str, notes: Sequence[str], handles: Sequence[Any], chosen: Sequence[Outcome]
) -> None:
    there = {one.made for one in chosen}
    points = [
        Line2D([], [], linestyle="", color="grey", label=MEANINGS[made], **look)
        for made, look in LOOKS.items()
        if made in there
    ]
    title = f"{what}: {_sources(chosen)}"
    head(figure, title, [note for note in notes if note], [_PUBLISHED, *points, *handles])


def _sources(chosen: Sequence[Outcome]) -> str:
    there = {one.made for one in chosen}
    return ", ".join(
        ["published", "by formula", *(words for made, words in MEANINGS.items() if made in there)]
    )
