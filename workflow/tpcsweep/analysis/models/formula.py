# SPDX-License-Identifier: Apache-2.0
"""Building blocks of throughput models, in units of datasets: throughput in Gbit/s, RTT in ms, sizes in bytes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.common.numbers import json_number

Floats = NDArray[np.float64]  # array of numbers; in models one number for each cell

Points = Mapping[str, Floats]  # cell parameters as columns of equal length, in base units

Cells: TypeAlias = Points | pd.DataFrame  # points, or a table with one row for each cell

SEED = 0  # seed of all random numbers in models, so that the same data always give the same result

DEFAULTS: Mapping[str, float] = {
    "origins": 1.0,
    "cores": math.inf,
    "rtt": 0.0,
    "bandwidth": 1e3,
    "loss": 0.0,
    "mtu": 1500.0,
    "tcp_buffer": 2.0**30,
    "tcp_streams": 1.0,
    "file_size": math.inf,
    "streams": 1.0,
}
"""Defaults for parameters that the data lack: limits so wide that none of them binds."""


@dataclass(frozen=True)
class Parameter:
    """Unknown of a model."""

    name: str
    unit: str
    description: str
    low: float
    high: float
    guess: float
    scale: Literal["linear", "log"] = "linear"
    needs: tuple[str, ...] = ()
    """Axes that need several values; otherwise no data can separate this parameter from others."""
    neutral: float | None = None
    """Value without effect; the parameter is fixed at it when a needed axis has only one value."""

    def to_unit(self, value: Floats | float) -> Floats:
        """Map [low, high] to [0, 1], logarithmically if `scale` is "log"."""
        low, high, at = self.low, self.high, np.asarray(value, float)
        if self.scale == "log":
            low, high, at = math.log(low), math.log(high), np.log(at)
        return np.asarray((at - low) / (high - low))

    def from_unit(self, unit: Floats | float) -> Floats:
        """Map [0, 1] to [low, high]: the inverse of `to_unit`."""
        if self.scale == "log":
            return np.asarray(self.low * (self.high / self.low) ** np.asarray(unit, float))
        return np.asarray(self.low + (self.high - self.low) * np.asarray(unit, float))


@dataclass(frozen=True)
class Model:
    """Formula for the throughput of a cell."""

    name: str
    title: str
    formula: str  # LaTeX, without dollars
    source: str  # paper with year
    axes: tuple[str, ...]  # cell parameters in the formula; the prediction does not depend on any other axis
    parameters: tuple[Parameter, ...]
    function: Callable[..., Floats]
    """`function(points, **values)` returns Gbit/s in a shape that broadcasts to the columns of `points`. Pure."""

    def __call__(self, points: Points, values: Mapping[str, Floats | float]) -> Floats:
        """Return Gbit/s for each cell, or a values × cells array if `values` are columns."""
        shapes = (np.shape(value) for value in values.values())
        shape = np.broadcast_shapes(np.shape(points["streams"]), *shapes)
        return np.broadcast_to(self.function(points, **values), shape)


def with_defaults(frame: Cells) -> Points:
    """Return the numeric columns as arrays, and columns of `DEFAULTS` for the missing parameters."""
    columns = {str(name): np.asarray(frame[name]) for name in frame}
    length = len(next(iter(columns.values()), [0]))
    defaults = {name: np.full(length, value) for name, value in DEFAULTS.items() if name not in columns}
    given = {name: column.astype(float) for name, column in columns.items() if column.dtype.kind in "biuf"}
    return defaults | given


def json_content(value: Any) -> Any:
    """Convert values, containers and tables to JSON types: numbers with six digits, null for no limit."""
    match value:
        case pd.Series():
            return json_content(value.to_dict())
        case pd.DataFrame():
            return json_content(value.to_dict("list"))
        case Mapping():
            return {name: json_content(part) for name, part in value.items()}
        case tuple() | list():
            return [json_content(part) for part in value]
        case np.generic():
            return json_content(value.item())
        case float():
            return json_number(value, 6)
    return value
