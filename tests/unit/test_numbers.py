# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them, and that no module writes them in another way."""

import ast
import json
import math
import re
import shutil
from collections.abc import Iterator
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

FOR_PROGRAMS = {
    "exporting.py": "rows for dashboards",
    "models/observations.py": "names of deployments",
    "paths/delayline.py": "arguments of a program",
    "paths/plan.py": "arguments of tc",
    "planning/recommendations.py": "CSV",
    "testbeds/kubernetes/objects.py": "quantities of Kubernetes",
    "testbeds/kubernetes/pod/metrics.py": "OpenMetrics",
    "open_questions/inside.py": "arguments of tc",
    "open_questions/uml/__init__.py": "arguments of timeout",
    "terena2005/cases.py": "names of files",
}
"""The modules that may write floats with a format of their own, for programs that read them."""


READ = ("float", "Decimal")
OF_TEXTS = re.compile(r"%[-+ 0#]*\d*(\.\d+)?[eEgG](?!\w)|\{\w*:[^{}]*[eEgG]\}")


def sources() -> Iterator[tuple[str, str]]:
    for folder in (ROOT / "workflow/tpcsweep", ROOT / "studies", ROOT / "notebooks"):
        for file in sorted(folder.rglob("*.py")):
            yield str(file.relative_to(folder)), file.read_text()
        for file in sorted(folder.rglob("*.ipynb")):
            cells = json.loads(file.read_text())["cells"]
            code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
            yield str(file.relative_to(folder)), "\n".join(code)


def exponents(code: str) -> list[int]:
    """Return the lines in which a format may write a number as 2.23e+03: g and e, of f-strings, format and %.

    A text that is read as a number at once only rounds it.
    """
    found, tree = list[int](), ast.parse(code)
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in READ)
    read = {id(part) for call in calls for part in ast.walk(call)}
    for node in ast.walk(tree):
        if id(node) in read:
            continue
        if isinstance(node, ast.FormattedValue) and node.format_spec:
            last = node.format_spec.values[-1] if isinstance(node.format_spec, ast.JoinedStr) else None
            if isinstance(last, ast.Constant) and re.search(r"(^|[\d.+,])[eEgG]$", last.value):
                found.append(node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # "%g" % x, "{x:g}" of matplotlib, "{:.3g}".format(x)
            found += [node.lineno] * bool(OF_TEXTS.search(node.value))
    return found


def test_only_files_for_programs_have_formats_of_their_own() -> None:
    found = {place: lines for place, code in sources() if (lines := exponents(code))}
    others = {place: lines for place, lines in found.items() if place not in FOR_PROGRAMS}
    assert not others, "tpcsweep.numbers writes numbers for people: short, between and plain"
    assert found.keys() == FOR_PROGRAMS.keys(), "an exception that none needs"


def test_a_newcomers_format_is_found() -> None:
    codes = ['f"{x:g}"', 'f"{x:.3g}"', 'f"{x:.{n}e}"', '"{:.2g}".format(x)', '"{x:g}"']
    for code in (*codes, '"%.3g" % x', '"%g Gbit/s" % x'):
        assert exponents(code) == [1], code
    assert not exponents('f"{x:.1f} of {y:>6} {z}, 5 %"')


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
