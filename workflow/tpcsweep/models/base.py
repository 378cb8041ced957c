# SPDX-License-Identifier: Apache-2.0
"""What a throughput model is: a formula over the parameters of cells, with unknowns to be fitted.

Units are those of the dataset: throughput and bandwidth in Gbit/s, RTT in ms, sizes in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep import tcp
from tpcsweep.files import number

Floats = NDArray[np.float64]
"""Arrays of numbers; of models one for each cell."""

Points = Mapping[str, Floats]
"""Columns of equal length: the parameters of cells, in base units."""

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
"""What a model takes for what the data do not say: limits so wide that none of them binds."""


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
    """Where it takes no effect: it is held there when a needed axis has one value."""
    absorbed: bool = False
    """Whether another parameter is meant to stand for its effect where it is held."""

    def to_unit(self, value: Floats | float) -> Floats:
        """Map [low, high] to [0, 1], by the logarithm where that is the scale."""
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
    """What it speaks about; along all other axes it predicts the same."""
    parameters: tuple[Parameter, ...]
    function: Callable[..., Floats]
    """`function(points, **values)` returns Gbit/s; what it returns broadcasts to the columns of `points`. Pure."""

    def __call__(self, points: Points, values: Mapping[str, Floats | float]) -> Floats:
        """Return Gbit/s for each cell; with columns of values, cells in a row for each of these."""
        shapes = (np.shape(value) for value in values.values())
        shape = np.broadcast_shapes(np.shape(points["streams"]), *shapes)
        return np.broadcast_to(self.function(points, **values), shape)


BASE = Parameter(
    "base", "ms", "RTT that hosts add to the path's", 0.01, 20.0, 0.3, "log", needs=("rtt",), neutral=0.1
)
"""The addition to the RTT that every model with 1/RTT has, so that a LAN's 0 ms is no division by zero."""

EFFICIENCY = Parameter(
    "efficiency", "1", "largest share of the path's bandwidth that is goodput", 1e-4, 1.1, 0.9, "log"
)
"""The ceiling of models that know of one limit beside the streams' own."""

WINDOW = Parameter(
    "window",
    "1",
    "window of a connection as a share of the largest TCP buffer",
    1e-4,
    2.0,
    0.5,
    "log",
    needs=("rtt",),
)
"""Of the buffer that sysctl names, Linux keeps a part for overhead, and congestion control may stay below."""

BACKGROUND = Parameter(
    "background",
    "1",
    "share of packets lost beside those that the path is set to lose",
    1e-10,
    0.3,
    1e-5,
    "log",
    needs=("rtt",),
)
"""Loss that nobody set: of queues that overflow, and of congestion."""


def segment(points: Points) -> Floats:
    """Payload of a packet in bytes."""
    return np.asarray(points["mtu"] - tcp.HEADERS)


def mathis_rate(points: Points, rtt: Floats, background: float) -> Floats:
    """Rate of one connection of each point, Gbit/s, by `tcp.mathis`."""
    return tcp.mathis(segment(points), rtt, np.minimum(points["loss"] + background, 1.0))


def connections(points: Points) -> Floats:
    """TCP connections that carry data: streams, each with so many."""
    return np.asarray(points["streams"] * points["tcp_streams"])


def plain(value: Any) -> Any:
    """Give what JSON has of values, containers and tables: numbers with six digits, and null for no limit."""
    match value:
        case pd.Series():
            return plain(value.to_dict())
        case pd.DataFrame():
            return plain(value.to_dict("list"))
        case Mapping():
            return {name: plain(part) for name, part in value.items()}
        case tuple() | list():
            return [plain(part) for part in value]
        case np.generic():
            return plain(value.item())
        case float():
            return number(value, 6)
    return value
