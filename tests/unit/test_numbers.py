# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them."""

import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.cli import main
from tpcsweep.numbers import between, plain, short

from tests.support.workflow import ROOT


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
    assert between(value, 2) == f"{shown} to 2"


@given(st.floats(-1e300, 1e300), st.integers(1, 9))
def test_no_number_is_far_from_its_text(value: float, digits: int) -> None:
    text = short(value, digits)
    assert "e" not in text and len(text.strip("-")) <= digits + 14
    read = float(text.replace("×10", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    assert math.isclose(read, value, rel_tol=0.51 * 10.0 ** (1 - digits), abs_tol=1e-310)


@pytest.mark.parametrize("verb", ["compare", "claims"])
def test_answers_on_the_terminal_have_no_exponents_and_no_rounding_errors(tmp_path: Path, verb: str) -> None:
    file = tmp_path / "dataset.nc"
    with xr.open_dataset(ROOT / "examples/surface.nc") as shipped:
        summary = shipped.load()
    summary = summary.assign_coords(bandwidth=summary.bandwidth * 3000.3)
    for name in ("throughput", "throughput_low", "throughput_high"):
        summary[name] *= 3000.3
    if verb == "compare":  # single transfers name their cells by the values of this axis
        summary = summary.assign_coords(rtt=summary.rtt + 0.1 * 3)
    shutil.copy(ROOT / "examples/surface.nc", file)
    summary.to_netcdf(file, mode="a")
    sides = [f"{file}:cores=0.2", f"{file}:cores=0.4"] if verb == "compare" else [str(file)]
    done = CliRunner().invoke(main, [verb, *sides])
    assert done.exit_code in (0, 1), done.output
    assert re.search(r"\d", done.output)
    assert not re.findall(r".*(?:\d\.\d{7}|\de[+-]?\d).*", done.output)
