# SPDX-License-Identifier: Apache-2.0
"""Quantities with units, such as "64 MiB", "50 ms", "2 Gbit/s" and "5 %", and their bounds in files.

Each dimension has a base unit for stored values and for numbers without a unit. A unit has one spelling. Others are
refused, because they may mean bits or bytes, 1000 or 1024: tc reads "gbps" as bytes and vendors as bits, and "KB" is
1000 or 1024 bytes.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tpcsweep.common.numbers import AXIS_DIGITS, rounded, written_out
from tpcsweep.deploying.paths import network_path
from tpcsweep.sweeps.problems import fault, quoted

Number = int | float

LARGEST = 2**63 - 1  # the largest integer that cell files and datasets can store


class UnitError(ValueError):
    """An invalid value of a dimension. The text names the value and the allowed ones."""

    def __init__(self, value: object, allowed: str) -> None:
        self.given, self.allowed = quoted(value), allowed
        super().__init__(f"given {self.given}, allowed: {allowed}")


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """A kind of quantity with its units; each instance equals only itself."""

    name: str
    base: str = ""  # the unit of stored values and of numbers without a unit; empty for plain numbers
    units: Mapping[str, Decimal] = field(default_factory=dict)
    """Size of each unit in base units, as Decimal so that "0.1 s" is exactly 100 ms."""
    display_units: tuple[str, ...] = ()  # the units that `show` uses, in ascending order
    example: str = ""
    whole: bool = False

    def describe(self, *, bare: bool = True) -> str:
        """Describe the allowed values without bounds; `bare` includes numbers without a unit."""
        if not self.units:
            return self.name
        number = f", or a number of {self.base}" if self.base else ", or a plain number"
        return f'{self.name} such as "{self.example}" ({", ".join(self.units)}){number if bare else ""}'

    def meant(self, value: object) -> str:
        """Ask for the probable meaning of a text whose unit is unknown: "4 MB or 4 MiB? "; "" without one."""
        match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
        if not match or not (given := match["unit"].casefold()) or match["unit"] in self.units:
            return ""
        spelled = {given, given.replace("bps", "bit/s"), given.replace("bps", "b/s")}  # gbps: bits or bytes
        similar = [unit for unit in self.units if unit.casefold() in spelled]
        similar = similar or [unit for unit in self.units if unit.casefold().startswith(given)]
        return f"{' or '.join(f'{match[1]} {unit}' for unit in similar)}? " if similar else ""


def _table(**units: str) -> dict[str, Decimal]:
    return {name: Decimal(size) for name, size in units.items()}


_BYTES = _table(B="1", kB="1e3", MB="1e6", GB="1e9", TB="1e12")
_BYTES |= {f"{prefix}iB": Decimal(1024**power) for power, prefix in enumerate("KMGT", start=1)}
_SECONDS = _table(ns="1e-9", us="1e-6", ms="1e-3", s="1", min="60", h="3600")
_BITS = _table(bit="1", kbit="1e3", Mbit="1e6", Gbit="1e9", Tbit="1e12")
_BITS |= {f"{prefix}ibit": Decimal(1024**power) for power, prefix in enumerate("KMGT", start=1)}
_GBIT = Decimal(10**9)

SIZE = Dimension(
    "a size",
    "B",
    _BYTES,
    display_units=("B", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB"),
    example="64 MiB",
    whole=True,
)
_MILLISECONDS = {unit: size * 1000 for unit, size in _SECONDS.items()}
# Times of a path are in ms, all other times in s.
RTT = Dimension("a time", "ms", _MILLISECONDS, display_units=("ms",), example="50 ms")
DURATION = Dimension("a time", "s", _SECONDS, display_units=("s", "min", "h"), example="10 s")
RATE = Dimension(
    "a rate",
    "Gbit/s",
    {f"{unit}/s": size / _GBIT for unit, size in _BITS.items()}
    | {f"{unit}/s": 8 * size / _GBIT for unit, size in _BYTES.items()},
    display_units=("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"),
    example="2 Gbit/s",
)
FRACTION = Dimension("a fraction", units={"%": Decimal("0.01")}, display_units=("%",), example="1 %")
COUNT = Dimension("a whole number", whole=True)
CORES = Dimension("a number of cores")
NUMBER = Dimension("a number")

_NO_LIMIT = ("inf", ".inf", "infinity", "none", "no limit", "unlimited")  # words for null elsewhere
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_TEXT = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>\S*)")


def parse(value: object, dimension: Dimension) -> Number:
    """Return a value in the dimension's base unit: an int if the dimension is whole, otherwise a float.

    Text needs a unit, because YAML returns unrecognized numbers such as 1e3 as text. Raises UnitError for a missing,
    unknown or wrong unit, a bool, and a number that is negative or not finite or, in a whole dimension, a fraction or
    larger than LARGEST.
    """
    exact = _exact(value, dimension)
    if exact is not None and exact >= 0:
        if not dimension.whole and math.isfinite(number := float(exact)):
            return number
        if dimension.whole and exact <= LARGEST and exact == exact.to_integral_value():
            return int(exact)
    raise UnitError(value, dimension.meant(value) + dimension.describe())


def _exact(value: object, dimension: Dimension) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(float(value))) if math.isfinite(value) else None
    match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    size = match and dimension.units.get(match["unit"])
    return Decimal(match["number"]) * size if match and size else None


def show(value: Number, dimension: Dimension) -> str:
    """Return a value in the unit that needs the fewest digits; `parse` reads it back to AXIS_DIGITS."""
    exact = rounded(value, AXIS_DIGITS)
    if not dimension.display_units:
        return written_out(exact)
    fitting = []
    for unit in dimension.display_units:
        number = exact / dimension.units[unit]
        text = f"{written_out(number)} {unit}"
        if number >= 1 and _exact(text, dimension) == exact:
            fitting.append(text)
    # A decimal point counts double: 1280 B rather than 1.25 KiB. If equal, the larger unit wins; it comes later.
    if fitting:
        return min(reversed(fitting), key=lambda text: len(text.split()[0].replace(".", "..")))
    unit = dimension.base or dimension.display_units[0]
    return f"{written_out(exact / dimension.units[unit])} {unit}"


def canonical(value: Number) -> str:
    """Return the unique text of a number in file names: "50" for 50 and 50.0, otherwise the shortest repr."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


