"""The cells of a dataset in columns, with what an export says of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tpcsweep.configuration.parameters import Value
from tpcsweep.configuration.sweep import path_text
from tpcsweep.dataset import SIMULATED, STATUS

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ExportError(ValueError):
    """A dataset that cannot be exported; the text says why and what to do."""


@dataclass(frozen=True)
class Cells:
    """Cells that were measured or failed, in the order of the axes."""

    index: tuple[NDArray[np.int64], ...]
    """For each axis the place of each cell."""
    axes: dict[str, list[str]]
    """For each axis the value of each cell in base units, as text; "none" where there is no limit."""
    ended: NDArray[np.float64]
    """When its measurement ended, in s since 1970-01-01 UTC."""


def cells(summary: xr.Dataset) -> Cells:
    """Give every cell that was measured or failed.

    Raises:
        ExportError: where the dataset does not say when a cell was measured.
    """
    status = summary["status"]
    index = np.nonzero(status.values != STATUS.index("not_measured"))
    axes = {}
    for name, places in zip(status.dims, index, strict=True):
        texts = [path_text(plain(value)) for value in summary[name].values.tolist()]
        axes[str(name)] = [texts[place] for place in places.tolist()]
    started = summary["started"].values.astype("datetime64[ns]")[index]
    for cell in np.flatnonzero(np.isnat(started))[:1]:
        where = ", ".join(f"{name}={texts[cell]}" for name, texts in axes.items())
        raise ExportError(
            f"the dataset does not say when the cell {where} was measured, which monitoring needs to know; "
            "datasets of measurements from elsewhere cannot be exported"
        )
    return Cells(
        index, axes, started.astype("int64") / 1e9 + np.nan_to_num(summary["duration"].values[index])
    )


def plain(value: Any) -> Value:
    """A coordinate's value in base units: None for what the dataset has as inf, no limit."""
    if isinstance(value, float) and math.isinf(value):
        return None
    return value  # type: ignore[no-any-return]


def site(summary: xr.Dataset) -> str:
    """Give the testbed, which says so itself where nothing was measured."""
    testbed = str(summary.attrs["testbed"])
    return f"simulated:{testbed}" if summary.attrs["testbed_kind"] == SIMULATED else testbed
