# SPDX-License-Identifier: Apache-2.0
"""Fitted models of a dataset for its page: parameters, fitted cells, and plans for any target."""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from tpcsweep.analysis.models.observations import Observations, observe
from tpcsweep.analysis.models.predictor import Predictor
from tpcsweep.analysis.models.saved_fits import read_fits
from tpcsweep.analysis.plans.anchored import anchor
from tpcsweep.analysis.plans.plan import answers, best_measured, candidates, evaluate
from tpcsweep.analysis.plans.question import PROBABILITY
from tpcsweep.analysis.plans.recommendations import EVERY, spaced_rtts
from tpcsweep.common.numbers import plain, short
from tpcsweep.pages.contract import Answer, Plan, Plans, PlanTable
from tpcsweep.pages.gains import Forecast
from tpcsweep.sweeps.parameters import KNOBS, Parameters, name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION

_MOST_TABLES = 48  # of plans in a page
_MOST_RTTS = 12  # if round ones are too many
_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)  # RTTs of each decade that people ask for


def forecast(summary: xr.Dataset, models: Path) -> Forecast | None:
    """Return the fitted throughput of a dataset and the page's section on models; None if no model was chosen."""
    fits = read_fits(models)
    if not fits.chosen:
        return None
    observations = observe(summary)
    model = fits.best(observations)
    points = summary[["throughput"]].isel({REPETITION: 0}, drop=True)
    names = [str(name) for name in points.coords if name in {*Parameters.model_fields, *points.dims}]
    fitted = model.predict(points[names].drop_vars("throughput", errors="ignore"))["throughput"]
    planner = anchor(fits.formulas, observe(summary, EVERY))
    plans = _plans(planner, observations)
    surest = plans["tables"][0]["plans"][-1:] if plans else []
    target = 0.9 * surest[0]["most"] if surest else 0.8 * float(fitted.max())
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
        "target": float(f"{target:.1g}"),
        "plans": plans,
    }
    return Forecast(fitted, shown)


def _plans(model: Predictor, observations: Observations) -> Plans | None:
    """Return for each RTT, and each value of other axes, the cheapest settings, each with its assured throughput."""
    domain = model.domain
    others: dict[str, list[Any]] = {
        name: list(domain.values.get(name, ()))
        for name in domain.ranges
        if name in Parameters.model_fields and name not in (*KNOBS, "rtt")
    }
    others |= {name: list(values) for name, values in domain.words.items() if len(values) > 1}
    combined = list(itertools.product(*others.values()))
    most = _MOST_TABLES // max(1, len(combined))
    known = [_round_rtts(model), sorted({*spaced_rtts(model, _MOST_RTTS), *domain.values.get("rtt", ())})]
    rtts = next((each for each in known if len(each) <= most), [])
    if not combined or not rtts:
        return None
    tables = []
    for values, rtt in itertools.product(combined, rtts):
        given = {**dict(zip(others, values, strict=True)), **({"rtt": rtt} if "rtt" in domain.ranges else {})}
        where = f" at RTT {plain(rtt)} ms" if rtt else ""  # the RTT of endpoints may be unknown
        tables.append(_table(model, given, where, best_measured(observations, given) or _BETWEEN))
    return {
        "rtts": rtts,
        "others": [
            {"name": name_text(name), "values": [value_text(name, value) for value in values]}
            for name, values in others.items()
        ],
        "tables": tables,
        "beyond": f"The data end at an RTT of {plain(rtts[-1])} ms: tpcsweep plan extrapolates.",
    }


_BETWEEN = "No cell was measured there: between measured ones less is sure."


def _round_rtts(model: Predictor) -> list[float]:
    """Return the round RTTs inside a model's data in ms, with the measured ones."""
    ends = spaced_rtts(model)
    if len(ends) == 1:
        return ends
    low, high = ends[0], ends[-1]
    decades = range(math.floor(math.log10(max(low, 1.0))), math.ceil(math.log10(high)) + 1)
    places = (step * 10.0**decade for decade in decades for step in _ROUND)
    return sorted(
        {low, high, *model.domain.values.get("rtt", ()), *(rtt for rtt in places if low < rtt < high)}
    )


def _table(model: Predictor, given: Mapping[str, Any], where: str, measured: str) -> PlanTable:
    """Return the answers to all targets in the order of the targets: the largest target of each, and its setting."""
    [settings] = evaluate(model, candidates(model.domain, given), PROBABILITY, [0.0])
    plans: list[Plan] = []
    otherwise: Answer = {"setting": "", "text": "The model has no prediction for this RTT."}
    knobs = [name for name in ("streams", "cores", "origins") if name in model.domain.ranges] or ["streams"]
    sure = f"reached with a probability of {plain(100 * PROBABILITY)} %"
    for most, row in answers(settings):
        assured, expected = short(row["assured"]), short(row["throughput"])
        setting = ", ".join(f"{name} {value_text(name, row[name])}" for name in knobs)
        text = f"{where}: {assured} Gbit/s is {sure}; expected {expected}."
        plans.append({"most": most, "setting": setting, "text": text})
        otherwise = {
            "setting": f"Not {sure} by any setting inside the data",
            "text": f": {assured} Gbit/s at most, expected {expected}, with {setting}{where}. {measured}",
        }
    return {"plans": plans, "otherwise": otherwise}
