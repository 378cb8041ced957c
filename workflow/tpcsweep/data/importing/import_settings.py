# SPDX-License-Identifier: Apache-2.0
"""Settings of imported tables of measurements: the files config/imports/*.yaml."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from tpcsweep.data.variables import DIMENSIONS, ORIGIN_SAMPLES, OTHER_VARIABLES, SAMPLES, SUMMARY, TRANSFERS
from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import AnyText, Parameters, Strict, Text, Value, quantity
from tpcsweep.sweeps.problems import Fault
from tpcsweep.sweeps.units import CORES, DURATION, FRACTION, RATE, RTT, SIZE, Dimension, UnitError, parse

_DIMENSIONS = {"Gbit/s": RATE, "s": DURATION, "ms": RTT, "cores": CORES, "1": FRACTION, "B": SIZE}
"""The dimension of a variable, by its unit in the dataset."""
TAKEN = {*SUMMARY, *SAMPLES, *ORIGIN_SAMPLES, *TRANSFERS, *OTHER_VARIABLES, *DIMENSIONS}
"""Names of the dataset's variables and dimensions; axes of an import need other names."""
_BOUNDS = ("throughput_low", "throughput_high")


class Column(Strict):
    """A column of numbers."""

    column: Text = Field(description="name of the column")
    unit: AnyText = Field(default="", description="unit of the numbers")


class Axis(Column):
    """A column that becomes an axis."""

    group: Text | tuple[Text, ...] = ()
    """largest distance between values that are merged into their median: a share, a difference, or both"""

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.group,) if isinstance(self.group, str) else self.group


class Import(Strict):
    """A table of measurements from another source, with one measurement per row."""

    description: AnyText = ""
    """description of the data"""
    citation: AnyText = ""
    """how to cite the authors of the data"""
    file: Text | None = None
    """CSV or Parquet file; null: named on the command line"""
    where: Text | None = None
    """condition on columns for imported rows, such as state == 'DONE' and streams <= 64; null: all"""
    axes: dict[str, Axis] = Field(default_factory=dict)
    """columns that become axes"""
    variables: dict[str, Column]
    """columns that become variables; throughput is required"""
    fixed: dict[str, str | int | float] = Field(default_factory=dict)
    """parameters with the same value in all rows"""
    separator: Annotated[Text, Field(max_length=1)] = ","
    """character between the columns of a CSV file, such as ; or a tab"""
    decimal: Literal[".", ","] = "."
    """decimal mark of the numbers of a CSV file"""
    encoding: Text = "utf-8"
    """encoding of a CSV file, such as utf-16 or cp1252"""
    confidence: Annotated[float | None, replace(units.CONFIDENCE, null="no interval")] = None
    """confidence level of throughput_low and throughput_high"""

    def tolerance(self, axis: str) -> tuple[float, float]:
        """Return the distances within which values of an axis are merged: as a share, and in base units."""
        dimension = axis_dimension(axis)
        share = distance = 0.0
        for text in self.axes[axis].groups:
            if text.endswith("%"):
                share = float(parse(text, FRACTION))
            elif dimension is not None:
                distance = float(parse(text, dimension))
        return share, distance

    def fixed_values(self) -> dict[str, Value]:
        """Return the fixed parameters in base units: those of `Parameters` in their order, then others."""
        order = {name: place for place, name in enumerate(Parameters.model_fields)}
        names = sorted(self.fixed, key=lambda name: order.get(name, len(order)))
        return {name: _fixed(name, self.fixed[name]) for name in names}

    def _faults(self) -> Iterator[Fault]:
        for name, axis in self.axes.items():
            yield from _name_faults("axes", name)
            yield from _unit_faults(("axes", name, "unit"), axis, axis_dimension(name))
            yield from _group_faults(name, axis.groups)
        for name, column in self.variables.items():
            if name not in SUMMARY:
                yield ("variables", name), "an unknown variable", f"one of {', '.join(SUMMARY)}"
            else:
                yield from _unit_faults(("variables", name, "unit"), column, variable_dimension(name))
        if "throughput" not in self.variables:
            yield ("variables", "throughput"), "nothing", "this key is needed"
        bounds = [name in self.variables for name in _BOUNDS]
        if any(bounds) and not all(bounds):
            yield ("variables",), f"one of {' and '.join(_BOUNDS)}", "both or none of them"
        if all(bounds) and self.confidence is None:
            yield ("confidence",), "nothing", f"this key is needed with {' and '.join(_BOUNDS)}"
        for name, value in self.fixed.items():
            yield from _name_faults("fixed", name)
            if name in self.axes:
                yield ("fixed", name), "a parameter that is an axis", "axes or fixed, not both"
            try:
                _fixed(name, value)
            except UnitError as error:
                yield ("fixed", name), repr(value), error.allowed


def axis_dimension(name: str) -> Dimension | None:
    """Return the dimension of an axis, or None for text parameters and for other names."""
    known = quantity(name)
    return known.dimension if known else None


def variable_dimension(name: str) -> Dimension:
    return _DIMENSIONS[SUMMARY[name].units]


def _fixed(name: str, value: str | float) -> Value:
    """Return a fixed value in base units, without checking bounds: imported data may exceed the bounds of testbeds."""
    dimension = axis_dimension(name)
    if dimension is not None:
        return parse(value, dimension)
    return str(value) if name in Parameters.model_fields else value


def _name_faults(key: str, name: str) -> Iterator[Fault]:
    if name in TAKEN or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        own = "a name of your own in lower case that is no variable of the dataset"
        yield (key, name), repr(name), f"one of {', '.join(Parameters.model_fields)}, or {own}"


def _unit_faults(place: tuple[str, ...], column: Column, dimension: Dimension | None) -> Iterator[Fault]:
    known, unit = list(dimension.units) if dimension else [], column.unit
    needed = dimension is not None and dimension.base in known
    if (unit and not (dimension and unit in dimension.units)) or (not unit and needed):
        allowed = known if needed else ["none", *known]
        yield place, repr(unit) if unit else "nothing", f"one of {', '.join(allowed)}"


def _group_faults(name: str, group: tuple[str, ...]) -> Iterator[Fault]:
    dimension = axis_dimension(name)
    place = ("axes", name, "group")
    shares = [text for text in group if text.endswith("%")]
    if group and dimension is None:
        yield place, repr(group[0]), "none: only parameters that are numbers can be grouped"
        return
    if len(shares) > 1 or len(group) - len(shares) > 1:
        yield place, ", ".join(map(repr, group)), "one share, one distance, or one of each"
    for text in group:
        try:
            parse(text, FRACTION if text in shares else dimension or FRACTION)
        except UnitError as error:
            yield place, repr(text), f'a share such as "5 %", or {error.allowed}'
