# SPDX-License-Identifier: Apache-2.0
"""Fitted models of a dataset for its page: parameters, fitted cells, plans for any target, and gains."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.parameters import Parameters, value_text
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.figures.labels import name_text
from tpcsweep.models import Observations, Predictor, observe, read_fits
from tpcsweep.numbers import between, plain, short
from tpcsweep.planning import KNOBS, PROBABILITY
from tpcsweep.planning.anchored import anchor
from tpcsweep.planning.plan import answers, best_measured, plan
from tpcsweep.planning.recommendations import EVERY, spaced_rtts
from tpcsweep.variables import REMEDIES

_MOST_TABLES = 48  # of plans in a page
_MOST_RTTS = 12
_SMALLEST = 1e-3  # Gbit/s, so small that the search never continues beyond the data


@dataclass(frozen=True)
class Forecast:
    fitted: xr.DataArray  # fitted throughput over the axes, without repetitions, Gbit/s
    section: dict[str, Any]  # content of the page's section


def forecast(summary: xr.Dataset, models: Path) -> Forecast | None:
    fits = read_fits(models)
    if not fits.chosen:
        return None
    observations = observe(summary)
    model = fits.best(observations)
    points = summary[["throughput"]].isel({REPETITION: 0}, drop=True)
    names = [str(name) for name in points.coords if name in Parameters.model_fields]
    fitted = model.predict(points[names].drop_vars("throughput", errors="ignore"))["throughput"]
    planner = anchor(fits.formulas, observe(summary, EVERY))
    plans = _plans(planner, observations)
    surest = plans["tables"][0][-1:] if plans else []
    shown = {
        "name": planner.name,
        "formula": {
            "name": name_text(fits.formula.name),
            "title": fits.formula.model.title,
            "source": fits.formula.model.source,
            "parameters": [row | {"name": name_text(row["name"])} for row in fits.formula.parameter_rows()],
        },
        "scores": [
            {"name": name_text(each["model"]), "error": each["score"]} for each in fits.choice["scores"]
        ],
        "target": float(f"{0.9 * surest[0][0] if surest else 0.8 * float(fitted.max()):.1g}"),
        "plans": plans,
    }
    return Forecast(fitted, shown)


def _plans(model: Predictor, observations: Observations) -> dict[str, Any] | None:
    """Return for each RTT, and each value of other axes, the cheapest settings, each with its assured throughput."""
    domain = model.domain
    others: dict[str, list[Any]] = {
        name: list(domain.values.get(name, ()))
        for name in domain.ranges
        if name in Parameters.model_fields and name not in (*KNOBS, "rtt")
    }
    others |= {name: list(values) for name, values in domain.words.items() if len(values) > 1}
    rtts = sorted({*spaced_rtts(model, _MOST_RTTS), *domain.values.get("rtt", ())})
    combined = list(itertools.product(*others.values()))
    if not combined or len(combined) * len(rtts) > _MOST_TABLES:
        return None
    tables, measured = [], []
    for values, rtt in itertools.product(combined, rtts):
        given = {**dict(zip(others, values, strict=True)), **({"rtt": rtt} if "rtt" in domain.ranges else {})}
        tables.append(list(_cheapest(model, given)))
        measured.append(best_measured(observations, given))
    return {
        "rtts": rtts,
        "others": [
            {"name": name_text(name), "values": [value_text(name, value) for value in values]}
            for name, values in others.items()
        ],
        "tables": tables,
        "measured": measured,
        "probability": f"{plain(100 * PROBABILITY)} %",
    }


def _cheapest(model: Predictor, given: Mapping[str, Any]) -> Iterator[list[float | str]]:
    """Yield the answers to all targets in the order of the targets: the largest target of each, and its setting."""
    for most, row in answers(plan(model, _SMALLEST, PROBABILITY, **given).settings):
        spread = between(row["throughput_low"], row["throughput_high"])
        expected = f"{short(row['throughput'])} ({spread})"
        cores = value_text("cores", row["cores"])
        assured = short(row["assured"])
        yield [most, assured, expected, cores, str(row["origins"]), str(row["streams"])]


_RAISED = {
    limit: [remedy.axis for remedy in remedies if remedy.larger] for limit, remedies in REMEDIES.items()
}
_ENOUGH = 0.95  # share of the highest throughput along an axis that is enough to recommend a value


@dataclass(frozen=True)
class Gains:
    """Most effective change of each cell by a fitted model, flattened."""

    axis: NDArray[np.object_]
    factor: NDArray[np.float64]
    """Throughput after the change over that before; NaN if no change inside the data is known to be a gain."""
    text: Sequence[str]


def gains(summary: xr.Dataset, fitted: xr.DataArray) -> Gains:
    """Compare the fitted throughput along the axes that relieve each cell's limit."""
    estimate = fitted.broadcast_like(summary["throughput"]).transpose(*summary["throughput"].dims)
    rates, limits = estimate.values, summary["limit"].values
    factor = np.full(rates.shape, np.nan)
    axis, text = np.full(rates.shape, "", object), np.full(rates.shape, "", object)
    for name in {name for names in _RAISED.values() for name in names}.intersection(estimate.dims):
        relieved = np.isin(limits, [limit for limit, names in _RAISED.items() if name in names])
        values, dimension = summary[name].values.tolist(), estimate.dims.index(name)
        if isinstance(values[0], str):
            continue
        for place in range(len(values) - 1):
            here, later = rates.take(place, dimension), np.moveaxis(rates, dimension, 0)[place + 1 :]
            to = (later >= _ENOUGH * later.max(axis=0)).argmax(axis=0)
            gain = np.take_along_axis(later, to[None], 0)[0] / here
            at: tuple[slice | int, ...] = (slice(None),) * dimension + (place,)
            better = relieved[at] & (gain > np.fmax(factor[at], 1.0))
            changes = [f"{name_text(name)} {value_text(name, values[place + 1 + one])} instead of "
                       f"{value_text(name, values[place])}" for one in range(len(values) - place - 1)]  # fmt: skip
            factor[at] = np.where(better, gain, factor[at])
            axis[at] = np.where(better, name, axis[at])
            text[at] = np.where(better, np.array(changes, object)[to], text[at])
    where = np.full(rates.shape, "", object)
    if "rtt" in estimate.dims:
        rtts = [f" at RTT {value_text('rtt', rtt)}" for rtt in summary["rtt"].values.tolist()]
        where = np.array(rtts, object)[np.indices(rates.shape)[estimate.dims.index("rtt")]]
    cells = zip(text.ravel(), factor.ravel(), where.ravel(), strict=True)
    texts = [f"{change}: {percent_more(gain)}{place}" if change else "" for change, gain, place in cells]
    return Gains(axis.ravel(), factor.ravel(), texts)


def percent_more(factor: float) -> str:
    return f"{100 * (factor - 1):+.0f} %"
