# SPDX-License-Identifier: Apache-2.0
"""A history as JUnit XML, which continuous integration reads: a test case for all cells together, and one for each.

The last run is what is tested. A case fails by a change that is told since then, is an error where the cell failed, and
is skipped where it was not measured. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import STATUS
from tpcsweep.history.changes import Change, History, cell_names, sentence, wanted

_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot have, and what a tool may have said."""
MEAN = "all cells together"


def text(told: History, fail_on: str | None) -> str:
    """Give the XML; `fail_on`: as in `changes.failures`, but that nothing stands for change."""
    new = [
        change for change in told.changes if change.new and change.directions & wanted(fail_on or "change")
    ]
    sweep, testbed = told.runs[-1].identity
    suite = ET.Element("testsuite", name=_xml(f"history of {sweep} on {testbed}"))
    suite.set("timestamp", f"{told.runs[-1].ended:%Y-%m-%dT%H:%M:%S}")
    mean = ET.SubElement(suite, "testcase", classname=_xml(sweep), name=MEAN)
    for change in new:
        size = change.overall
        _add(mean, "failure", _ratio(size.ratio, size.low, size.high), sentence(told, change))
    last = told.cells.isel({REPETITION: -1})
    status, messages = (last[name].values.reshape(-1).tolist() for name in ("status", "message"))
    for at, name in enumerate(cell_names(told)):
        case = ET.SubElement(suite, "testcase", classname=_xml(sweep), name=_xml(name))
        if status[at] == STATUS.index("failed"):
            _add(case, "error", str(messages[at]) or "failed", "")
        elif status[at] == STATUS.index("not_measured"):
            _add(case, "skipped", str(messages[at]) or "not measured", "")
        else:
            for change, message in _of_cell(new, at, fail_on):
                _add(case, "failure", message, sentence(told, change))
    suites = ET.Element("testsuites", name="tpcsweep")
    suites.append(suite)
    for element in (suite, suites):
        element.set("tests", str(len(suite)))
        for kind, counted in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            element.set(counted, str(sum(case.find(kind) is not None for case in suite)))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _of_cell(new: list[Change], at: int, fail_on: str | None) -> Iterator[tuple[Change, str]]:
    """The changes that a cell has by itself, with its ratio."""
    for change in new:
        row = change.comparison.cells.iloc[at]
        if row["verdict"] in wanted(fail_on or "change"):
            yield change, _ratio(row["ratio"], row["ratio_low"], row["ratio_high"])


def _ratio(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.3g} times ({low:.3g} to {high:.3g}) what it was"


def _add(case: ET.Element, kind: str, message: str, content: str) -> None:
    element = ET.SubElement(case, kind, message=_xml(message))
    if kind != "skipped":
        element.set("type", kind)
    element.text = _xml(content)


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
