# SPDX-License-Identifier: Apache-2.0
"""Settings to choose from, and what a fitted model says of each. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.configuration.parameters import Parameters, Value, show_value
from tpcsweep.configuration.problems import ConfigurationError, Problem
from tpcsweep.models.base import UNSAID
from tpcsweep.models.places import Domain, Predictor
from tpcsweep.planning.question import KNOBS, Given

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIDENCE = 0.95
"""Of the intervals of throughputs."""
DRAWS = 1000
FIGURES = ("throughput", "throughput_low", "throughput_high", "assured", "probability", "extrapolated")
"""What is said of a setting; throughputs in Gbit/s."""

_WHOLE = 48  # values of a knob in whole numbers
_PARTS = 24  # values of cores in parts
_FEW = 16  # values of a knob where the data do not reach
_BLOCK = 2000  # settings that are drawn at once, for the sake of memory
_COUNTS = ("origins", "streams")


def candidates(domain: Domain, fixed: Given, reach: float = 1.0) -> pd.DataFrame:
    """Give all settings to look at, cheapest first, with what is fixed: what was measured is among them.

    Args:
        domain: the ranges of the data, and the values in them.
        fixed: the parameters that were given.
        reach: how many times the largest value of the data is the largest to look at.

    Raises:
        ConfigurationError: for what varies in the data and is not given, is a list, or is a word that they lack.
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
    model: Predictor, grid: pd.DataFrame, probability: float, targets: Sequence[float], seed: int = 0
) -> list[pd.DataFrame]:
    """Add to settings what the model says of one measurement at each; a table for each target.

    `throughput` is the fit, with the ends of the interval of measurements; `assured` is what a measurement reaches
    with the probability; `probability` is that of reaching the target; `extrapolated` is true beyond the data.

    Raises:
        ValueError: where the model has no value.
    """
    tail = 50 * (1 - CONFIDENCE)
    # The draw that at least this share of draws reaches.
    place = int(DRAWS * (1 - probability) + 1e-9)
    figures, chances = [], []
    for start in range(0, len(grid), _BLOCK):
        points = grid.iloc[start : start + _BLOCK].reset_index(drop=True)
        bandwidth = points.get("bandwidth", model.domain.fixed.get("bandwidth", math.inf))
        # No path carries more than its bandwidth, whatever the scatter of slower cells would make of it.
        draws = np.sort(np.minimum(model.draws(points, DRAWS, seed), np.asarray(bandwidth)), axis=0)
        if not np.all(np.isfinite(draws)):
            raise ValueError(f"{model.name} has no value at some settings: {'; '.join(model.problems)}")
        low, high = np.percentile(draws, [tail, 100 - tail], axis=0)
        figures.append(np.column_stack([model.estimate(points), low, high, draws[place]]))
        chances.append(np.column_stack([np.mean(draws >= target, axis=0) for target in targets]))
    table = grid.assign(**dict(zip(FIGURES, np.concatenate(figures).T, strict=False)))
    outside = model.domain.outside(grid)
    return [table.assign(probability=chance, extrapolated=outside) for chance in np.concatenate(chances).T]


def _refuse(domain: Domain, fixed: Given) -> None:
    problems = []
    vary = [*domain.ranges, *(name for name, words in domain.words.items() if len(words) > 1)]
    for name in vary:
        if name in Parameters.model_fields and name not in KNOBS and name not in fixed:
            allowed = f"this key is needed, for {name} varies in the data: {span(name, domain)}"
            problems.append(Problem(name, "nothing", allowed))
    for name, value in fixed.items():
        if isinstance(value, tuple) and name not in KNOBS:
            problems.append(Problem(name, "a list", f"one value; lists are for {', '.join(KNOBS)}"))
        elif name in domain.words and value not in domain.words[name]:
            problems.append(Problem(name, repr(value), f"what the data have: {span(name, domain)}"))
    if problems:
        raise ConfigurationError(problems)


def _knob(name: str, domain: Domain, fixed: Given, reach: float) -> NDArray[np.float64]:
    """Values to look at, in order."""
    if name in fixed:
        value = fixed[name]
        return np.unique([model_input(part) for part in (value if isinstance(value, tuple) else (value,))])
    if name in domain.ranges:
        low, high = domain.ranges[name]
        whole = name in _COUNTS or (low.is_integer() and high.is_integer())
        most = _FEW if reach > 1 else _WHOLE if whole else _PARTS
        steps = ladder(low, high * reach, most, whole=whole)
        return np.unique([*steps, *domain.values.get(name, ())])
    return np.array([domain.fixed.get(name, UNSAID[name])])


def ladder(low: float, high: float, most: int, *, whole: bool) -> NDArray[np.float64]:
    """Give at most so many values from low to high, both included: all whole ones, or in even ratios."""
    if not math.isfinite(high):  # no limit, of which there is no multiple
        return np.unique([low, high])
    if whole and high - low < most:
        return np.arange(low, high + 0.5)
    steps = np.geomspace(low, high, most)[1:-1]
    rounded = np.round(steps) if whole else np.array([float(f"{step:.2g}") for step in steps])
    return np.unique([low, *np.clip(rounded, low, high), high])


def span(name: str, domain: Domain) -> str:
    """Say what values of a parameter the data have."""
    if name in domain.words:
        return ", ".join(domain.words[name])
    if name in domain.ranges:
        return " to ".join(_shown(name, value) for value in domain.ranges[name])
    if name not in domain.fixed or domain.fixed[name] == UNSAID.get(name):
        return "they do not say"
    return _shown(name, domain.fixed[name])


def _shown(name: str, value: float) -> str:
    if math.isinf(value):
        return "no limit"
    whole = isinstance(value, float) and value.is_integer()
    return show_value(name, int(value) if whole else float(value))


def model_input(value: Value) -> str | float:
    """Give what models take: infinity for null, which is no limit."""
    return value if isinstance(value, str) else math.inf if value is None else float(value)
