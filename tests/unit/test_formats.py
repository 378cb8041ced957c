# SPDX-License-Identifier: Apache-2.0
"""Numbers for people are written by tpcsweep.numbers alone."""

import ast
import json
import re
from collections.abc import Iterator

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
