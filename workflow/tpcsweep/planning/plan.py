# SPDX-License-Identifier: Apache-2.0
"""Find the cheapest origins, cores and streams with which a fitted model reaches a throughput.

All functions are pure. Throughput is in Gbit/s, RTT in ms, other parameters are in the units of sweeps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.configuration.parameters import Parameters, Value, value_text
from tpcsweep.configuration.problems import ConfigurationError, Problem, refused, validated
from tpcsweep.models import Fit, Observations, Predictor, Saved, fit
from tpcsweep.models.base import DEFAULTS, json_content
from tpcsweep.models.predictor import Domain, interval
from tpcsweep.numbers import plain, short
from tpcsweep.planning import KNOBS, PROBABILITY, Given, Question

BEYOND = 4.0
"""Factor on the largest measured values at which the search for an unreachable target ends."""

FRONT = "fewer cores or streams"
"""Name of the settings of the front."""

DRAWS = 1000
FIGURES = ("throughput", "throughput_low", "throughput_high", "assured", "probability", "extrapolated")
"""Columns of a setting's predictions; throughputs in Gbit/s."""

_NEARLY = 0.99  # share of the best that counts as equally good
_WHOLE = 48  # values of a knob of whole numbers
_PARTS = 24  # values of fractional cores
_FEW = 16  # values of a knob beyond the data
_BLOCK = 2000  # settings drawn at once, to limit memory
_COUNTS = ("origins", "streams")
_MEANING = (
    "The probability is that of one measurement, the mean goodput of a cell after warm-up: "
    f"the share of {DRAWS} draws of the model's parameters and of the scatter of cells about it."
)


