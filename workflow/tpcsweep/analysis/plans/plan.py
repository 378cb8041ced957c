# SPDX-License-Identifier: Apache-2.0
"""Find the cheapest origins, cores and streams with which a fitted model reaches a throughput.

All functions are pure. Throughput is in Gbit/s, RTT in ms, other parameters are in the units of sweeps.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.analysis.models.formula import DEFAULTS, Floats, json_content
from tpcsweep.analysis.models.observations import Observations
from tpcsweep.analysis.models.predictor import Domain, Predictor, interval
from tpcsweep.analysis.plans.question import PROBABILITY, Given, Question
from tpcsweep.common.numbers import plain, short
from tpcsweep.sweeps.parameters import DESTINATION, KNOBS, LINK, SOURCE, Parameters, Value, value_text
from tpcsweep.sweeps.problems import ConfigurationError, Problem, refused

BEYOND = 4.0
"""Factor on the largest measured values at which the search for an unreachable target ends."""

FRONT = "fewer cores or streams"
"""Name of the settings of the front."""

DRAWS = 1000
FIGURES = ("throughput", "throughput_low", "throughput_high", "assured", "probability", "extrapolated")
"""Columns of a setting's predictions; throughputs in Gbit/s."""

_CORES_SHARE = 0.25  # differences of parts of a core below this share do not matter
_STREAMS_POWER = 1 / 8  # weight of streams against parts of a core
_NEARLY = 0.99  # share of the best that counts as equally good
_WHOLE = 48  # whole numbers of which each is tried
_STEPS = 24  # values of a knob at even ratios, where there are more whole numbers, or fractional cores
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
        enough = self.settings[throughput >= _NEARLY * throughput.max()]
        return enough.loc[cheapest_row(enough)]

    @property
    def surest(self) -> pd.Series | None:
        """Cheapest setting that is nearly the likeliest to reach the target, or None if a setting reaches it."""
        likely = self.settings["probability"]
        if self.reached or not likely.max() > 0:
            return None
        enough = self.settings[likely >= _NEARLY * likely.max()]
        return enough.loc[cheapest_row(enough)]

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
        return enough.loc[cheapest_row(enough)] if len(enough) else None


def cheapest_row(settings: pd.DataFrame) -> Any:
    """Return the label of the cheapest row: fewest cores, then fewest origins, then fewest streams.

    Cores that differ by less than a quarter, and by less than one core, count as equal. Among these and the fewest
    origins, the product of cores and the eighth root of streams decides: a fifth of a core's part is worth 14 of 17
    streams, and no part is worth one of three.
    """
    return settings.index[_cheapest(*(settings[name].to_numpy(float) for name in KNOBS))]


def _cheapest(cores: Floats, origins: Floats, streams: Floats) -> int:
    """Return the place of the cheapest setting, as `cheapest_row` has it."""
    least = cores.min()
    equal = (cores == least) | (cores < min((1 + _CORES_SHARE) * least, least + 1))
    few = np.flatnonzero(equal & (origins == origins[equal].min()))
    # Without a quota the streams decide alone.
    cost = np.where(np.isfinite(cores[few]), cores[few], 1.0) * streams[few] ** _STREAMS_POWER
    return int(few[np.argmin(cost)])


def answers(settings: pd.DataFrame) -> Iterator[tuple[float, pd.Series]]:
    """Yield the cheapest settings for all targets, ascending, each with the largest target that it answers."""
    left = settings[settings["assured"] > 0]
    # Thousands of settings have hundreds of answers, and selecting rows of a table takes long.
    assured, *knobs = (left[name].to_numpy(float) for name in ("assured", *KNOBS))
    rows = np.arange(len(left))
    while len(rows):
        cores, origins, streams = (knob[rows] for knob in knobs)
        best = rows[_cheapest(cores, origins, streams)]
        # The answer changes with a target that it does not reach, or that no setting with the fewest cores reaches.
        fewest = assured[rows[cores == cores.min()]].max()
        most = min(float(assured[best]), float(fewest))
        rows = rows[assured[rows] > most]
        yield most, left.iloc[best]


