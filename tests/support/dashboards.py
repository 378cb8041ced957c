# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard that ships: its panels and what they ask Prometheus."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.workflow import ROOT

FILE = ROOT / "config/grafana/sweep.json"
STEP = {"$__rate_interval": "1m", "$__range": "180d", "$__interval": "1d"}
"""What Grafana puts for what it knows itself."""


def dashboard() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def queries(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The title of each panel with each of its queries, as Grafana sends it."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], filled(target["expr"], variables)


def filled(expression: str, variables: Mapping[str, str]) -> str:
    known = {**STEP, **{f"${name}": value for name, value in variables.items()}}
    for name in sorted(known, key=len, reverse=True):
        expression = expression.replace(name, known[name])
    assert "$" not in expression, expression
    return expression


def asked(expression: str) -> tuple[set[str], set[str]]:
    metrics = set(re.findall(r"\btpcsweep_\w+(?=[{\[])", expression))
    inside = " ".join(re.findall(r"\{(.*?)\}", expression) + re.findall(r"by \((.*?)\)", expression))
    return metrics, set(re.findall(r"\w+(?==)|^\w+$", inside, re.MULTILINE))
