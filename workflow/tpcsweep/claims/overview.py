# SPDX-License-Identifier: Apache-2.0
"""Verdicts for people, as a table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpcsweep.claims.base import Outcome, Verdict

_STYLES = {Outcome.HOLDS: "green", Outcome.FAILS: "red", Outcome.UNDECIDED: "yellow", Outcome.OPEN: "dim"}


def table(verdicts: Sequence[Verdict], every: bool = False) -> RenderableType:
    """Return a row for each verdict, and a count of the claims that the dataset cannot test.

    Args:
        verdicts: the verdicts on all claims.
        every: whether these claims have rows too.
    """
    rows = Table(show_lines=True)
    rows.add_column("claim and verdict", min_width=16, ratio=2)
    rows.add_column("effect (interval), and why", ratio=3)
    listed = [verdict for verdict in verdicts if every or verdict.outcome is not Outcome.OPEN]
    for outcome in Outcome:
        for verdict in (verdict for verdict in listed if verdict.outcome is outcome):
            name = Text(f"{verdict.claim.name}\n").append(outcome.value, _STYLES[outcome])
            effect = f"{verdict.effect}\n" if verdict.effect else ""
            rows.add_row(name, Text(f"{effect}{verdict.reason}"))
    parts: list[RenderableType] = [rows] if listed else []
    if left := len(verdicts) - len(listed):
        parts.append(f"{left} claims are not testable on this dataset. List them with --all.")
    return Group(*parts)
