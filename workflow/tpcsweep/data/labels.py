# SPDX-License-Identifier: Apache-2.0
"""Vocabulary of datasets: meanings of values, and names, units and coordinates of axes."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.flags import FLAGS
from tpcsweep.data.variables import AXIS_NAMES, NAMES, NOT_MEASURED, Variable
from tpcsweep.sweeps.parameters import LINK, Parameters, Value, name_text, quantity, value_text
from tpcsweep.sweeps.sweep import REPETITION, Measurement

STATUS = (NOT_MEASURED, "ok", "failed")  # meanings of the values of the variable `status`, from 0

MASKS = {flag: 1 << bit for bit, flag in enumerate(FLAGS)}
"""Bit of each flag in the variable `flags` of new datasets; see `flag_masks`."""

SIMULATED = "simulation"
"""Kind of testbed in simulated datasets; their files, figures and tables are all labelled with it."""

DEPLOYED_KINDS = "netns", "kubernetes"  # kinds of testbeds whose servers and tools the project configures
IMPORTED = "imported"  # kind of testbed in datasets of measurements from elsewhere

ENDPOINTS = "endpoints"  # kind of testbed of storage that exists, to whose paths nothing adds an RTT

TRANSFERS_GROUP = "transfer_times"
"""Group of single transfers; "transfers" is taken by a figure, and NetCDF shares one namespace."""

GROUPS = (None, "samples", TRANSFERS_GROUP)  # all groups, by xarray's names


def about_flags() -> dict[str, Any]:
    """Return the attributes of the variable `flags`: names, bits, grades and meanings, in the same order."""
    return {
        "long_name": "what to know before trusting the cell",
        "flag_masks": np.array(list(MASKS.values()), dtype=np.int32),
        "flag_meanings": " ".join(MASKS),
        "flag_grades": " ".join(flag.grade for flag in FLAGS.values()),
        "comment": "; ".join(f"{name}: {flag.meaning}" for name, flag in FLAGS.items()),
    }


def is_mesh(summary: xr.Dataset) -> bool:
    """Return whether a dataset has links between sites."""
    return set(LINK) <= set(summary["throughput"].dims)


def flag_masks(summary: xr.Dataset) -> dict[str, int]:
    """Return the bit of each flag in a dataset, by its own attributes."""
    about = summary["flags"].attrs
    return dict(zip(about["flag_meanings"].split(), np.atleast_1d(about["flag_masks"]).tolist(), strict=True))


def flagged(summary: xr.Dataset, *flags: str) -> xr.DataArray:
    """Return which cells carry any of some `data.flags.FLAGS`, as booleans over the axes.

    A flag that was added after the dataset was written is false everywhere. Raises KeyError if a flag is unknown.
    """
    if unknown := set(flags) - FLAGS.keys():
        raise KeyError(*sorted(unknown))
    masks = flag_masks(summary)
    return (summary["flags"] & sum(masks.get(flag, 0) for flag in set(flags))) != 0


def outside_sweep(summary: xr.Dataset) -> xr.DataArray:
    """Return which cells the sweep excludes."""
    outside = xr.zeros_like(summary["throughput"], bool)
    outside.values.flat[np.ravel(summary.attrs.get("excluded", [])).astype(int)] = True
    return outside


def flag_bits(flags: Iterable[str]) -> int:
    """Return the value of the variable `flags` of new datasets for a cell with these flags."""
    return sum(MASKS[flag] for flag in set(flags))


def flags_in(value: int, masks: Mapping[str, int]) -> list[str]:
    """Return the names of the flags in a value of the variable `flags`; see `flag_masks` for masks."""
    return [flag for flag, mask in masks.items() if value & mask]


def declared_coordinates(summary: xr.Dataset) -> list[str]:
    """Return the names of the coordinates of cells that have a value: nobody knows one that is NaN everywhere."""
    names = (str(name) for name in summary.coords if name != "record")
    return [name for name in names if not pd.isna(summary[name].values).all()]


def describe(name: str) -> Variable:
    """Return unit and meaning of an axis or fixed parameter; words and unknown names have no unit."""
    if name == REPETITION:
        return Variable("1", "repetition of the cell")
    known, field = quantity(name), Parameters.model_fields.get(name)
    units = (known.dimension.base or "1") if known else ""
    return Variable(units, field.description or name if field else name)


def coordinates(axes: Mapping[str, Sequence[Value]], fixed: Mapping[str, Value]) -> dict[Hashable, Any]:
    """Return the coordinates of a dataset: each axis along itself, fixed parameters as scalars."""
    along: dict[Hashable, Any] = {name: (name, *_coordinate(name, values)) for name, values in axes.items()}
    for name, value in fixed.items():
        [only], about = _coordinate(name, (value,))
        along[name] = ((), only, about)
    return along


def _coordinate(name: str, values: Sequence[Value]) -> tuple[NDArray[Any], dict[str, str]]:
    attributes = variable_attributes(name, describe(name))
    if not all(value is None or isinstance(value, int | float) for value in values):
        words = ["default" if value is None else str(value) for value in values]  # NetCDF has no null text
        return np.array(words, dtype=object), attributes
    known = quantity(name)
    null = math.inf if known and known.null else math.nan
    if None in values:
        attributes["comment"] += f"; {null}: {value_text(name, null)}"
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.int64), attributes
    numbers = [null if value is None else float(value) for value in values]
    return np.array(numbers), attributes


def short_name(name: str) -> str:
    """Return the name of a variable for axes and legends of figures, without its unit."""
    return NAMES.get(name) or " ".join(NAMES.get(word, word) for word in name.split("_"))


def axis_name(name: str) -> str:
    """Return the name of an axis for pages and figures, without its unit."""
    return AXIS_NAMES.get(name) or name_text(name)


def variable_attributes(name: str, variable: Variable, simulated: bool = False) -> dict[str, str]:
    """Return the attributes of a variable: unit (of numbers), short name, and meaning as comment.

    The name marks simulated values.
    """
    units = {"units": variable.units} if variable.units else {}
    name = f"{'simulated ' * simulated}{short_name(name)}"
    return {**units, "long_name": name, "comment": variable.meaning}


def catalogue_attributes(axes: Iterable[str], made: str) -> dict[str, str]:
    """Return the attributes for data catalogues (ACDD 1.3); `made` describes the origin of the figures."""
    varied = " × ".join(axis for axis in axes if axis != REPETITION) or "one cell"
    return {
        "Conventions": "CF-1.11, ACDD-1.3",
        "summary": f"Throughput {made}, over {varied}: of each cell an interval, what bound it and flags. The group "
        f"samples has time series, {TRANSFERS_GROUP} single transfers, as far as they are known.",
        "keywords": "XRootD, HTTP-TPC, third-party copy, throughput, data transfer, TCP, WLCG",
    }


def measurement_units() -> str:
    """Return the units of a dataset's attributes `measurement_…`, because attributes have no units."""
    kinds = {name: quantity(name, Measurement) for name in Measurement.model_fields}
    return ", ".join(f"{name} in {kind.dimension.base or '1'}" for name, kind in kinds.items() if kind)


def data_origin(summary: xr.Dataset) -> str:
    """Describe the origin of the throughput: simulated, imported, or measured on a testbed and scale."""
    about = summary.attrs
    kind, testbed = about["testbed_kind"], about["testbed"]
    if kind == IMPORTED:
        return f"measured elsewhere, imported from {testbed}"
    made = f"simulated, testbed {testbed}" if kind == SIMULATED else f"measured on {testbed}"
    if about.get("scale") is None:
        return made
    lacks = f"; {about['scale_notes']}" if about.get("scale_notes") else ""
    return f"{made}, scaled {about['scale']}: bandwidth, cores, files and buffers × {about['scale']}{lacks}"
