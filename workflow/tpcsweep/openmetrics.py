# SPDX-License-Identifier: Apache-2.0
"""Lines of OpenMetrics 1.0 text, as datasets and running cells are both written. Standard library alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PREFIX = "tpcsweep"
"""What all names begin with."""
END = "# EOF"


def name(*parts: str) -> str:
    """Join the parts of a metric's name that are not empty, behind the prefix."""
    return "_".join(filter(None, (PREFIX, *parts)))


def head(metric: str, kind: str, unit: str, meaning: str) -> Iterator[str]:
    """Give what comes before the samples of a metric; its name ends in the unit, if it has one."""
    yield f"# TYPE {metric} {kind}"
    if unit:
        yield f"# UNIT {metric} {unit}"
    yield f"# HELP {metric} {escaped(meaning)}"


def labels(of: Mapping[str, str]) -> str:
    """Write labels in braces."""
    return "{" + ",".join(f'{label}="{escaped(value)}"' for label, value in of.items()) + "}"


def escaped(text: str) -> str:
    """Write what is in quotes."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
