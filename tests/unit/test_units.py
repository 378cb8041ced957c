# SPDX-License-Identifier: Apache-2.0
"""Quantities with units."""

from __future__ import annotations

import math
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError
from tpcsweep.configuration.problems import quoted
from tpcsweep.configuration.units import (
    CORES,
    COUNT,
    DURATION,
    FRACTION,
    LARGEST,
    RATE,
    RTT,
    SIZE,
    Dimension,
    Quantity,
    UnitError,
    canonical,
    parse,
    show,
)

DIMENSIONS = [SIZE, RTT, DURATION, RATE, FRACTION, COUNT, CORES]


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("64 MiB", SIZE, 64 * 2**20),
        ("64MiB", SIZE, 64 * 2**20),
        ("1.5 KiB", SIZE, 1536),
        ("1 TiB", SIZE, 2**40),
        (9000, SIZE, 9000),
        ("50 ms", RTT, 50.0),
        ("100 us", RTT, 0.1),
        ("0.1 s", RTT, 100.0),
        (50, RTT, 50.0),
        ("2 min", DURATION, 120.0),
        ("1 h", DURATION, 3600.0),
        ("2 Gbit/s", RATE, 2.0),
        ("300 Mbit/s", RATE, 0.3),
        ("125 MB/s", RATE, 1.0),
        ("1 MiB/s", RATE, 0.008388608),
        (0.5, RATE, 0.5),
        ("100 Gbps", RATE, 100.0),
        ("1 gbit", RATE, 1.0),
        ("1 gbit/s", RATE, 1.0),
        ("1.5Tbps", RATE, 1500.0),
        ("300 mbit", RATE, 0.3),
        ("1 gibit", RATE, 1.073741824),
        ("1 GB/s", RATE, 8.0),
        ("1 GBps", RATE, 8.0),
        ("1 GiB/s", RATE, 8.589934592),
        ("100 µs", RTT, 0.1),
        ("100 μs", RTT, 0.1),
        ("100usec", RTT, 0.1),
        ("3 sec", DURATION, 3.0),
        ("9000 bytes", SIZE, 9000),
        ("1 %", FRACTION, 0.01),
        (0.01, FRACTION, 0.01),
        (4, COUNT, 4),
        (0.5, CORES, 0.5),
    ],
)
def test_values_are_read_in_base_units(text: object, dimension: Dimension, value: float) -> None:
    found = parse(text, dimension)
    assert found == value
    assert isinstance(found, int if dimension.whole else float)


@pytest.mark.parametrize(
    ("given_", "dimension"),
    [
        ("50 Mbit/s", RTT),
        ("50 ms", SIZE),
        ("64 mib", SIZE),
        ("64 Mib", SIZE),
        ("64 Mb", SIZE),
        ("2 mb/s", RATE),
        # Bits to vendors, bytes to tc; and letters that heed no case.
        ("2 gbps", RATE),
        ("2 bps", RATE),
        ("2 Bps", RATE),
        ("2 gb/s", RATE),
        ("2 GB", RATE),
        ("2 Gbit", SIZE),
        # 1000 or 1024.
        ("2 KB", SIZE),
        ("2 KB/s", RATE),
        ("2 Kbps", RATE),
        ("2 M", SIZE),
        # Minutes or metres, milli or mega.
        ("2 m", DURATION),
        ("5 Ms", DURATION),
        ("1e3", RTT),
        ("50", RTT),
        ("", RTT),
        ("ms", RTT),
        ("-5 ms", RTT),
        (True, COUNT),
        (math.nan, RTT),
        (math.inf, RTT),
        (None, RTT),
        ([5], RTT),
        ("0.5 B", SIZE),
        (1.5, COUNT),
        ("4", COUNT),
        ("2 cores", CORES),
        ("1" * 400 + " ms", RTT),
        (10**400, RTT),
        ("9999999999 TiB", SIZE),
    ],
)
def test_what_is_no_quantity_is_refused(given_: object, dimension: Dimension) -> None:
    with pytest.raises(UnitError) as error:
        parse(given_, dimension)
    assert quoted(given_) in str(error.value)
    assert dimension.describe() in str(error.value)