@dataclass(frozen=True)
class Plan:
    """Every tried setting, and the few that matter."""

    target: float
    probability: float
    model: str
    fixed: Given
    """Given parameters, in base units."""
    settings: pd.DataFrame
    """Settings, cheapest first: `KNOBS`, and `FIGURES` as `evaluate` adds them."""
    beyond: pd.DataFrame
    """Settings beyond the data; no rows if the target is reached inside."""
    notes: tuple[str, ...] = ()
    data: str = ""
    """Description of the data that the model was fitted to."""

    @property
    def reached(self) -> bool:
        """Whether a setting inside the data reaches the target."""
        return self.cheapest is not None

    @property
    def cheapest(self) -> pd.Series | None:
        """Cheapest setting that reaches the target, or None."""
        return self._first(self.settings)

    @property
    def largest(self) -> pd.Series:
        """Cheapest setting with a throughput within 1 % of the largest."""
        throughput = self.settings["throughput"]
        return self.settings[throughput >= _NEARLY * throughput.max()].iloc[0]

    @property
    def surest(self) -> pd.Series | None:
        """Cheapest setting that is nearly the likeliest to reach the target, or None if a setting reaches it."""
        likely = self.settings["probability"]
        if self.reached or not likely.max() > 0:
            return None
        return self.settings[likely >= _NEARLY * likely.max()].iloc[0]

    @property
    def extrapolation(self) -> pd.Series | None:
        """Cheapest setting beyond the data that reaches the target, or None; used if none inside reaches it."""
        return self._first(self.beyond)

    @property
    def verdict(self) -> str:
        """Text: reached, the best chance inside the data, or no chance there."""
        if self.cheapest is not None:
            return "reached" + (", extrapolated" if self.cheapest["extrapolated"] else "")
        chance = "no setting inside the data reaches it"
        if self.surest is not None:
            chance = f"the likeliest setting inside the data has a chance of {100 * self.surest['probability']:.1f} %"
        further = f"nor up to {plain(BEYOND)} times their largest values"
        if self.extrapolation is not None:
            further = "reached beyond the data by extrapolation"
        return f"not reached: {chance}, {further}"

    @property
    def front(self) -> pd.DataFrame:
        """Pareto front of the settings that reach the target: fewer cores need more streams."""
        enough = self._enough(self.settings).sort_values(["cores", "streams", "origins"], kind="stable")
        fewest = enough["streams"].astype(float).cummin().shift(fill_value=math.inf)
        return enough[enough["streams"] < fewest].reset_index(drop=True)

    @property
    def answers(self) -> pd.DataFrame:
        """Settings that matter, with a column for the name of each."""
        rows = [("cheapest", self.cheapest)]
        rows += [(FRONT, row) for _, row in self.front.iterrows()]
        rows += [("likeliest to reach it", self.surest), ("largest throughput", self.largest)]
        rows += [("beyond the data", self.extrapolation)]
        return pd.DataFrame([{"answer": name, **row} for name, row in rows if row is not None])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; null means no limit."""
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
        return {"target": self.target, "probability": self.probability, **json_content(content)}

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
    formula: Predictor | None = None,
    observations: Observations | None = None,
    data: str = "",
    **fixed: object,
) -> Plan:
    """Find the cheapest setting with which one measurement reaches the target with the probability.

    Cheaper means fewer cores, then fewer origins, then fewer streams. The search covers the ranges of the data
    including every measured value: whole numbers, thinned if there are many, and fractional cores in steps of some
    percent if the data have any. If no setting reaches the target, the search continues to four times the largest
    values; these settings are in `beyond`.

    Args:
        model: A fit, or a predictor that learned from the cells.
        target: Gbit/s, or text with a unit.
        probability: A share, or text with a unit.
        formula: Model for questions and settings beyond the data; None for `model`.
        observations: Measured cells; a note names the best of them if the target is not reached.
        data: The data that the model was fitted to, for figures.
        **fixed: Parameters of sweeps, in base units or with units; origins, cores and streams may be lists to choose
            from, and words are those of the fitted cells. Every other parameter that varies in the data is needed.

    Raises ConfigurationError if a value has the wrong kind, or a parameter is missing or unknown.
    """
    question = validated(Question, {"target": target, "probability": probability, **fixed})
    wanted, sure, given = question.target, question.probability, question.given
    if wanted is None:
        raise refused("target", "nothing", 'this key is needed, such as "100 Gbit/s"')
    beyond_data = formula or model
    model = select_model(model, formula, given)
    [settings] = evaluate(model, candidates(model.domain, given), sure, [wanted])
    beyond = settings.iloc[:0]
    reached = bool((settings["assured"] >= wanted).any())
    if not reached:
        wider = candidates(model.domain, given, BEYOND)
        knobs = list(KNOBS)
        wider = wider[(wider[knobs] > settings[knobs].max()).any(axis=1)].reset_index(drop=True)
        if len(wider):
            [beyond] = evaluate(beyond_data, wider, sure, [wanted])
    measured = "" if reached or observations is None else best_measured(observations, given)
    notes = [measured, _MEANING, *model.problems, *_outside(model.domain, given)]
    notes += [*_without_effect(model, settings), *_price(settings, wanted, sure)]
    shown, further = (table[[*KNOBS, *FIGURES]] for table in (settings, beyond))
    return Plan(wanted, sure, model.name, given, shown, further, tuple(filter(None, notes)), data)


def best_measured(observations: Observations, given: Given) -> str:
    """Describe the measured cell with the given parameters that has the largest throughput; empty if there is none."""
    rows = observations.frame
    for name, value in given.items():
        if name in rows:
            rows = rows[rows[name].isin(model_inputs(value))]
    if rows.empty:
        return ""
    best = rows.loc[rows["throughput"].idxmax()]
    knobs = ", ".join(f"{name} {value_text(name, best[name])}" for name in KNOBS if name in best)
    return f"The best measured cell has {short(best['throughput'])} Gbit/s: {knobs}."


def select_model(model: Predictor, formula: Predictor | None, given: Given) -> Predictor:
    """Return the formula if it exists and a given number lies beyond the data, otherwise the model."""
    single = {name: value for name, value in given.items() if not isinstance(value, str | tuple)}
    numbers = {name: np.array(model_inputs(value)) for name, value in single.items()}
    return formula if formula is not None and model.domain.outside(numbers).any() else model


def select_models(saved: Saved, observations: Observations, given: Given) -> tuple[Predictor, Predictor, str]:
    """Return the model inside the data, the formula beyond them, and a description of the data.

    Formulas ignore words. If only some cells have the given words, the formula is fitted to these cells. Raises
    ConfigurationError if no cell has a given word, SavedError if no model was chosen.
    """
    frame, label = observations.frame, saved.label
    rows, problems = np.ones(len(frame), bool), []
    for name, word in given.items():
        if not isinstance(word, str) or name not in frame:
            continue
        values = frame[name].astype(str)
        if not (values == word).any():
            problems.append(Problem(name, repr(word), f"a value in the data: {', '.join(values.unique())}"))
        rows &= (values == word).to_numpy()
    if problems:
        raise ConfigurationError(problems)
    best, formula = saved.best(observations), saved.formula
    if rows.all():
        return best, formula, label
    formula = fit(formula.model, observations.take(rows))
    words = ", ".join(f"{name} {word}" for name, word in given.items() if isinstance(word, str))
    return (formula, formula, f"{label}, {words} alone") if isinstance(best, Fit) else (best, formula, label)


def _price(settings: pd.DataFrame, target: float, probability: float) -> list[str]:
    """Describe the setting that would suffice without the model's margin, if it differs."""
    likely = settings[settings["probability"] >= probability]
    if likely.empty or likely["assured"].iloc[0] >= target:
        return []
    first = likely.iloc[0]
    knobs = ", ".join(f"{name} {value_text(name, first[name])}" for name in KNOBS)
    chance = f"{100 * first['probability']:.1f} %"
    return [f"Without the margin for choosing among settings, {knobs} would be enough ({chance})."]


