# SPDX-License-Identifier: Apache-2.0
"""Tables and figure of the equation, with the constants of the fitted model `combined`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from equation import Needed, Path, needed
from matplotlib.figure import Figure
from tpcsweep.analysis.models.fit import Fit
from tpcsweep.analysis.models.predictor import Predictor
from tpcsweep.analysis.plans.plan import plan
from tpcsweep.common.numbers import plain
from tpcsweep.pages.figures.panels import styled

TARGETS = (0.2, 0.4, 0.6, 0.8)
"""Gbit/s, on the surface's path of 1 Gbit/s."""
RTTS = (2.0, 10.0, 40.0, 100.0)
"""RTTs of the surface in ms."""
PUBLISHED = (
    *((100.0, rtt, 200.0) for rtt in (5.0, 40.0, 120.0)),
    *((200.0, rtt, 400.0) for rtt in (5.0, 40.0, 120.0)),
    (400.0, 3.0, 800.0),
)
"""Targets (Gbit/s), RTTs (ms) and bandwidths (Gbit/s) of the published scale, on twice as wide paths."""
SURE = 0.95


def path_of(rtt: float, fitted: Fit) -> Path:
    """Return the path of the surface at an RTT in ms, with its files and buffers."""
    known = fitted.domain.fixed
    return Path(rtt, known["bandwidth"], known["file_size"], known["mtu"], known["tcp_buffer"])


def constants(fitted: Fit) -> pd.DataFrame:
    """Return one row for each constant: value, 95 % interval, and the reason if undetermined."""
    return pd.DataFrame(
        {
            "constant": parameter.name,
            "meaning": re.sub(r"^\S+: ", "", parameter.description),
            "value": fitted.values[parameter.name],
            "low": fitted.low[parameter.name],
            "high": fitted.high[parameter.name],
            "unit": parameter.unit,
            "not determined": "" if fitted.determined[parameter.name] else fitted.reasons[parameter.name],
        }
        for parameter in fitted.model.parameters
    )


def spread(fitted: Fit, target: float, path: Path, origins: int | None = None) -> dict[str, str]:
    """Return the bootstrap's 95 % intervals of cores and streams; "more" means out of reach.

    Every resample has the fitted maximum of an origin: the data do not determine it, and some resamples do not reach
    the target with theirs.
    """
    held = {"instance": fitted.values["instance"]}
    samples = [dict(zip(fitted.values, sample.tolist(), strict=True)) | held for sample in fitted.samples]
    every = [needed(target, path, sample, origins) for sample in samples]
    texts = {}
    for name, digits in (("cores", 2), ("streams", 0)):
        values = [math.inf if one is None else float(getattr(one, name)) for one in every]
        ends = np.quantile(values, [(1 - SURE) / 2, (1 + SURE) / 2], method="inverted_cdf")
        low, high = ("more" if math.isinf(end) else f"{end:.{digits if end < 10 else 0}f}" for end in ends)
        texts[f"{name}, 95 %"] = f"{low} to {high}"
    return texts


def planned_streams(model: Predictor, target: float, rtt: float, found: Needed) -> float:
    """Return the streams of `plan` at even odds, with one origin and the equation's cores; NaN for none."""
    cheapest = plan(model, target, 0.5, rtt=rtt, origins=1, cores=[found.cores]).cheapest
    return math.nan if cheapest is None else float(cheapest["streams"])


def against_plan(fitted: Fit) -> pd.DataFrame:
    """Return one row for each target and RTT of the surface: the equation with one origin, and `plan`."""
    rows = []
    for target, rtt in itertools.product(TARGETS, RTTS):
        path = path_of(rtt, fitted)
        if (found := needed(target, path, fitted.values, 1)) is not None:
            outside = fitted.domain.outside(
                pd.DataFrame([{"cores": found.cores, "streams": found.streams, "rtt": rtt}])
            )
            rows.append(
                {
                    "target (Gbit/s)": target,
                    "RTT (ms)": rtt,
                    "cores": found.cores,
                    "streams": found.streams,
                    **spread(fitted, target, path, 1),
                    "streams by plan": planned_streams(fitted, target, rtt, found),
                    "": "extrapolated" if outside[0] else "",
                }
            )
    return pd.DataFrame(rows)


