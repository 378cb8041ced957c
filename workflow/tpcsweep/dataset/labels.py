# SPDX-License-Identifier: Apache-2.0
"""The words of datasets: what values mean, and names, units and coordinates of axes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.parameters import Parameters, Value, quantity
from tpcsweep.configuration.sweep import REPETITION, Measurement
from tpcsweep.configuration.units import Quantity
from tpcsweep.flags import BEYOND_PATH, FLAGS
from tpcsweep.variables import NOT_MEASURED, Variable

STATUS = (NOT_MEASURED, "ok", "failed")
"""Meanings of the values of the variable `status`, from 0."""

MASKS = {flag: 1 << bit for bit, flag in enumerate(FLAGS)}
"""The bit of each flag in the variable `flags` of a dataset that is made now; see `masks_of`."""

SIMULATED = "simulation"
"""The kind of testbed in datasets that no measurement is in: their files, figures and tables all say so."""

IMPORTED = "imported"
"""The kind of testbed in datasets of measurements from elsewhere."""

TRANSFERS_GROUP = "transfer_times"
"""The group of single transfers; "transfers" is a figure, and NetCDF has one name for both."""

GROUPS = (None, "samples", TRANSFERS_GROUP)
"""All groups, as xarray calls them."""


def about_flags() -> dict[str, Any]:
    """Return the attributes of the variable `flags`: names, bits, grades and meanings, in the same order."""
    return {
        "long_name": "what to know before trusting the cell",
        "flag_masks": np.array(list(MASKS.values()), dtype=np.int32),
        "flag_meanings": " ".join(MASKS),
        "flag_grades": " ".join(flag.grade for flag in FLAGS.values()),
        "comment": "; ".join(f"{name}: {flag.meaning}" for name, flag in FLAGS.items()),
    }


def masks_of(summary: xr.Dataset) -> dict[str, int]:
    """Return the bit of each flag that a dataset knows, by its own attributes: earlier ones had other bits."""
    about = summary["flags"].attrs
    return dict(zip(about["flag_meanings"].split(), np.atleast_1d(about["flag_masks"]).tolist(), strict=True))


def flagged(summary: xr.Dataset, flag: str) -> xr.DataArray:
    """Which cells carry one of `flags.FLAGS`, as booleans over the axes; none where the dataset is older than it.

    Raises:
        KeyError: for what is no flag.
    """
    if flag not in FLAGS:
        raise KeyError(flag)
    return (summary["flags"] & masks_of(summary).get(flag, 0)) != 0


def with_beyond_path(summary: xr.Dataset) -> xr.Dataset:
    """Return a dataset whose cells with a throughput above their path's bandwidth carry the flag for it.

    Earlier versions did not raise this flag.
    """
    masks = masks_of(summary)
    bandwidth = summary.get("bandwidth", math.inf)
    beyond = (summary["status"] == STATUS.index("ok")) & (summary["throughput"] > bandwidth)
    mask = masks.setdefault(BEYOND_PATH, 2 * max(masks.values(), default=1))
    about = {"flag_masks": np.array(list(masks.values()), np.int32), "flag_meanings": " ".join(masks)}
    flags = (summary["flags"] | beyond * mask).astype(np.int32).transpose(*summary["flags"].dims)
    return summary.assign(flags=flags.assign_attrs({**summary["flags"].attrs, **about}))


def flags_in(value: int, masks: Mapping[str, int]) -> list[str]:
    """Return the names of the flags in one value of the variable `flags`; masks: see `masks_of`."""
    return [flag for flag, mask in masks.items() if value & mask]


def describe(name: str) -> Variable:
    """Unit and meaning of an axis or a fixed parameter; no unit for words, and for what is no parameter."""
    if name == REPETITION:
        return Variable("1", "repetition of the cell")
    known, field = quantity(name), Parameters.model_fields.get(name)
    units = (known.dimension.base or "1") if known else ""
    return Variable(units, field.description or name if field else name)


def coordinates(axes: Mapping[str, Sequence[Value]], fixed: Mapping[str, Value]) -> dict[Hashable, Any]:
    """Return the coordinates of a dataset: each axis along itself, and the fixed parameters without a dimension."""
    along: dict[Hashable, Any] = {name: (name, *_coordinate(name, values)) for name, values in axes.items()}
    for name, value in fixed.items():
        [only], about = _coordinate(name, (value,))
        along[name] = ((), only, about)
    return along


def _coordinate(name: str, values: Sequence[Value]) -> tuple[NDArray[Any], dict[str, str]]:
    attributes = attributes_of(describe(name))
    if not all(value is None or isinstance(value, int | float) for value in values):
        words = ["default" if value is None else str(value) for value in values]  # NetCDF has no null text
        return np.array(words, dtype=object), attributes
    if None in values:
        attributes["comment"] = "inf: no limit"
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.int64), attributes
    numbers = [math.inf if value is None else float(value) for value in values]
    return np.array(numbers), attributes


def attributes_of(variable: Variable, simulated: bool = False) -> dict[str, str]:
    """Return unit, where there is one, and name as attributes; of what was simulated the name says so."""
    units = {"units": variable.units} if variable.units else {}
    return {**units, "long_name": f"simulated: {variable.long_name}" if simulated else variable.long_name}


def found_by(axes: Sequence[str], made: str) -> dict[str, str]:
    """Return the attributes that a catalogue finds a dataset by (ACDD 1.3); `made`: how its figures came about."""
    over = " × ".join(axis for axis in axes if axis != REPETITION) or "one cell"
    return {
        "Conventions": "CF-1.11, ACDD-1.3",
        "summary": f"Throughput {made}, over {over}: of each cell an interval, what bound it and flags. The group "
        f"samples has time series, {TRANSFERS_GROUP} single transfers, as far as they are known.",
        "keywords": "XRootD, HTTP-TPC, third-party copy, throughput, data transfer, TCP, WLCG",
    }


def units_of_measurement() -> str:
    """Say in which units a dataset's attributes `measurement_…` are: attributes have no units of their own."""
    kinds = {
        name: next((item for item in field.metadata if isinstance(item, Quantity)), None)
        for name, field in Measurement.model_fields.items()
    }
    return ", ".join(f"{name} in {kind.dimension.base or '1'}" for name, kind in kinds.items() if kind)


def how_made(summary: xr.Dataset) -> str:
    """Say how the throughput came about: simulated, imported, or measured on which testbed, and at which scale."""
    about = summary.attrs
    kind, testbed = about["testbed_kind"], about["testbed"]
    if kind == IMPORTED:
        return f"measured elsewhere, imported from {testbed}"
    made = f"simulated, testbed {testbed}" if kind == SIMULATED else f"measured on {testbed}"
    if about.get("scale") is None:
        return made
    lacks = f"; {about['scale_notes']}" if about.get("scale_notes") else ""
    return f"{made}, scaled {about['scale']}: bandwidth, cores, files and buffers × {about['scale']}{lacks}"