@dataclass(frozen=True, slots=True)
class Quantity:
    """Annotation of a pydantic field: a dimension with bounds in base units. Errors list all allowed values."""

    dimension: Dimension
    at_least: Number = 0
    at_most: Number | None = None
    why: str = ""  # the reason for the bounds; if it has two parts, the first is for the lower bound
    null: str = ""  # the meaning of null; empty if null is refused

    def allowed(self, *, bare: bool = True) -> str:
        """Describe the allowed values with bounds and reason; see `Dimension.describe` for `bare`."""
        parts = [self.dimension.describe(bare=bare)]
        if self.at_most is not None:
            parts += [
                f"at {end} {show(bound, self.dimension) if bound else 0}"
                for end, bound in (("least", self.at_least), ("most", self.at_most))
            ]
        parts += [f"or null for {self.null}"] if self.null else []
        return ", ".join(parts) + (f" ({self.why})" if self.why else "")

    def read(self, value: object) -> Number | None:
        """Return the value in base units. Raises PydanticCustomError with the allowed values."""
        if value is None and self.null:
            return None
        try:
            number = parse(value, self.dimension)
        except UnitError:
            raise fault(self.meant(value) + self.allowed()) from None
        if not self._fits(number):
            raise fault(self.meant(value) + self.allowed())
        return number

    def _fits(self, number: Number) -> bool:
        return self.at_least <= number and (self.at_most is None or number <= self.at_most)

    def meant(self, value: object) -> str:
        """Ask for the probable meaning of a refused value, such as "5 %? 5 means 500 %. "; "" without one."""
        if self.null and str(value).casefold() in {*_NO_LIMIT, self.null}:
            return "null? "
        if (
            self.dimension is FRACTION
            and isinstance(value, int | float)
            and value >= 2
            and self._fits(value / 100)
        ):
            return f"{canonical(value)} %? {canonical(value)} means {canonical(100 * value)} %. "
        return self.dimension.meant(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        number: dict[str, Any] = {"type": "integer" if self.dimension.whole else "number"}
        number["minimum"] = self.at_least
        number |= {} if self.at_most is None else {"maximum": self.at_most}
        choices = [number | ({"$comment": self.why} if self.why else {})]
        if units := "|".join(self.dimension.units):
            text = {"type": "string", "pattern": rf"^\s*{_NUMBER}\s*({units})\s*$"}
            choices.append(text | {"examples": [self.dimension.example]})
        if self.null:
            choices.append({"type": "null"})
        return choices[0] if len(choices) == 1 else {"anyOf": choices}


# These bounds refuse values that are meaningless on every testbed, such as from a wrong unit. Each kind of testbed has
# stricter ones in `checks`.
_HOUR = 3600.0

# Parameters of a cell.
ORIGINS = Quantity(COUNT, 1, 1024, "16 servers on each of 64 hosts")
QUOTA = Quantity(CORES, 0.001, 100_000, "a millisecond in each second; more than 64 hosts have")
ROUND_TRIP = Quantity(RTT, 0, network_path.LONGEST_RTT, "by a geostationary satellite it is 600 ms")
BANDWIDTH = Quantity(
    *(RATE, network_path.SMALLEST_BANDWIDTH, 10_000),
    why="below, a packet takes longer than most paths are; above, no interface comes near",
)
LOSS = Quantity(FRACTION, 0, network_path.LARGEST_LOSS, "with more loss, a path looks like one that is down")
QUEUE_LIMIT = Quantity(COUNT, 1, network_path.MOST_PACKETS, "the largest limit of netem")
MTU = Quantity(SIZE, 1280, network_path.LARGEST_MTU, "the least of IPv6; the most of a virtual link")
TCP_BUFFER = Quantity(SIZE, 4096, 2**31 - 1, "a page; the largest net.ipv4.tcp_rmem")
TCP_STREAMS = Quantity(COUNT, 1, 100, "XRootD's limit")
FILE_SIZE = Quantity(SIZE, 1, 2**44, "the largest file of ext4")
STREAMS = Quantity(COUNT, 1, 10_000, "each is a process on the machine of the servers")

# Measurement and number of cells.
INTERVAL = Quantity(DURATION, 0.001, _HOUR, "a look at all counters takes milliseconds")
TIME = Quantity(DURATION, 0.01, 720 * _HOUR, "a few samples; a month")
FILES = Quantity(COUNT, 1, 10**6, "each is listed in the cell's file")
PRECISION = Quantity(FRACTION, 1e-5, 1, "repetitions differ by more; as wide as the mean")
CONFIDENCE = Quantity(FRACTION, 0.5, 0.9999, "a few dozen samples support no more")
CELLS = Quantity(COUNT, 1, 10**6, "each is a file, and takes seconds")
SEED = Quantity(COUNT, 0, 2**32 - 1, "the seeds of random generators")
SHARE = Quantity(FRACTION, 0, 1, "none to all")

# Testbeds.
PARALLEL = Quantity(COUNT, 1, 1000, "each is a job on the machine that runs Snakemake")
CPUS = Quantity(COUNT, 1, 8192, "the most that Linux is built for")
EMULATED = Quantity(
    RATE, network_path.SMALLEST_BANDWIDTH, network_path.LARGEST, "the most that a path is emulated with"
)
MEMORY = Quantity(SIZE, 2**20, 2**60, "a small file; sizes of 64 bits")
FIRST_PORT = Quantity(
    *(COUNT, 1024, 32_763),
    why="pods are not root; from 32768 on are the ports of connections that a node opens itself",
)
START_TIME = Quantity(DURATION, 1, 24 * _HOUR, "pods start within seconds; after a day something is wrong")
ORPHAN_TIME = Quantity(DURATION, 10, 24 * _HOUR, "a slow API; longer blocks a cluster's nodes")
SETTLE = Quantity(DURATION, 0, _HOUR, "a kernel uses most settings within seconds")
TIME_LIMIT = Quantity(
    DURATION, 300, 720 * _HOUR, "a deployment comes up and measures a cell; no cluster's limit"
)
DRAWS = Quantity(COUNT, 20, 10_000, "an interval; minutes of computing")

# Questions for fitted models.
TARGET = Quantity(RATE, network_path.SMALLEST_BANDWIDTH, 10_000, "that of a path")
PROBABILITY = Quantity(FRACTION, 0.01, 0.99, "a few hundred cells do not show further tails")
GAIN = Quantity(FRACTION, 0, 10, "no loss; eleven times as fast")
RATIO = Quantity(FRACTION, 0.01, 1, "a hundredth of base; base itself")
