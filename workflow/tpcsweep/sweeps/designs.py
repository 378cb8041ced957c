# SPDX-License-Identifier: Apache-2.0
"""Points of a sweep's grid: all combinations, or a two-level design for screening."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from tpcsweep.sweeps.parameters import CELL, Parameters, Value
from tpcsweep.sweeps.problems import Fault

SCREENING = "screening"
FEWEST_FACTORS, MOST_FACTORS = 3, 11  # a grid of two settings is no larger; a dataset has 2¹¹ combinations
_CYCLE = "++-+++---+-"
"""First run of 12 by R. L. Plackett and J. P. Burman, Biometrika 33, 1946; cyclic shifts are the next ones."""
_COLUMNS = (1, 2, 4, 7, 3, 5, 6)
"""Factors as bits of runs. With four factors in 8 runs, no product of two of them is a third one."""

Values = Mapping[str, tuple[Value, ...]]


def screening_runs(factors: int) -> list[tuple[int, ...]]:
    """Return the runs of an orthogonal design: for each factor the place of its value, 0 or 1.

    The first run has the first value of each factor. Up to 7 factors have a regular fraction in 4 or 8 runs (G. E. P.
    Box and J. S. Hunter, Technometrics 3, 1961), more of them 12 runs of Plackett and Burman.
    """
    if factors > len(_COLUMNS):
        cycle = [int(sign == "+") for sign in _CYCLE]
        rows = [[0] * len(cycle), *([*cycle[-shift:], *cycle[:-shift]] for shift in range(len(cycle)))]
        return [tuple(row[:factors]) for row in rows]
    runs, columns = (4, (1, 2, 3)) if factors == FEWEST_FACTORS else (8, _COLUMNS[:factors])
    return [tuple((run & column).bit_count() % 2 for column in columns) for run in range(runs)]


def settings_axes(selected: Mapping[str, object]) -> dict[str, tuple[Value, ...]]:
    """Return the testbed's settings with several values among a sweep's chosen parameters."""
    return {
        name: values
        for name, values in selected.items()
        if name not in Parameters.model_fields and isinstance(values, tuple)
    }


def screening_faults(
    selected: Mapping[str, object], rules: Mapping[str, Sequence[Mapping[str, object]]]
) -> Iterator[Fault]:
    """Yield what prevents a design for screening over settings; `rules` are the sweep's `exclude` and `include`."""
    factors = settings_axes(selected)
    for name, values in factors.items():
        if len(values) != 2:
            yield ("parameters", name), f"{len(values)} values", "2 values with design: screening"
    if not FEWEST_FACTORS <= len(factors) <= MOST_FACTORS:
        given = f"screening of {', '.join(factors) or 'no setting'}"
        allowed = f"{FEWEST_FACTORS} to {MOST_FACTORS} of the testbed's settings as axes; or leave out design"
        yield ("design",), given, allowed
    for key, entries in rules.items():
        for place, entry in enumerate(entries):
            for name in factors.keys() & entry.keys():
                yield (
                    (key, place, name),
                    "a setting",
                    "other parameters: the design has the combinations of settings",
                )


def points(axes: Values, design: str) -> Iterator[tuple[Value, ...]]:
    """Yield the values of all axes at each point of a design: its runs with all combinations of other axes."""
    factors = settings_axes(axes) if design == SCREENING else {}
    runs = screening_runs(len(factors)) if factors else [()]
    others = product(*(values for name, values in axes.items() if name not in factors))
    for run, rest in product(runs, others):  # settings are the first axes
        yield (*(values[at] for values, at in zip(factors.values(), run, strict=True)), *rest)


def count_points(axes: Values, design: str) -> int:
    """Return the number of `points`, without making them."""
    factors = settings_axes(axes) if design == SCREENING else {}
    runs = len(screening_runs(len(factors))) if factors else 1
    return runs * math.prod(len(values) for name, values in axes.items() if name not in factors)


def compared_axes(axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the axes whose effects are estimated: those of deployments with several values that are words."""
    return [
        name
        for name, values in axes.items()
        if name not in (*CELL, "repetition")
        and len(values) > 1
        and all(isinstance(one, str) for one in values)
    ]
