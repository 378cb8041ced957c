# SPDX-License-Identifier: Apache-2.0
"""Quantities with units: "64 MiB", "50 ms", "2 Gbit/s", "5 %".

Every dimension has one base unit, in which values are kept and bare numbers are read. Units are written as
the field writes them, in any spelling that means one thing: "Gbps", "Gb/s" and "gbit" are Gbit/s, and "GBps" is GB/s.
What could be bits or bytes, 1000 or 1024, is refused and never guessed: tc reads "gbps" as bytes and vendors as bits,
"Mb" is no size, and "KB" is 1000 bytes to some and 1024 to others.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tpcsweep.configuration.problems import fault, quoted

Number = int | float

LARGEST = 2**63 - 1
"""The largest whole number: what files of cells and datasets can hold."""
_LONGEST = 1000
"""Characters of the longest text that is read as a number; the longest that means anything has some 350."""


class UnitError(ValueError):
    """A value that is no quantity of the dimension; its text says what was given and what is allowed."""

    def __init__(self, value: object, allowed: str) -> None:
        self.given, self.allowed = quoted(value), allowed
        super().__init__(f"given {self.given}, allowed: {allowed}")


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """A kind of quantity and the units that it is written in; each is equal to itself alone."""

    name: str
    base: str
    """The unit of bare numbers and of kept values; empty for plain numbers."""
    units: dict[str, Decimal]
    """Size of each unit in base units. Decimal, so that "0.1 s" is exactly 100 ms."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Other ways to write a unit, each with the unit that it means."""
    also: str = ""
    """The spellings, for people: not one by one where there are many."""
    shown: tuple[str, ...] = ()
    """The units that `show` picks from, smallest first."""
    example: str = ""
    whole: bool = False

    def describe(self) -> str:
        """Say what may be written, without bounds."""
        if not self.units:
            return self.name
        number = f"a number of {self.base}" if self.base else "a plain number"
        also = f"; also {self.also}" if self.also else ""
        return f'{self.name} such as "{self.example}" ({", ".join(self.units)}{also}), or {number}'

    def size(self, unit: str) -> Decimal | None:
        """Give the size of a unit in base units, however it is spelled; None of what is no unit of the dimension."""
        return self.units.get(self.spellings.get(unit, unit))


def _table(**units: str) -> dict[str, Decimal]:
    return {name: Decimal(size) for name, size in units.items()}


_BYTES = _table(B="1", kB="1e3", MB="1e6", GB="1e9", TB="1e12")
_BYTES |= {f"{prefix}iB": Decimal(1024**power) for power, prefix in enumerate("KMGT", start=1)}
_SECONDS = _table(ns="1e-9", us="1e-6", ms="1e-3", s="1", min="60", h="3600")
_BITS = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}
_BITS |= {f"{prefix}ibit": 1024**power for power, prefix in enumerate("KMGT", start=1)}


def _spellings_of_rates() -> Iterator[tuple[str, str]]:
    """Other spellings of rates, each with the unit that it means."""
    for unit in _BITS:
        # With "bit" in full the case of its prefix says nothing: tc writes "mbit", and nobody means a thousandth.
        for text in (unit, unit.lower()):
            yield text, f"{unit}/s"
            if f"{text}/s" != f"{unit}/s":
                yield f"{text}/s", f"{unit}/s"
    # "b" and "B" are told apart by case alone, so the prefix has to have its own too: who writes "gb/s" heeds none.
    for prefix in "kMGT":
        yield f"{prefix}b/s", f"{prefix}bit/s"
        yield f"{prefix}bps", f"{prefix}bit/s"
    for unit in _BYTES:
        if unit != "B":  # "Bps" is one slip away from "bps", which is bytes to tc and bits to others
            yield f"{unit}ps", f"{unit}/s"


_SPELLINGS_OF_TIMES = {"µs": "us", "μs": "us", "usec": "us", "msec": "ms", "sec": "s"}
"""The micro sign (U+00B5) and the Greek letter (U+03BC) look alike, and keyboards have either."""

SIZE = Dimension(
    "a size",
    "B",
    _BYTES,
    shown=("B", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB"),
    example="64 MiB",
    whole=True,
    spellings={"byte": "B", "bytes": "B"},
    also="bytes",
)
RTT = Dimension(
    "a time",
    "ms",
    {unit: size * 1000 for unit, size in _SECONDS.items()},
    shown=("ms",),
    example="50 ms",
    spellings=_SPELLINGS_OF_TIMES,
    also="µs, usec, msec, sec",
)
DURATION = Dimension(
    "a time",
    "s",
    _SECONDS,
    shown=("s", "min", "h"),
    example="10 s",
    spellings=_SPELLINGS_OF_TIMES,
    also="µs, usec, msec, sec",
)
RATE = Dimension(
    "a rate",
    "Gbit/s",
    {f"{unit}/s": Decimal(size) / 10**9 for unit, size in _BITS.items()}
    | {f"{unit}/s": 8 * size / 10**9 for unit, size in _BYTES.items()},
    shown=("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"),
    example="2 Gbit/s",
    spellings=dict(_spellings_of_rates()),
    also="Gbps, Gb/s and gbit for Gbit/s, GBps for GB/s, and so on",
)
FRACTION = Dimension("a fraction", "", {"%": Decimal("0.01")}, shown=("%",), example="1 %")
COUNT = Dimension("a whole number", "", {}, whole=True)
CORES = Dimension("a number of cores", "", {})
NUMBER = Dimension("a number", "", {})

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_TEXT = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>\S*)")