def plan(
    model: Predictor,
    target: float | str | None,
    probability: float | str = PROBABILITY,
    *,
    observations: Observations | None = None,
    data: str = "",
    **fixed: object,
) -> Plan:
    """Find the cheapest setting with which one measurement reaches the target with the probability.

    `cheapest_row` says which setting is cheaper. The search covers the ranges of the data
    including every measured value: whole numbers, thinned if there are many, and fractional cores in steps of some
    percent if the data have any. If no setting reaches the target, the search continues to four times the largest
    values; these settings are in `beyond`.

    Args:
        model: What predicts measurements, such as `anchored.anchor` of a formula and the cells.
        target: Gbit/s, or text with a unit.
        probability: A share, or text with a unit.
        observations: Measured cells; a note names the best of them if the target is not reached.
        data: The data that the model was fitted to, for figures.
        **fixed: Parameters of sweeps, in base units or with units; origins, cores and streams may be lists to choose
            from, and words are those of the fitted cells. Every other parameter that varies in the data is needed.

    Raises ConfigurationError if a value has the wrong kind, or a parameter is missing or unknown.
    """
    content = {"target": target, "probability": probability, **fixed}
    question = Question.asked(content, model.domain.words)
    wanted, sure, given = question.target, question.probability, question.given
    if wanted is None:
        raise refused("target", "nothing", 'this key is needed, such as "100 Gbit/s"')
    [settings] = evaluate(model, candidates(model.domain, given), sure, [wanted])
    beyond = settings.iloc[:0]
    reached = bool((settings["assured"] >= wanted).any())
    if not reached:
        wider = candidates(model.domain, given, BEYOND)
        knobs = list(KNOBS)
        wider = wider[(wider[knobs] > settings[knobs].max()).any(axis=1)].reset_index(drop=True)
        if len(wider):
            [beyond] = evaluate(model, wider, sure, [wanted])
    measured = "" if reached or observations is None else best_measured(observations, given)
    notes = [measured, _MEANING, *model.problems, *_outside(model.domain, given)]
    notes += _without_effect(model.trend, settings)
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

    `throughput` is the prediction; `throughput_low` and `throughput_high` are the ends of the 95 % interval of
    measurements. A measurement reaches `assured` with the requested probability, and the target with `probability`.
    `extrapolated` is true beyond the data. Raises ValueError if the model has no value at some setting.
    """
    # Index of the draw that at least this share of draws reaches.
    place = int(DRAWS * (1 - probability) + 1e-9)
    figures, chances = [], []
    for start in range(0, len(grid), _BLOCK):
        points = grid.iloc[start : start + _BLOCK].reset_index(drop=True)
        # No path carries more than its bandwidth, although the scatter of slower cells would predict it.
        most = np.asarray(points.get("bandwidth", model.domain.fixed.get("bandwidth", math.inf)))
        estimate, draws = model.outcomes(points, DRAWS)
        draws = np.sort(np.minimum(draws, most), axis=0)
        if not np.all(np.isfinite(draws)):
            raise ValueError(f"{model.name} has no value at some settings: {'; '.join(model.problems)}")
        figures.append(np.column_stack([np.minimum(estimate, most), *interval(draws), draws[place]]))
        chances.append(np.column_stack([np.mean(draws >= target, axis=0) for target in targets]))
    table = grid.assign(**dict(zip(FIGURES, np.concatenate(figures).T, strict=False)))
    outside = model.domain.outside(grid)
    return [table.assign(probability=chance, extrapolated=outside) for chance in np.concatenate(chances).T]


def _refuse(domain: Domain, fixed: Given) -> None:
    problems = []
    vary = [*domain.ranges, *(name for name, words in domain.words.items() if len(words) > 1)]
    if {*LINK} <= {*vary} - fixed.keys():
        ends = {SOURCE: domain.words[SOURCE][0], DESTINATION: domain.words[DESTINATION][-1]}
        link = " and ".join(f"{name} {site}" for name, site in ends.items())
        every = "all links: tpcsweep plan --recommend --format csv RESULTS"
        problems.append(
            Problem(" and ".join(LINK), "nothing", f"a link of the mesh, such as {link}; {every}")
        )
        vary = [name for name in vary if name not in LINK]
    for name in vary:
        known = name in Parameters.model_fields or name in domain.words
        if known and name not in KNOBS and name not in fixed:
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
        every = whole and reach == 1 and high - low < _WHOLE
        most = _FEW if reach > 1 else _WHOLE if every else _STEPS
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
