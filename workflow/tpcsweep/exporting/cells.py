"""The cells of a dataset one by one, with what an export says of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from tpcsweep.dataset import STATUS
from tpcsweep.parameters import Value
from tpcsweep.sweep import path_text


class ExportError(ValueError):
    """A dataset that cannot be exported; the text says why and what to do."""


@dataclass(frozen=True)
class Cell:
    """A cell that was measured or failed."""

    axes: dict[str, Value]
    """Its coordinates in base units; None where there is no limit."""
    index: dict[str, int]
    """Its place in the dataset."""
    ended: float
    """When its measurement ended, in s since 1970-01-01 UTC."""


def cells(summary: xr.Dataset) -> Iterator[Cell]:
    """Give every cell that was measured or failed, in the order of the axes.

    Raises:
        ExportError: where the dataset does not say when a cell was measured.
    """
    status = summary["status"]
    known = {str(name): summary[name].values.tolist() for name in status.dims}
    started = summary["started"].values.astype("datetime64[ns]")
    durations = np.nan_to_num(summary["duration"].values)
    for place in np.argwhere(status.values != STATUS.index("missing")):
        at = tuple(int(index) for index in place)
        axes = {name: plain(values[i]) for (name, values), i in zip(known.items(), at, strict=True)}
        if np.isnat(started[at]):
            where = ", ".join(f"{name}={path_text(value)}" for name, value in axes.items())
            raise ExportError(
                f"the dataset does not say when the cell {where} was measured, which monitoring needs to know; "
                "datasets of measurements from elsewhere cannot be exported"
            )
        ended = float(started[at].astype("int64")) / 1e9 + float(durations[at])
        yield Cell(axes, dict(zip(known, at, strict=True)), ended)


def plain(value: Any) -> Value:
    """A coordinate's value in base units: None for what the dataset has as inf, no limit."""
    if isinstance(value, float) and math.isinf(value):
        return None
    return value  # type: ignore[no-any-return]