def _outside(domain: Domain, fixed: Given) -> list[str]:
    notes = []
    for name, value in fixed.items():
        numbers = np.array(model_inputs(value))
        if numbers.dtype.kind == "f" and domain.outside({name: numbers}).any():
            shown = ", ".join(value_text(name, number) for number in numbers)
            notes.append(f"Extrapolated: {name} {shown} is not in the data: {values_text(name, domain)}.")
    return notes


def _without_effect(model: Predictor, settings: pd.DataFrame) -> list[str]:
    before, notes = model.estimate(settings), []
    points = settings.drop(columns=list(FIGURES))
    for name in points:
        values = points[name]
        if not pd.api.types.is_numeric_dtype(values) or not np.isfinite(values).all():
            continue
        ends = (values.min(), values.max()) if values.nunique() > 1 else (values.min(), 2 * values.min() + 1)
        if all(np.allclose(model.estimate(points.assign(**{name: end})), before) for end in ends):
            notes.append(f"The model finds no effect of {name} here.")
    return notes


def candidates(domain: Domain, fixed: Given, reach: float = 1.0) -> pd.DataFrame:
    """Return all settings to try, cheapest first: measured values, and up to `reach` times the largest.

    Raises ConfigurationError if a parameter that varies in the data is missing, a list, or an unknown word.
    """
    _refuse(domain, fixed)
    knobs = [_knob(name, domain, fixed, reach) for name in KNOBS]
    grid = np.meshgrid(*knobs, indexing="ij")
    table = pd.DataFrame({name: axis.ravel() for name, axis in zip(KNOBS, grid, strict=True)})
    table = table.astype(dict.fromkeys(_COUNTS, int))
    others = {name: value for name, value in fixed.items() if name not in KNOBS}
    known = (name for name, value in others.items() if name in domain.words or not isinstance(value, str))
    return table.assign(**{name: others[name] for name in known})