def against_cells(fitted: Fit, summary: xr.Dataset) -> pd.DataFrame:
    """Return how many cells just above and just below the equation's cores and streams reach the target."""
    rates = summary["throughput"].mean("repetition")
    reached: dict[str, list[bool]] = {"next larger": [], "next smaller": []}
    for target, rtt, origins in itertools.product(TARGETS, RTTS, rates["origins"].values.tolist()):
        found = needed(target, path_of(rtt, fitted), fitted.values, origins)
        if found is None:
            continue
        for side, cells in reached.items():
            cores, streams = (
                _next(rates[name].values.tolist(), getattr(found, name), side)
                for name in ("cores", "streams")
            )
            if cores is not None and streams is not None:
                rate = float(rates.sel(origins=origins, rtt=rtt, cores=cores, streams=streams))
                cells.append(rate >= target)
    return pd.DataFrame(
        {"cores and streams": side, "cells": len(cells), "reach the target": sum(cells)}
        for side, cells in reached.items()
    )


def _next(values: Sequence[float], value: float, side: str) -> float | None:
    if side == "next larger":
        return min((one for one in values if one >= value), default=None)
    return max((one for one in values if one < value), default=None)


def at_scale(fitted: Fit) -> pd.DataFrame:
    """Return the settings at the published scale, at which no constant was measured.

    The cost of a pair of cores counts as 0, because no measured origin has more than a fraction of a core. The
    intervals contain every value that the bootstrap has for it.
    """
    values = {**fitted.values, "coherency": 0.0}
    rows = []
    for target, rtt, bandwidth in PUBLISHED:
        path = Path(rtt, bandwidth, 4e9, 9000)
        found = needed(target, path, values)
        assert found is not None
        rows.append(
            {
                "target (Gbit/s)": target,
                "RTT (ms)": rtt,
                "path (Gbit/s)": bandwidth,
                "cores": found.cores,
                "origins": found.origins,
                "streams": found.streams,
                **spread(fitted, target, path),
                "buffer of a stream (MB)": found.tcp_buffer / 1e6,
            }
        )
    return pd.DataFrame(rows)


@styled()
def drawn(fitted: Fit, planned: pd.DataFrame) -> Figure:
    """Draw streams over RTT for each target, with dots for `against_plan`, and cores over the target."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    streams, cores = figure.subplots(1, 2)
    rtts = np.geomspace(RTTS[0], RTTS[-1], 200)
    for number, target in enumerate(TARGETS):
        curve = [needed(target, path_of(rtt, fitted), fitted.values, 1) for rtt in rtts]
        counts = [math.nan if one is None else one.streams for one in curve]
        streams.plot(rtts, counts, color=f"C{number}", label=f"{plain(target)} Gbit/s")
    for _, row in planned.iterrows():
        number = TARGETS.index(row["target (Gbit/s)"])
        streams.plot(row["RTT (ms)"], row["streams by plan"], "o", color=f"C{number}", markersize=5)
    path = path_of(RTTS[0], fitted)
    targets = np.linspace(0.02, fitted.values["efficiency"] * path.bandwidth, 200)[:-1]
    settings = [needed(target, path, fitted.values, 1) for target in targets]
    cores.plot(targets, [math.nan if one is None else one.cores for one in settings], label="needed")
    cores.plot(targets, targets / fitted.values["per_core"], "--", label="without headroom: X/κ")
    streams.set(
        xscale="log", xlabel="RTT (ms)", ylabel="streams", title="dots: plan at even odds, these cores"
    )
    streams.set_xticks(RTTS, [plain(rtt) for rtt in RTTS])
    streams.minorticks_off()
    cores.set(xlabel="target (Gbit/s)", ylabel="cores of a side", title="any RTT", ylim=(0, None))
    for axes in (streams, cores):
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=7)
    return figure
