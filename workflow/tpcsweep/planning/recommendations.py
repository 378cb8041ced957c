# SPDX-License-Identifier: Apache-2.0
"""How many streams a transfer service should run, as a table over RTT and target. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.models import Observations, Predictor
from tpcsweep.models.base import UNSAID, plain
from tpcsweep.planning.candidates import candidates, evaluate
from tpcsweep.planning.plan import Plan, asked
from tpcsweep.planning.question import PROBABILITY
from tpcsweep.variables import Variable

FORMAT = 1

COLUMNS = {
    "rtt": Variable("ms", "round-trip time of the path"),
    "target": Variable("Gbit/s", "throughput that is wanted"),
    "reached": Variable("", "whether one measurement reaches the target with the probability"),
    "streams": Variable("1", "concurrent single-file transfers"),
    "tcp_streams": Variable("1", "TCP connections of each transfer"),
    "origins": Variable("1", "XRootD origins of each side"),
    "cores": Variable("cores", "CPU cores of each side, in total over its origins; empty: no limit"),
    "throughput": Variable("Gbit/s", "throughput that the model predicts"),
    "assured": Variable("Gbit/s", "throughput that one measurement reaches with the probability"),
    "probability": Variable("1", "probability that one measurement reaches the target"),
    "extrapolated": Variable("", "whether this lies beyond the data"),
}
"""The columns of the table. Of a target that is not reached, the row is the setting most likely to reach it."""

_MOST_RTTS = 8
_SMALLEST = 0.02  # of the largest throughput: targets begin there


def recommend(
    model: Predictor,
    rtts: Sequence[float] = (),
    target: float | str | None = None,
    probability: float | str = PROBABILITY,
    *,
    seed: int = 0,
    **fixed: object,
) -> pd.DataFrame:
    """Give the cheapest setting for each RTT and target: a row with `COLUMNS`, see `plan` for what they mean.

    Targets are 1, 2, 5, 10 … of a decimal place up to what the model predicts at most, with a `target` that is given.

    Args:
        model: a fit, or the Gaussian process.
        rtts: in ms, to which an `rtt` that is given is added; without any a few from the smallest to the largest of
            the data are taken.
        target: as for `plan`.
        probability: as for `plan`.
        seed: of the model's draws.
        **fixed: as for `plan`.

    Raises:
        ConfigurationError: as `plan`.
    """
    question = asked(target=target, probability=probability, **fixed)
    given, sure = dict(question.given), question.probability
    places = {*(rtts or _rtts(model)), *([] if question.rtt is None else [float(question.rtt)])}
    grids = {rtt: candidates(model.domain, {**given, "rtt": rtt}) for rtt in sorted(places)}
    most = max(float(model.estimate(grid).max()) for grid in grids.values())
    targets = sorted({*_targets(most), *([] if question.target is None else [question.target])})
    unsaid = UNSAID["tcp_streams"]
    connections = int(question.tcp_streams or model.domain.fixed.get("tcp_streams", unsaid))
    rows = []
    for rtt, grid in grids.items():
        tables = evaluate(model, grid, sure, targets, seed)
        for wanted, table in zip(targets, tables, strict=True):
            plan = Plan(wanted, sure, model.name, given, table, table.iloc[:0])
            best = next(row for row in (plan.cheapest, plan.surest, plan.largest) if row is not None)
            about = {"rtt": rtt, "target": wanted, "tcp_streams": connections, "reached": plan.reached}
            rows.append({**best, **about})
    return pd.DataFrame(rows)[list(COLUMNS)]


def measured_rtts(observations: Observations) -> list[float]:
    """Give the RTTs of the data in ms; none where there are too many for a table, or one alone."""
    values = sorted(set(observations.classes("rtt"))) if "rtt" in observations.numeric else []
    return [float(value) for value in values] if len(values) <= _MOST_RTTS else []


def as_dict(table: pd.DataFrame, about: dict[str, Any]) -> dict[str, Any]:
    """Give a table as JSON has it, with what it is about and what its columns mean."""
    return {
        "format": FORMAT,
        **about,
        "columns": {
            name: {"unit": column.units, "meaning": column.long_name} for name, column in COLUMNS.items()
        },
        "rows": plain(table.to_dict("records")),
    }


def as_csv(table: pd.DataFrame) -> str:
    """Give a table as CSV, a line for its columns first."""
    shown = table.replace({"cores": {math.inf: None}})
    return str(shown.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def _rtts(model: Predictor) -> list[float]:
    """A few from the smallest to the largest of the data."""
    if "rtt" not in model.domain.ranges:
        return [model.domain.fixed.get("rtt", UNSAID["rtt"])]
    low, high = model.domain.ranges["rtt"]
    steps = np.geomspace(max(low, 1.0), max(high, 1.0), _MOST_RTTS)
    return sorted({low, *(float(f"{step:.2g}") for step in steps[1:-1] if low < step < high), high})


def _targets(most: float) -> list[float]:
    """1, 2, 5, 10 … of a decimal place, up to the largest throughput."""
    if not most > 0:
        return []
    first = math.floor(math.log10(_SMALLEST * most))
    steps = (float(f"{digit}e{place}") for place in range(first, first + 4) for digit in (1, 2, 5))
    return [step for step in steps if _SMALLEST * most <= step <= most]