def evaluate(
    model: Predictor, grid: pd.DataFrame, probability: float, targets: Sequence[float]
) -> list[pd.DataFrame]:
    """Add the predictions of one measurement to settings; return one table for each target.

    `throughput` is the fit; `throughput_low` and `throughput_high` are the ends of the 95 % interval of measurements. A
    measurement reaches `assured` with the requested probability, adjusted by the model's margin for choosing among
    settings. It reaches the target with `probability`. `extrapolated` is true beyond the data. Raises ValueError if the
    model has no value at some setting.
    """
    # Index of the draw that at least this share of draws reaches.
    place = int(DRAWS * (1 - probability) * model.margin + 1e-9)
    figures, chances = [], []
    for start in range(0, len(grid), _BLOCK):
        points = grid.iloc[start : start + _BLOCK].reset_index(drop=True)
        # No path carries more than its bandwidth, although the scatter of slower cells would predict it.
        most = np.asarray(points.get("bandwidth", model.domain.fixed.get("bandwidth", math.inf)))
        draws = np.sort(np.minimum(model.draws(points, DRAWS), most), axis=0)
        if not np.all(np.isfinite(draws)):
            raise ValueError(f"{model.name} has no value at some settings: {'; '.join(model.problems)}")
        estimate = np.minimum(model.estimate(points), most)
        figures.append(np.column_stack([estimate, *interval(draws), draws[place]]))
        chances.append(np.column_stack([np.mean(draws >= target, axis=0) for target in targets]))
    table = grid.assign(**dict(zip(FIGURES, np.concatenate(figures).T, strict=False)))
    outside = model.domain.outside(grid)
    return [table.assign(probability=chance, extrapolated=outside) for chance in np.concatenate(chances).T]


def _refuse(domain: Domain, fixed: Given) -> None:
    problems = []
    vary = [*domain.ranges, *(name for name, words in domain.words.items() if len(words) > 1)]
    for name in vary:
        if name in Parameters.model_fields and name not in KNOBS and name not in fixed:
            allowed = f"this key is needed, for {name} varies in the data: {values_text(name, domain)}"
            problems.append(Problem(name, "nothing", allowed))
    for name, value in fixed.items():
        if isinstance(value, tuple) and name not in KNOBS:
            problems.append(Problem(name, "a list", f"one value; lists are for {', '.join(KNOBS)}"))
        elif name in domain.words and value not in domain.words[name]:
            problems.append(Problem(name, repr(value), f"a value in the data: {values_text(name, domain)}"))
    if problems:
        raise ConfigurationError(problems)


def _knob(name: str, domain: Domain, fixed: Given, reach: float) -> NDArray[np.float64]:
    if name in fixed:
        return np.unique(model_inputs(fixed[name]))
    if name in domain.ranges:
        low, high = domain.ranges[name]
        whole = name in _COUNTS or (low.is_integer() and high.is_integer())
        most = _FEW if reach > 1 else _WHOLE if whole else _PARTS
        steps = spaced_values(low, high * reach, most, whole=whole)
        return np.unique([*steps, *domain.values.get(name, ())])
    return np.array([domain.fixed.get(name, DEFAULTS[name])])


def spaced_values(low: float, high: float, most: int, *, whole: bool) -> NDArray[np.float64]:
    """Return at most `most` values from low to high, both included: all whole numbers, or even ratios."""
    if not math.isfinite(high):  # infinity has no multiples
        return np.unique([low, high])
    if whole and high - low < most:
        return np.arange(low, high + 0.5)
    steps = np.geomspace(low, high, most)[1:-1]
    rounded = np.round(steps) if whole else np.array([float(f"{step:.2g}") for step in steps])
    return np.unique([low, *np.clip(rounded, low, high), high])


def values_text(name: str, domain: Domain) -> str:
    """Describe the values of a parameter in the data."""
    if name in domain.words:
        return ", ".join(domain.words[name])
    if name in domain.ranges:
        return " to ".join(value_text(name, value) for value in domain.ranges[name])
    if name not in domain.fixed or domain.fixed[name] == DEFAULTS.get(name):
        return "not recorded"
    return value_text(name, domain.fixed[name])


def model_inputs(value: Value | tuple[Value, ...]) -> list[str | float]:
    """Return a value, or each of several, for models: null, which means no limit, becomes infinity."""
    values = value if isinstance(value, tuple) else (value,)
    return [one if isinstance(one, str) else math.inf if one is None else float(one) for one in values]