def parse(value: object, dimension: Dimension) -> Number:
    """Give a value in the dimension's base unit: an int where the dimension is whole, else a float.

    Text needs a unit: YAML hands over numbers that it did not recognize, such as 1e3, as text.

    Raises:
        UnitError: for a unit that is unknown or of another dimension, no unit, a bool, what is not finite, a
            negative value, a part of a byte, or more than LARGEST of what is whole.
    """
    exact = _exact(value, dimension)
    if exact is not None and exact >= 0:
        if not dimension.whole:
            number = float(exact)
            if math.isfinite(number):
                return number
        elif exact <= LARGEST and exact == exact.to_integral_value():
            return int(exact)
    raise UnitError(value, dimension.describe())


def _exact(value: object, dimension: Dimension) -> Decimal | None:
    """The value in base units, or None when it cannot be read."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(float(value))) if math.isfinite(value) else None
    match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= _LONGEST else None
    size = match and dimension.size(match["unit"])
    return Decimal(match["number"]) * size if match and size else None


def show(value: Number, dimension: Dimension) -> str:
    """Give a value for people, in the unit that takes the fewest digits; `parse` gives back the same value."""
    exact = Decimal(repr(value))
    if not dimension.shown:
        return _plain(exact)
    fitting = []
    for unit in dimension.shown:
        number = exact / dimension.units[unit]
        text = f"{_plain(number)} {unit}"
        if number >= 1 and _exact(text, dimension) == exact:
            fitting.append(text)
    # A point weighs double: 1280 B rather than 1.25 KiB. Of equals the larger unit, which comes later.
    if fitting:
        return min(reversed(fitting), key=lambda text: len(text.split()[0].replace(".", "..")))
    unit = dimension.base or dimension.shown[0]
    return f"{_plain(exact / dimension.units[unit])} {unit}"


def canonical(value: Number) -> str:
    """Give the one text of a number in file names: 50 and 50.0 are both "50", other floats their shortest form."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"


_BOUNDS: dict[str, tuple[str, Callable[[Number, Number], bool]]] = {
    "at_least": ("minimum", operator.ge),
    "above": ("exclusiveMinimum", operator.gt),
    "at_most": ("maximum", operator.le),
    "below": ("exclusiveMaximum", operator.lt),
}
"""Of each bound of a quantity the keyword of JSON schemas, and what a value must satisfy."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """The annotation of a pydantic field that holds a quantity: its dimension and bounds in base units.

    One validator says all that is allowed, so that every error of the field reads the same.
    """

    dimension: Dimension
    at_least: Number | None = None
    above: Number | None = None
    at_most: Number | None = None
    below: Number | None = None
    null: str = ""
    """What null means; empty where null is refused."""
    why: str = ""
    """Why it is bounded so."""

    def _bounds(self) -> dict[str, Number]:
        return {name: bound for name in _BOUNDS if (bound := getattr(self, name)) is not None}

    def allowed(self) -> str:
        """Say what may be written in the field, with its bounds and their reason."""
        shown = [
            f"{name.replace('_', ' ')} {show(bound, self.dimension) if bound else 0}"
            for name, bound in self._bounds().items()
        ]
        null = [f"or null for {self.null}"] if self.null else []
        allowed = ", ".join([self.dimension.describe(), *shown, *null])
        return f"{allowed} ({self.why})" if self.why else allowed

    def read(self, value: object) -> Number | None:
        """Give the value in base units; raises PydanticCustomError with what is allowed."""
        if value is None and self.null:
            return None
        try:
            number = parse(value, self.dimension)
        except UnitError:
            raise fault(self.allowed()) from None
        if all(_BOUNDS[name][1](number, bound) for name, bound in self._bounds().items()):
            return number
        raise fault(self.allowed())

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        bounds = self._bounds()
        if "at_least" not in bounds and "above" not in bounds:
            bounds = {"at_least": 0, **bounds}
        number: dict[str, Any] = {"type": "integer" if self.dimension.whole else "number"}
        number |= {_BOUNDS[name][0]: bound for name, bound in bounds.items()}
        choices = [number | ({"$comment": self.why} if self.why else {})]
        if units := "|".join([*self.dimension.units, *self.dimension.spellings]):
            text = {"type": "string", "pattern": rf"^\s*{_NUMBER}\s*({units})\s*$"}
            choices.append(text | {"examples": [self.dimension.example]})
        if self.null:
            choices.append({"type": "null"})
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
