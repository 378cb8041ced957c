# SPDX-License-Identifier: Apache-2.0
"""What a throughput takes: the cheapest origins, cores and streams with which a fitted model reaches it. Pure.

Throughput is in Gbit/s, RTT in ms, and of other parameters what sweeps say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from pydantic import ValidationError

from tpcsweep.configuration.parameters import show_value
from tpcsweep.configuration.problems import ConfigurationError, Problem, from_pydantic
from tpcsweep.models import Fit, Observations, Predictor, fit
from tpcsweep.models.base import plain
from tpcsweep.models.places import Domain
from tpcsweep.models.saved import Saved
from tpcsweep.planning.candidates import DRAWS, FIGURES, candidates, evaluate, model_input, span
from tpcsweep.planning.question import KNOBS, PROBABILITY, Given, Question

BEYOND = 4.0
"""How far beyond the data a target is looked for that cannot be reached inside: so many times the largest value."""

FRONT = "fewer cores or streams"
"""The name of the settings of the front."""

_NEARLY = 0.99  # of the best is as good
_MEANING = (
    "The probability is that of one measurement, the mean goodput of a cell after warm-up: "
    f"the share of {DRAWS} draws of the model's parameters and of the scatter of cells about it."
)


@dataclass(frozen=True)
class Plan:
    """The answer: every setting that was looked at, and the few that matter."""

    target: float
    probability: float
    model: str
    fixed: Given
    """What was given, in base units."""
    settings: pd.DataFrame
    """Cheapest first: cores, origins, streams, throughput with throughput_low and throughput_high (95 % of
    measurements), `assured` (what a measurement reaches with the probability), `probability` (of reaching the target)
    and `extrapolated`."""
    beyond: pd.DataFrame
    """The same beyond the data; no rows where the target is reached inside."""
    notes: tuple[str, ...] = ()
    data: str = ""
    """What the model was fitted to."""

    @property
    def reached(self) -> bool:
        """Whether the target is reached without searching beyond the data."""
        return self.cheapest is not None

    @property
    def cheapest(self) -> pd.Series | None:
        """The cheapest setting that reaches the target, or None."""
        return self._first(self.settings)

    @property
    def largest(self) -> pd.Series:
        """The cheapest of the settings whose throughput is the largest but for 1 %: nobody pays for less."""
        throughput = self.settings["throughput"]
        return self.settings[throughput >= _NEARLY * throughput.max()].iloc[0]

    @property
    def surest(self) -> pd.Series | None:
        """The cheapest of the settings that are nearly the likeliest to reach the target; None if it is reached."""
        likely = self.settings["probability"]
        if self.reached or not likely.max() > 0:
            return None
        return self.settings[likely >= _NEARLY * likely.max()].iloc[0]

    @property
    def extrapolation(self) -> pd.Series | None:
        """The cheapest setting beyond the data that reaches the target, where none inside does; or None."""
        return self._first(self.beyond)

    @property
    def front(self) -> pd.DataFrame:
        """The settings that reach the target for which fewer cores take more streams: their Pareto front."""
        enough = self._enough(self.settings).sort_values(["cores", "streams", "origins"], kind="stable")
        fewest = enough["streams"].astype(float).cummin().shift(fill_value=math.inf)
        return enough[enough["streams"] < fewest].reset_index(drop=True)

    @property
    def answers(self) -> pd.DataFrame:
        """The settings that matter as one table, with a column that says what each is."""
        rows = [("cheapest", self.cheapest)]
        rows += [(FRONT, row) for _, row in self.front.iterrows()]
        rows += [("likeliest to reach it", self.surest), ("largest throughput", self.largest)]
        rows += [("beyond the data", self.extrapolation)]
        return pd.DataFrame([{"answer": name, **row} for name, row in rows if row is not None])

    def to_dict(self) -> dict[str, Any]:
        """Give all of it, as JSON has it: no limit is null."""
        content = {
            "reached": self.reached,
            "model": self.model,
            "data": self.data,
            "fixed": self.fixed,
            "cheapest": self.cheapest,
            "surest": self.surest,
            "largest": self.largest,
            "front": self.front.to_dict("records"),
            "extrapolation": self.extrapolation,
            "notes": self.notes,
            "units": {"throughput": "Gbit/s", "target": "Gbit/s", "assured": "Gbit/s", "rtt": "ms"},
            "settings": self.settings,
            "beyond": self.beyond,
        }
        return {"target": self.target, "probability": self.probability, **plain(content)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Plan:
        tables = {name: pd.DataFrame(content[name]) for name in ("settings", "beyond")}
        return cls(
            **{name: content[name] for name in ("target", "probability", "model", "data")},
            fixed={name: tuple(v) if isinstance(v, list) else v for name, v in content["fixed"].items()},
            notes=tuple(content["notes"]),
            **{
                name: table.assign(cores=table["cores"].astype(float).fillna(math.inf)).astype(
                    {"extrapolated": bool}
                )
                for name, table in tables.items()
            },
        )

    def _repr_html_(self) -> str:
        return str(self.answers.to_html(index=False, float_format="{:.4g}".format))

    def _enough(self, settings: pd.DataFrame) -> pd.DataFrame:
        return settings[settings["assured"] >= self.target]

    def _first(self, settings: pd.DataFrame) -> pd.Series | None:
        enough = self._enough(settings)
        return enough.iloc[0] if len(enough) else None


def plan(
    model: Predictor,
    target: float | str | None,
    probability: float | str = PROBABILITY,
    *,
    data: str = "",
    seed: int = 0,
    **fixed: object,
) -> Plan:
    """Find the cheapest setting with which one measurement reaches the target with the probability.

    Cheaper is fewer cores, then fewer origins, then fewer streams. Searched are the ranges of the data, with every
    value measured: whole numbers, thinned where there are many, and cores in steps of some percent where the data
    have parts of a core. Where no setting reaches the target, up to four times the largest values are searched too, and
    kept apart in `beyond`.

    Args:
        model: a fit, or the Gaussian process.
        target: Gbit/s, or text with a unit.
        probability: a share, or text with a unit.
        data: what the model was fitted to, for figures.
        seed: of the model's draws.
        **fixed: parameters of sweeps, in base units or with units; origins, cores and streams may be lists to choose
            from; words, such as a tool, say what the model was fitted to. All that varies in the data except these
            three must be given.

    Raises:
        ConfigurationError: for a value that is no quantity of its kind, and for a parameter that is missing or
            unknown.
    """
    question = asked(target=target, probability=probability, **fixed)
    wanted, sure, given = question.needed_target(), question.probability, question.given
    [settings] = evaluate(model, candidates(model.domain, given), sure, [wanted], seed)
    beyond = settings.iloc[:0]
    if not (settings["assured"] >= wanted).any():
        wider = candidates(model.domain, given, BEYOND)
        knobs = list(KNOBS)
        wider = wider[(wider[knobs] > settings[knobs].max()).any(axis=1)].reset_index(drop=True)
        if len(wider):
            [beyond] = evaluate(model, wider, sure, [wanted], seed)
    columns = [*KNOBS, *FIGURES]
    return Plan(
        target=wanted,
        probability=sure,
        model=model.name,
        fixed=given,
        settings=settings[columns],
        beyond=beyond[columns],
        notes=(_MEANING, *model.problems, *_outside(model.domain, given), *_without_effect(model, settings)),
        data=data,
    )


def chosen(saved: Saved, observations: Observations, given: Given) -> tuple[Predictor, str]:
    """Give the chosen model, and what it is of.

    A formula is fitted anew to the cells with the words that are given, if not all have them: it tells no words apart.

    Raises:
        ConfigurationError: for a word that no cell has.
        SavedError: where no model was chosen.
    """
    frame, label = observations.frame, saved.label
    rows, problems = np.ones(len(frame), bool), []
    for name, word in given.items():
        if not isinstance(word, str) or name not in frame:
            continue
        values = frame[name].astype(str)
        if not (values == word).any():
            problems.append(Problem(name, repr(word), f"what the data have: {', '.join(values.unique())}"))
        rows &= (values == word).to_numpy()
    if problems:
        raise ConfigurationError(problems)
    best = saved.best(observations)
    if rows.all() or not isinstance(best, Fit):
        return best, label
    words = ", ".join(f"{name} {word}" for name, word in given.items() if isinstance(word, str))
    return fit(best.model, observations.take(rows)), f"{label}, {words} alone"


def asked(**content: object) -> Question:
    """Check a question.

    Raises:
        ConfigurationError: with all that is wrong in it.
    """
    try:
        question: Question = Question.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError(from_pydantic(error, Question)) from error
    return question


def _outside(domain: Domain, fixed: Given) -> list[str]:
    """What is to be said of values beyond the data."""
    notes = []
    for name, value in fixed.items():
        values = value if isinstance(value, tuple) else (value,)
        numbers = np.array([model_input(part) for part in values])
        if numbers.dtype.kind == "f" and domain.outside({name: numbers}).any():
            shown = ", ".join(show_value(name, part) for part in values)
            notes.append(f"Extrapolated: {name} {shown} is not in the data: {span(name, domain)}.")
    return notes


def _without_effect(model: Predictor, settings: pd.DataFrame) -> list[str]:
    """What makes no difference to the model: asked of it, since it may be any."""
    before, notes = model.estimate(settings), []
    points = settings.drop(columns=list(FIGURES))
    for name in points:
        values = points[name]
        if not pd.api.types.is_numeric_dtype(values) or not np.isfinite(values).all():
            continue
        ends = (values.min(), values.max()) if values.nunique() > 1 else (values.min(), 2 * values.min() + 1)
        if all(np.allclose(model.estimate(points.assign(**{name: end})), before) for end in ends):
            notes.append(f"Of {name} the model says that it makes no difference here.")
    return notes
