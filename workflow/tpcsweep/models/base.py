# SPDX-License-Identifier: Apache-2.0
"""The parts of a throughput model: a formula over the parameters of cells, with unknowns that are fitted.

Units are those of the dataset: throughput and bandwidth in Gbit/s, RTT in ms, sizes in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.files import number

Floats = NDArray[np.float64]
"""Arrays of numbers; one number for each cell in models."""

Points = Mapping[str, Floats]
"""Columns of equal length: the parameters of cells, in base units."""

Cells: TypeAlias = Points | pd.DataFrame
"""Points, or the rows of a table."""

SEED = 0
"""The seed of everything random in models: the same data have the same answers."""

UNSAID: Mapping[str, float] = {
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
"""The values of parameters that the data lack: limits so wide that none of them binds."""


@dataclass(frozen=True)
class Parameter:
    """An unknown of a model."""

    name: str
    unit: str
    description: str
    low: float
    high: float
    guess: float
    scale: Literal["linear", "log"] = "linear"
    needs: tuple[str, ...] = ()
    """Axes that must have several values, or no data can tell this parameter from others."""
    neutral: float | None = None
    """The value without effect: the parameter is held there when a needed axis has one value."""

    def to_unit(self, value: Floats | float) -> Floats:
        """Map [low, high] to [0, 1], by the logarithm if that is the scale."""
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
    """A formula for the throughput of a cell."""

    name: str
    title: str
    formula: str
    """LaTeX, without dollars."""
    source: str
    """Paper with year."""
    axes: tuple[str, ...]
    """The parameters of cells in the formula; along all other axes it predicts the same."""
    parameters: tuple[Parameter, ...]
    function: Callable[..., Floats]
    """`function(points, **values)` returns Gbit/s in a shape that broadcasts to the columns of `points`. Pure."""

    def __call__(self, points: Points, values: Mapping[str, Floats | float]) -> Floats:
        """Return Gbit/s for each cell; with columns of values, a row of cells for each of these."""
        shapes = (np.shape(value) for value in values.values())
        shape = np.broadcast_shapes(np.shape(points["streams"]), *shapes)
        return np.broadcast_to(self.function(points, **values), shape)


def with_unsaid(frame: Cells) -> Points:
    """Return the numeric columns as arrays, and columns of `UNSAID` for the parameters that are missing."""
    columns = {str(name): np.asarray(frame[name]) for name in frame}
    length = len(next(iter(columns.values()), [0]))
    unsaid = {name: np.full(length, value) for name, value in UNSAID.items() if name not in columns}
    said = {name: column.astype(float) for name, column in columns.items() if column.dtype.kind in "biuf"}
    return unsaid | said


def json_content(value: Any) -> Any:
    """Return values, containers and tables as JSON has them: numbers with six digits, null for no limit."""
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
            return number(value, 6)
    return value
