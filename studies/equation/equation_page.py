# SPDX-License-Identifier: Apache-2.0
"""Make the tables and the picture of docs/equation.md from the shipped surface: `make docs`.

The model `combined` is fitted to examples/surface.nc, the equation is solved with what comes out, and `plan` is asked
the same. It takes about a minute.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as File

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from equation import Needed, Path, needed
from matplotlib.figure import Figure
from tpcsweep.models import MODELS, Fit, Predictor, fit, fit_hybrid, observe
from tpcsweep.planning.plan import plan

ROOT = File(__file__).parents[2]
PAGE = ROOT / "docs" / "equation.md"
PICTURE = ROOT / "docs" / "images" / "equation.png"
SURFACE = ROOT / "examples" / "surface.nc"

TARGETS = (0.2, 0.4, 0.6, 0.8)
"""Gbit/s, of the path of 1 Gbit/s of the surface."""
RTTS = (2.0, 10.0, 40.0, 100.0)
"""ms, those of the surface."""
SURE = 0.95

SYMBOLS = {
    "per_core": "κ",
    "instance": "Ω",
    "efficiency": "η",
    "window": "w",
    "handshakes": "h",
    "redirection": "h′",
    "setup": "t₀",
    "contention": "β",
    "crowding": "δ",
    "coherency": "γ",
    "sharpness": "q",
    "base": "R₀",
    "client": "λ",
    "background": "p",
}
PUBLISHED = (
    *((100.0, rtt, 200.0) for rtt in (5.0, 40.0, 120.0)),
    *((200.0, rtt, 400.0) for rtt in (5.0, 40.0, 120.0)),
    (400.0, 3.0, 800.0),
)
"""Targets in Gbit/s, RTTs in ms and bandwidths in Gbit/s of the scale that was published, on paths twice as wide."""


def path_of(rtt: float, fitted: Fit) -> Path:
    """Give the path of the surface at an RTT, with its files and buffers."""
    known = fitted.domain.fixed
    return Path(rtt, known["bandwidth"], known["file_size"], known["mtu"], known["tcp_buffer"])


def asked(fitted: Fit) -> list[tuple[float, float, Needed]]:
    """Give targets, RTTs and what the equation says of them, with one origin."""
    every = [
        (target, rtt, needed(target, path_of(rtt, fitted), fitted.values, 1)) for target, rtt in _places()
    ]
    return [(target, rtt, found) for target, rtt, found in every if found is not None]


def _places() -> Iterable[tuple[float, float]]:
    return itertools.product(TARGETS, RTTS)


def constants(fitted: Fit) -> str:
    """Give a row for each constant: its value and interval, or why the data do not tell it."""
    lines = ["| | constant | value | 95 % interval | |", "|---|---|---|---|---|"]
    for parameter in fitted.model.parameters:
        name = parameter.name
        unit = "" if parameter.unit == "1" else f" {parameter.unit}"
        low, high = fitted.low[name], fitted.high[name]
        interval = f"{low:.3g} to {high:.3g}{unit}" if low < high else ""
        about = re.sub(r"^\S+: ", "", parameter.description)
        value = f"{fitted.values[name]:.3g}{unit}"
        note = "" if fitted.determined[name] else f"not determined: {fitted.reasons[name]}"
        lines.append(f"| {SYMBOLS.get(name, name)} | {about} | {value} | {interval} | {note} |")
    return "\n".join(lines)


def spread(fitted: Fit, target: float, path: Path, origins: int | None = None) -> tuple[str, str]:
    """Give the 95 % intervals of cores and streams over the bootstrap of the constants; "more" is out of reach.

    An origin's maximum is held, as the data do not tell it: some resamples have one that they have not reached.
    """
    held = {"instance": fitted.values["instance"]}
    samples = [dict(zip(fitted.values, sample.tolist(), strict=True)) | held for sample in fitted.samples]
    every = [needed(target, path, sample, origins) for sample in samples]
    texts = []
    for name, digits in (("cores", 2), ("streams", 0)):
        values = [math.inf if one is None else float(getattr(one, name)) for one in every]
        ends = np.quantile(values, [(1 - SURE) / 2, (1 + SURE) / 2], method="inverted_cdf")
        low, high = ("more" if math.isinf(end) else f"{end:.{digits if end < 10 else 0}f}" for end in ends)
        texts.append(f"{low} to {high}")
    return texts[0], texts[1]


def against_plan(fitted: Fit, best: Predictor) -> str:
    """Give a row for each target and RTT: what the equation says, and `plan` at even odds and at `SURE`.

    `plan` asks the same formula, and the model that `tpcsweep plan` asks.
    """
    models = {"same formula": fitted, best.name: best}
    columns = [
        *(f"{name}: with these cores, even odds" for name in models),
        *(f"{name}: 95 % of measurements" for name in models),
    ]
    lines = [
        f"| target | RTT | cores | streams | | {' | '.join(columns)} |",
        "|---" * (5 + len(columns)) + "|",
    ]
    for target, rtt, found in asked(fitted):
        cores, streams = spread(fitted, target, path_of(rtt, fitted), 1)
        evens = [
            _streams(plan(one, target, 0.5, rtt=rtt, origins=1, cores=[found.cores]).cheapest)
            for one in models.values()
        ]
        sure = [_setting(plan(one, target, SURE, rtt=rtt, origins=1).cheapest) for one in models.values()]
        outside = fitted.domain.outside(
            pd.DataFrame([{"cores": found.cores, "streams": found.streams, "rtt": rtt}])
        )
        lines.append(
            f"| {target:g} Gbit/s | {rtt:g} ms | {found.cores:.2f} ({cores}) | {found.streams} ({streams}) | "
            f"{'extrapolated' if outside[0] else ''} | {' | '.join(evens + sure)} |"
        )
    return "\n".join(lines)


def _streams(row: pd.Series | None) -> str:
    return "not reached" if row is None else f"{row['streams']:.0f} streams"


def _setting(row: pd.Series | None) -> str:
    return "not reached" if row is None else f"{row['cores']:.2f} cores, {row['streams']:.0f} streams"


def against_cells(fitted: Fit, summary: xr.Dataset) -> str:
    """Say how many measured cells just above what the equation asks for reach the target, and just below."""
    rates = summary["throughput"].mean("repetition")
    counts = {"above": [0, 0], "below": [0, 0]}
    for (target, rtt), origins in itertools.product(_places(), rates["origins"].values.tolist()):
        found = needed(target, path_of(rtt, fitted), fitted.values, origins)
        if found is None:
            continue
        for side, bound in (("above", math.inf), ("below", -math.inf)):
            place = {
                name: _next(rates[name].values.tolist(), value, bound)
                for name, value in (("cores", found.cores), ("streams", found.streams))
            }
            if None in place.values():
                continue
            rate = float(rates.sel(origins=origins, rtt=rtt, **place))
            counts[side][0] += rate >= target
            counts[side][1] += 1
    (reached, above), (passed, below) = counts["above"], counts["below"]
    return (
        f"Of {above} cells with the next larger values of cores and streams that were measured {reached} reached the "
        f"target; of {below} with the next smaller ones of both {passed} did."
    )


def _next(values: Sequence[float], value: float, bound: float) -> float | None:
    """The nearest of the values on one side."""
    above = bound > 0
    beside = [one for one in values if (one >= value if above else one < value)]
    return (min(beside) if above else max(beside)) if beside else None


def at_scale(fitted: Fit) -> str:
    """Give what the equation says of the published scale, where none of its constants was measured."""
    lines = [
        "| target | RTT | path | cores | origins | streams | buffer of a stream |",
        "|---|---|---|---|---|---|---|",
    ]
    for target, rtt, bandwidth in PUBLISHED:
        path = Path(rtt, bandwidth, 4e9, 9000)
        found = needed(target, path, fitted.values)
        assert found is not None
        cores, streams = spread(fitted, target, path)
        lines.append(
            f"| {target:g} Gbit/s | {rtt:g} ms | {bandwidth:g} Gbit/s | {found.cores:.0f} ({cores}) | "
            f"{found.origins} | {found.streams} ({streams}) | {found.tcp_buffer / 1e6:.3g} MB |"
        )
    return "\n".join(lines)


def drawn(fitted: Fit) -> Figure:
    """Draw streams over RTT for some targets, with what `plan` says at even odds, and cores over the target."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    streams, cores = figure.subplots(1, 2)
    rtts = np.geomspace(RTTS[0], RTTS[-1], 200)
    found = asked(fitted)
    for number, target in enumerate(TARGETS):
        colour = f"C{number}"
        curve = [needed(target, path_of(rtt, fitted), fitted.values, 1) for rtt in rtts]
        counts = [math.nan if one is None else one.streams for one in curve]
        streams.plot(rtts, counts, color=colour, label=f"{target:g} Gbit/s")
        evens = [
            (rtt, plan(fitted, target, 0.5, rtt=rtt, origins=1, cores=[one.cores]).cheapest)
            for wanted, rtt, one in found
            if wanted == target
        ]
        known = [(rtt, row["streams"]) for rtt, row in evens if row is not None]
        streams.plot(*zip(*known, strict=True), "o", color=colour, markersize=5)
    path = path_of(RTTS[0], fitted)
    targets = np.linspace(0.02, fitted.values["efficiency"] * path.bandwidth, 200)[:-1]
    settings = [needed(target, path, fitted.values, 1) for target in targets]
    cores.plot(targets, [math.nan if one is None else one.cores for one in settings], label="needed")
    cores.plot(targets, targets / fitted.values["per_core"], "--", label="without headroom: X/κ")
    streams.set(
        xscale="log", xlabel="RTT (ms)", ylabel="streams", title="dots: plan at even odds, with these cores"
    )
    streams.set_xticks(RTTS, [f"{rtt:g}" for rtt in RTTS])
    streams.minorticks_off()
    cores.set(xlabel="target (Gbit/s)", ylabel="cores of a side", title="any RTT", ylim=(0, None))
    for axes in (streams, cores):
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=7)
    return figure


def page(text: str, parts: Mapping[str, str]) -> str:
    """Put each part between its marks in the page."""
    for name, part in parts.items():
        marks = rf"(?s)(?<=<!-- {name}: made by equation.py -->\n).*?(?=<!-- end -->)"
        text = re.sub(marks, part.replace("\\", r"\\") + "\n", text, count=1)
    return text


def main() -> None:
    """Fit, solve, ask, and write page and picture."""
    summary = xr.load_dataset(SURFACE)
    observations = observe(summary)
    fitted = fit(MODELS["combined"], observations)
    parts = {
        "constants": constants(fitted),
        "plan": against_plan(fitted, fit_hybrid(observations)),
        "cells": against_cells(fitted, summary),
        "scale": at_scale(fitted),
    }
    PAGE.write_text(page(PAGE.read_text(), parts))
    drawn(fitted).savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
