# SPDX-License-Identifier: Apache-2.0
"""Quantities with units, and numbers as people read them."""

import math
import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import xarray as xr
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError
from tpcsweep.common.numbers import between, interval_ends, plain, short
from tpcsweep.sweeps import units
from tpcsweep.sweeps.problems import quoted
from tpcsweep.sweeps.units import Dimension, Quantity, UnitError, canonical, parse, show

from tests.support.commands import tpcsweep
from tests.support.histories import times
from tests.support.workflow import ROOT


def table(text: str) -> list[tuple[Any, Dimension, Any]]:
    """The entries of a table, each with the dimension whose name in `units` its line begins with."""
    content = yaml.safe_load(text).items()
    return [(key, getattr(units, name), entry) for name, entries in content for key, entry in entries.items()]


READ = """
SIZE: {64 MiB: 67108864, 64MiB: 67108864, 1.5 KiB: 1536, 1 TiB: 1099511627776, 9000: 9000}
RTT: {50 ms: 50.0, 100 us: 0.1, 0.1 s: 100.0, 50: 50.0}
DURATION: {2 min: 120.0, 1 h: 3600.0}
RATE: {2 Gbit/s: 2.0, 300 Mbit/s: 0.3, 125 MB/s: 1.0, 1 MiB/s: 0.008388608, 0.5: 0.5,
  1.5Tbit/s: 1500.0, 1 Gibit/s: 1.073741824, 1 GB/s: 8.0, 1 GiB/s: 8.589934592}
FRACTION: {1 %: 0.01, 0.01: 0.01}
COUNT: {4: 4}
CORES: {0.5: 0.5}
"""


@pytest.mark.parametrize(("text", "dimension", "value"), table(READ))
def test_values_are_read_in_base_units(text: object, dimension: Dimension, value: float) -> None:
    found = parse(text, dimension)
    assert found == value
    assert isinstance(found, int if dimension.whole else float)


REFUSED: list[tuple[Dimension, list[object]]] = [
    (units.RTT, ["50 Mbit/s", "1e3", "50", "", "ms", "-5 ms", "1" * 400 + " ms"]),
    (units.RTT, [math.nan, math.inf, None, [5], 10**400]),
    (units.SIZE, ["50 ms", "64 mib", "64 Mib", "64 Mb", "2 Gbit", "0.5 B", "9999999999 TiB"]),
    # One spelling: bps is bits to vendors and bytes to tc.
    (units.RATE, ["2 mb/s", "2 Gbps", "2 gbps", "2 bps", "2 Gb/s", "2 gbit", "2 GBps", "2 GB"]),
    (units.SIZE, ["2 KB", "2 M"]),  # 1000 or 1024
    (units.RATE, ["2 KB/s", "2 Kbps"]),
    (units.DURATION, ["2 m", "5 Ms"]),  # minutes or metres, milli or mega
    (units.COUNT, [True, 1.5, "4"]),
    (units.CORES, ["2 cores"]),
]


@pytest.mark.parametrize(("given_", "dimension"), [(one, known) for known, many in REFUSED for one in many])
def test_what_is_no_quantity_is_refused(given_: object, dimension: Dimension) -> None:
    with pytest.raises(UnitError) as error:
        parse(given_, dimension)
    assert quoted(given_) in str(error.value) and dimension.describe() in str(error.value)


SHOWN = """
SIZE: {4194304: 4 MiB, 64000000: 64 MB, 9000: 9000 B, 1280: 1280 B, 0: 0 B}
RTT: {0.05: 0.05 ms, 50.0: 50 ms, 0.0: 0 ms}
DURATION: {600.0: 10 min, 0.1: 0.1 s}
RATE: {0.3: 300 Mbit/s, 400.0: 400 Gbit/s}
FRACTION: {0.05: 5 %, 0.0001: 0.01 %}
COUNT: {4: "4"}
CORES: {0.5: "0.5"}
"""


@pytest.mark.parametrize(("value", "dimension", "text"), table(SHOWN))
def test_values_are_shown_for_people(value: float, dimension: Dimension, text: str) -> None:
    assert show(value, dimension) == text


SHOWN_IN_UNITS = [units.SIZE, units.RTT, units.DURATION, units.RATE, units.FRACTION]


@pytest.mark.parametrize("dimension", SHOWN_IN_UNITS, ids=lambda dimension: dimension.example)
@given(data=st.data())
def test_what_is_shown_is_read_back(dimension: Dimension, data: st.DataObject) -> None:
    value = data.draw(st.integers(0, units.LARGEST) if dimension.whole else st.floats(0, 1e15))
    exact = pytest.approx(value, rel=0 if dimension.whole else 5.1e-6, abs=0)
    assert parse(show(value, dimension), dimension) == exact


