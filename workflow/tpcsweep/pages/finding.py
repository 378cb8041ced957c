# SPDX-License-Identifier: Apache-2.0
"""A finding about a dataset: its text, settings and changes."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Change:
    """Effect of an axis: throughput at its last value over that at its first, with the ends of the interval."""

    words: str
    ratio: float
    low: float  # NaN without an interval, like `high`
    high: float
    pairs: int
    doublings: float = math.nan  # of the axis' value, negative for halvings; NaN for words


@dataclass(frozen=True)
class Sentence:
    topic: str  # a few words
    text: str  # lines, if it has several
    settings: tuple[int, ...]
    """Indices in the flattened grid, without repetitions, of the settings that it describes."""
    changes: tuple[Change, ...] = ()
    listed: bool = False  # whether links to its settings follow
    cells: tuple[int, ...] = ()
    """Indices in the flattened grid of the cells to list in place of its settings."""


def places(which: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the places of some settings or cells in the flattened grid."""
    return tuple(np.flatnonzero(which).tolist())
