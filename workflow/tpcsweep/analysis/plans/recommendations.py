# SPDX-License-Identifier: Apache-2.0
"""Answer a question about a dataset, also as tables: a plan for the target, and streams for each RTT and target."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from tpcsweep.analysis.models.formula import DEFAULTS, json_content
from tpcsweep.analysis.models.observations import Observations, observe
from tpcsweep.analysis.models.predictor import Domain, Predictor
from tpcsweep.analysis.models.saved_fits import read_fits
from tpcsweep.analysis.plans.anchored import anchor
from tpcsweep.analysis.plans.plan import FRONT, Plan, candidates, evaluate, plan
from tpcsweep.analysis.plans.question import PROBABILITY, Question
from tpcsweep.common.numbers import between, short
from tpcsweep.data.opening import load
from tpcsweep.data.variables import TABLES, Variable
from tpcsweep.sweeps.parameters import KNOBS, value_text
from tpcsweep.sweeps.problems import ConfigurationError, Problem
from tpcsweep.sweeps.units import FRACTION, RATE, show

FORMAT = 1

COLUMNS = {name: Variable(*row) for name, row in TABLES["recommendations"].items()}
"""Columns of recommendations; if no setting reaches the target, the row has the likeliest setting."""

_MOST_RTTS = 8
SHARES = (0.5, 0.8, 0.9, 0.95)
"""Targets of recommendations, as shares of the path's bandwidth."""

EVERY = sys.maxsize
"""Number of cells of a dataset that decide on their own settings; fits may use fewer."""

_EXTRAPOLATED = "* extrapolated: beyond the data"