@given(st.sampled_from([*units.RATE.units]), st.integers(1, 10**6))
def test_bits_and_bytes_are_never_mistaken_for_each_other(unit: str, number: int) -> None:
    # What the letters say: a big B is a byte; "bit", or a small b behind a prefix in its own case, is a bit.
    size = parse(f"{number} {unit}", units.RATE) * 1e9 / number
    bits = size / 8 if "B" in unit else size
    base = 1024 if "i" in unit.replace("bit", "") else 1000
    assert math.log(bits, base) == pytest.approx(round(math.log(bits, base)), abs=1e-9)
    assert ("B" in unit) != ("b" in unit)


@given(st.floats(0, 1e300), st.floats(0, 1e300))
def test_canonical_text_is_exact_and_safe_in_a_file_name(one: float, other: float) -> None:
    assert float(canonical(one)) == one
    assert (canonical(one) == canonical(other)) == (one == other)
    assert set(canonical(one)) <= set("0123456789.e+-")
    assert [canonical(value) for value in (50.0, 50, 0.5, 0.0)] == ["50", "50", "0.5", "0"]


TEXTS = ["64 MiB", "64MiB", "64 us", "2 Gbps", "64 Mib", "-1 B", "1e3", 64, -1, True, None]
BOUNDED = Quantity(units.SIZE, 1280, 4096), [1279, 1280, 4096, 4097]


@pytest.mark.parametrize(
    ("kind", "values"), [(Quantity(units.SIZE), TEXTS), (Quantity(units.RTT), TEXTS), BOUNDED]
)
def test_the_schema_of_a_quantity_agrees_with_its_validator(kind: Quantity, values: list[Any]) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[float, kind])
    schema = Draft202012Validator(adapter.json_schema())
    for value in values:
        with nullcontext() if schema.is_valid(value) else pytest.raises(ValidationError):
            adapter.validate_python(value)


@pytest.mark.parametrize(
    ("value", "shown", "exact"),
    [
        (0.1 + 0.2, "0.3", "0.3"),
        (2226.4, "2226", "2226.4"),
        (0.98765, "0.988", "0.98765"),
        (999.9, "1000", "999.9"),
        (50.0, "50", "50"),
        (1_234_567, "1234567", "1234567"),
        (np.int64(10**12), "1000000000000", "1000000000000"),
        (np.float32(0.1), "0.1", "0.1"),
        (-0.0, "0", "0"),
        (1e-5, "0.00001", "0.00001"),
        (1.234e-9, "1.23×10⁻⁹", "1.234×10⁻⁹"),
        (-3.2e12, "-3.2×10¹²", "-3.2×10¹²"),
        (math.inf, "∞", "∞"),
        (-math.inf, "-∞", "-∞"),
        (math.nan, "–", "–"),
    ],
)
def test_numbers_are_as_people_read_them(value: float, shown: str, exact: str) -> None:
    assert (short(value), plain(value)) == (shown, exact)
    assert between(value, value) == shown


@given(st.floats(1e-3, 1e4), st.floats(1e-4, 0.9))
def test_ends_of_an_interval_have_digits_by_its_width(middle: float, share: float) -> None:
    low, high = middle * (1 - share), middle * (1 + share)
    ends = [float(text) for text in interval_ends(low, high)]
    assert ends == pytest.approx([low, high], abs=0.15 * middle * share)
    assert ends[0] < ends[1]
    digits = max(len(text.replace(".", "").strip("0")) for text in interval_ends(low, high))
    assert digits <= max(2, -np.log10(share) + 3, np.log10(high) + 1)


@given(st.floats(1e-3, 1e4), st.integers(1, 20))
def test_ends_that_differ_by_rounding_errors_alone_are_one_number(value: float, steps: int) -> None:
    assert between(value, value * (1 + steps * 2.0**-52)) == short(value)


@given(st.floats(-1e300, 1e300), st.integers(1, 9))
def test_no_number_is_far_from_its_text(value: float, digits: int) -> None:
    text = short(value, digits)
    assert "e" not in text and len(text.strip("-")) <= digits + 14
    read = float(text.replace("×10", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    assert math.isclose(read, value, rel_tol=0.51 * 10.0 ** (1 - digits), abs_tol=1e-310)


def test_answers_on_the_terminal_have_no_exponents_and_no_rounding_errors(tmp_path: Path) -> None:
    file = tmp_path / "dataset.nc"
    shutil.copy(ROOT / "examples/surface.nc", file)
    summary = times(xr.load_dataset(file), 3000.3)
    summary.assign_coords(bandwidth=3000.3, rtt=summary.rtt + 0.1 * 3).to_netcdf(file, mode="a")
    done = tpcsweep("compare", f"{file}:cores=0.1", f"{file}:cores=0.4")
    assert re.search(r"\d", done.output)
    assert not re.findall(r".*(?:\d\.\d{7}|\de[+-]?\d).*", done.output)