def test_an_error_lists_the_units() -> None:
    with pytest.raises(
        UnitError, match=r'such as "64 MiB" \(B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; also bytes\)'
    ):
        parse("64 Mib", SIZE)


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (4194304, SIZE, "4 MiB"),
        (64_000_000, SIZE, "64 MB"),
        (9000, SIZE, "9000 B"),
        (1280, SIZE, "1280 B"),
        (0, SIZE, "0 B"),
        (0.05, RTT, "0.05 ms"),
        (50.0, RTT, "50 ms"),
        (0.0, RTT, "0 ms"),
        (600.0, DURATION, "10 min"),
        (0.1, DURATION, "0.1 s"),
        (0.3, RATE, "300 Mbit/s"),
        (400.0, RATE, "400 Gbit/s"),
        (0.05, FRACTION, "5 %"),
        (0.0001, FRACTION, "0.01 %"),
        (4, COUNT, "4"),
        (0.5, CORES, "0.5"),
    ],
)
def test_values_are_shown_for_people(value: float, dimension: Dimension, text: str) -> None:
    assert show(value, dimension) == text


@pytest.mark.parametrize("dimension", [SIZE, RTT, DURATION, RATE, FRACTION], ids=lambda d: d.example)
@given(data=st.data())
def test_what_is_shown_is_read_back(dimension: Dimension, data: st.DataObject) -> None:
    values = st.integers(0, LARGEST) if dimension.whole else st.floats(0, 1e15)
    value = data.draw(values)
    assert parse(show(value, dimension), dimension) == value


SPELLED = [(d, text, unit) for d in (SIZE, RTT, DURATION, RATE) for text, unit in d.spellings.items()]


@given(st.integers(0, 10**6), st.sampled_from(SPELLED))
def test_a_spelling_means_its_unit(number: int, spelled: tuple[Dimension, str, str]) -> None:
    dimension, text, unit = spelled
    assert parse(f"{number} {text}", dimension) == parse(f"{number} {unit}", dimension)


@given(st.sampled_from([*RATE.units, *RATE.spellings]), st.integers(1, 10**6))
def test_bits_and_bytes_are_never_mistaken_for_each_other(unit: str, number: int) -> None:
    # What the letters say: a big B is a byte; "bit", or a small b behind a prefix in its own case, is a bit.
    size = parse(f"{number} {unit}", RATE) * 1e9 / number
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


@pytest.mark.parametrize(
    ("bounds", "outside", "says"),
    [
        ({"at_least": 1280, "at_most": 4096}, 1279, "at least 1280 B, at most 4 KiB"),
        ({"at_most": 2**20}, 2**20 + 1, "at least 0, at most 1 MiB"),
    ],
)
def test_bounds_are_kept_and_said(bounds: dict[str, int], outside: int, says: str) -> None:
    adapter = TypeAdapter(Annotated[int, Quantity(SIZE, **bounds)])
    with pytest.raises(ValidationError, match=says):
        adapter.validate_python(outside)
    assert adapter.validate_python("2 KiB") == 2048
    schema = Draft202012Validator(adapter.json_schema())
    assert not schema.is_valid(outside)


@pytest.mark.parametrize(
    "value",
    ["64 MiB", "64MiB", "64 bytes", "64 µs", "2 Gbps", 64, "64 Mib", "64 ms", "-1 B", -1, True, "1e3", None],
)
def test_the_schema_of_a_quantity_agrees_with_its_validator(value: object) -> None:
    for adapter in (
        TypeAdapter(Annotated[int, Quantity(SIZE)]),
        TypeAdapter(Annotated[float, Quantity(RTT)]),
    ):
        try:
            adapter.validate_python(value)
            valid = True
        except ValidationError:
            valid = False
        assert Draft202012Validator(adapter.json_schema()).is_valid(value) == valid