@dataclass(frozen=True)
class Answer:
    """Answer to a question."""

    question: Question
    model: str
    data: str
    """Description of the data that the model was fitted to."""
    plan: Plan | None
    """The plan, or None without a target."""
    table: pd.DataFrame | None
    """Recommendations with the columns `COLUMNS`, or None if they were not requested."""

    def recommendations(self) -> dict[str, Any]:
        """Return the table as JSON types, with the question and the meanings of the columns."""
        assert self.table is not None
        return {
            "format": FORMAT,
            "data": self.data,
            "model": self.model,
            "probability": self.question.probability,
            "given": self.question.given,
            "columns": {
                name: {"unit": column.units, "meaning": column.meaning} for name, column in COLUMNS.items()
            },
            "rows": json_content(self.table.to_dict("records")),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plan and recommendations, or the recommendations alone, as JSON types."""
        if self.plan is None:
            return self.recommendations()
        return {**self.plan.to_dict(), "recommendations": self.recommendations()}


def check_question(dataset: Path, content: Mapping[str, Any], recommendations: bool) -> None:
    """Check a question against the cells of a dataset, before models are fitted; recommendations need no RTT.

    Raises ConfigurationError, and NothingMeasuredError.
    """
    observations = observe(load(dataset), EVERY)
    question = Question.asked(content, observations.words)
    problems = []
    for name, word in question.given.items():
        if isinstance(word, str) and name in observations.frame:
            values = observations.frame[name].astype(str).unique()
            if word not in values:
                problems.append(Problem(name, repr(word), f"a value in the data: {', '.join(values)}"))
    if problems:
        raise ConfigurationError(problems)
    domain = Domain.from_observations(observations)
    given = dict(question.given)
    if recommendations and question.target is None:
        given.setdefault("rtt", domain.ranges.get("rtt", (DEFAULTS["rtt"],))[0])
    candidates(domain, given)


def answer_question(dataset: Path, models: Path, content: Mapping[str, Any], recommendations: bool) -> Answer:
    """Answer a question from the cells of a dataset, and from the formula that best predicted left-out cells.

    `content` has the fields of `Question`. Raises the errors of `check_question`, and SavedError.
    """
    saved, observations = read_fits(models), observe(load(dataset), EVERY)
    question = Question.asked(content, observations.words)
    model = anchor(saved.formulas, observations)
    planned = None
    if question.target is not None:
        planned = plan(model, observations=observations, data=saved.label, **question.content)
    places = measured_rtts(observations)
    table = recommend(model, places, **question.content) if recommendations else None
    return Answer(question, model.name, saved.label, planned, table)


def recommend(
    model: Predictor,
    rtts: Sequence[float] = (),
    target: float | str | None = None,
    probability: float | str = PROBABILITY,
    **fixed: object,
) -> pd.DataFrame:
    """Return the cheapest setting for each RTT and target: rows with `COLUMNS`, as `plan` defines them.

    Arguments and errors are those of `plan`. `rtts` are in ms; by default a few from the smallest to the largest of the
    data; a given `rtt` is added. Targets are 50, 80, 90 and 95 % of the path's bandwidth (of the largest predicted
    throughput if the bandwidth is unknown), and `target`.
    """
    content = {"target": target, "probability": probability, **fixed}
    question = Question.asked(content, model.domain.words)
    given, sure = dict(question.given), question.probability
    places = {*(rtts or spaced_rtts(model)), *([] if question.rtt is None else [float(question.rtt)])}
    grids = {rtt: candidates(model.domain, {**given, "rtt": rtt}) for rtt in sorted(places)}
    bandwidth = question.bandwidth or model.domain.fixed.get("bandwidth", math.inf)
    if not math.isfinite(bandwidth):
        bandwidth = max(float(model.estimate(grid).max()) for grid in grids.values())
    wanted_shares = {float(f"{share * bandwidth:.3g}") for share in SHARES}
    targets = sorted(wanted_shares | (set() if question.target is None else {question.target}))
    connections = int(question.tcp_streams or model.domain.fixed.get("tcp_streams", DEFAULTS["tcp_streams"]))
    declared = question.rtt is not None or "rtt" in {*model.domain.ranges, *model.domain.fixed}
    rows = []
    for rtt, grid in grids.items():
        tables = evaluate(model, grid, sure, targets)
        for wanted, table in zip(targets, tables, strict=True):
            one = Plan(wanted, sure, model.name, given, table, table.iloc[:0])
            best = next(row for row in (one.cheapest, one.surest, one.largest) if row is not None)
            about = {
                "rtt": rtt if declared else math.nan,
                "target": wanted,
                "tcp_streams": connections,
                "reached": one.reached,
            }
            rows.append({**best, **about})
    return pd.DataFrame(rows)[list(COLUMNS)]


def measured_rtts(observations: Observations) -> list[float]:
    """Return the RTTs of the data in ms; none if there is a single one, or too many for a table."""
    values = sorted(set(observations.classes("rtt"))) if "rtt" in observations.numeric else []
    return [float(value) for value in values] if len(values) <= _MOST_RTTS else []


def as_csv(table: pd.DataFrame) -> str:
    """Return recommendations as CSV with a header."""
    shown = table.replace({"cores": {math.inf: None}})
    return str(shown.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def plan_table(plan: Plan) -> RenderableType:
    """Return a plan as printable table: the verdict in one line, the settings that matter, and notes."""
    sure = show(plan.probability, FRACTION)
    rows = Table("", "cores", "origins", "streams", "Gbit/s", f"{sure} reach", "chance", box=SIMPLE_HEAD)
    for row in _settings(plan):
        rows.add_row(
            row["answer"] + ("*" if row["extrapolated"] else ""),
            value_text("cores", row["cores"]),
            str(row["origins"]),
            str(row["streams"]),
            f"{short(row['throughput'])} ({between(row['throughput_low'], row['throughput_high'])})",
            short(row["assured"]),
            f"{100 * row['probability']:.1f} %",
        )
    notes = [_EXTRAPOLATED] if plan.answers["extrapolated"].any() else []
    notes += [f"- {note}" for note in plan.notes]
    title = f"{show(plan.target, RATE)} with a probability of {sure}: {plan.verdict}"
    return Group(f"{title}\nmodel {plan.model}, {plan.data}", rows, *notes)


def recommendations_table(answer: Answer) -> RenderableType:
    """Return recommendations as printable table: one row for each RTT and target."""
    assert answer.table is not None
    sure = show(answer.question.probability, FRACTION)
    heads = ("RTT", "target", "streams", "origins", "cores", "Gbit/s", f"{sure} reach", "chance")
    rows = Table(*heads, box=SIMPLE_HEAD)  # it fits 80 columns
    for row in answer.table.to_dict("records"):
        rows.add_row(
            value_text("rtt", row["rtt"]),
            show(row["target"], RATE) + ("" if row["reached"] else " not reached"),
            str(row["streams"]),
            str(row["origins"]),
            value_text("cores", row["cores"]),
            short(row["throughput"]) + ("*" if row["extrapolated"] else ""),
            short(row["assured"]),
            f"{100 * row['probability']:.1f} %",
        )
    notes = [_EXTRAPOLATED] if answer.table["extrapolated"].any() else []
    about = f"recommended settings, each the cheapest that reaches the target with a probability of {sure}"
    return Group(f"{about}\nmodel {answer.model}, {answer.data}", rows, *notes)


def _settings(plan: Plan) -> list[dict[str, Any]]:
    settings: dict[tuple[float, ...], dict[str, Any]] = {}
    for row in plan.answers.to_dict("records"):
        place = tuple(float(row[name]) for name in KNOBS)
        if place not in settings:
            settings[place] = row
        elif row["answer"] != FRONT:
            settings[place]["answer"] += f" and\n{row['answer']}"
    return list(settings.values())


def spaced_rtts(model: Predictor, count: int = _MOST_RTTS) -> list[float]:
    """Return some RTTs of a model's data in ms, at even ratios, with the smallest and the largest."""
    if "rtt" not in model.domain.ranges:
        return [model.domain.fixed.get("rtt", DEFAULTS["rtt"])]
    low, high = model.domain.ranges["rtt"]
    steps = np.geomspace(max(low, 1.0), max(high, 1.0), count)
    return sorted({low, *(float(f"{step:.2g}") for step in steps[1:-1] if low < step < high), high})
