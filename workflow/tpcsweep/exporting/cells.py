"""The cells of a dataset in a row, with what an export says of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr

from tpcsweep.configuration.parameters import Value
from tpcsweep.configuration.sweep import path_text
from tpcsweep.dataset import SIMULATED, STATUS


class ExportError(ValueError):
    """A dataset that cannot be exported; the text says why and what to do."""


def cells(summary: xr.Dataset) -> xr.Dataset:
    """Line up the cells that were measured or failed along the dimension `cell`, in the order of the axes.

    The variable `ended` is when a cell's measurement ended, in s since 1970-01-01 UTC, and `place` its place among
    all cells of the grid.

    Raises:
        ExportError: where the dataset does not say when a cell was measured.
    """
    axes = summary["status"].dims
    row = summary.stack(cell=axes, create_index=False)
    places = np.flatnonzero(row["status"] != STATUS.index("not_measured"))
    row = row.isel(cell=places)
    started = row["started"].values.astype("datetime64[ns]")
    for cell in np.flatnonzero(np.isnat(started))[:1]:
        where = ", ".join(f"{axis}={text(row[axis].values[cell].item())}" for axis in axes)
        raise ExportError(
            f"the dataset does not say when the cell {where} was measured, which monitoring needs to know; "
            "datasets of measurements from elsewhere cannot be exported"
        )
    ended = started.astype("int64") / 1e9 + np.nan_to_num(row["duration"].values)
    return row.assign(ended=("cell", ended), place=("cell", places))


def texts(values: xr.DataArray) -> list[str]:
    """Write the values of a coordinate in base units, "none" for what the dataset has as inf: no limit."""
    listed = values.values.tolist()
    known = {value: text(value) for value in set(listed)}
    return [known[value] for value in listed]


def text(value: Any) -> str:
    """Write one such value."""
    plain: Value = None if isinstance(value, float) and math.isinf(value) else value
    return path_text(plain)


def site(summary: xr.Dataset) -> str:
    """Give the testbed, which says so itself where nothing was measured."""
    testbed = str(summary.attrs["testbed"])
    return f"simulated:{testbed}" if summary.attrs["testbed_kind"] == SIMULATED else testbed
