# SPDX-License-Identifier: Apache-2.0
"""Table of verdicts, one row each, for pandas, CSV, JSON and terminals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import Outcome, Verdict
from tpcsweep.dataset.tables import write_csv
from tpcsweep.files import write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {Outcome.HOLDS: "green", Outcome.FAILS: "red", Outcome.UNDECIDED: "yellow", Outcome.OPEN: "dim"}


def verdict_table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row for each verdict, without its evidence."""
    frame = pd.DataFrame([verdict.to_dict() for verdict in verdicts]).drop(columns="evidence")
    frame["cells_left_out"] = [
        ", ".join(f"{count} {why}" for why, count in left.items()) for left in frame["cells_left_out"]
    ]
    return frame


def write_verdicts(verdicts: Sequence[Verdict], csv: str | Path, json: str | Path) -> None:
    """Write the table as CSV, and every verdict with its evidence as JSON."""
    write_csv(verdict_table(verdicts), csv)
    write_json(Path(json), [verdict.to_dict() for verdict in verdicts])


def for_terminal(verdicts: Sequence[Verdict], every: bool = False) -> RenderableType:
    """Return one row for each verdict; without `every`, claims that are not testable are only counted."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = Table(show_lines=True)
    rows.add_column("claim and verdict", min_width=16, ratio=2)
    rows.add_column("effect (interval), and why", ratio=3)
    listed = [verdict for verdict in verdicts if every or verdict.outcome is not Outcome.OPEN]
    for verdict in sorted(listed, key=lambda verdict: list(Outcome).index(verdict.outcome)):
        name = Text(f"{verdict.claim.name}\n").append(verdict.outcome.value, _STYLES[verdict.outcome])
        effect = f"{verdict.effect}\n" if verdict.effect else ""
        rows.add_row(name, Text(f"{effect}{verdict.reason}"))
    parts: list[RenderableType] = [rows] if listed else []
    if left := len(verdicts) - len(listed):
        parts.append(f"{left} claims are not testable on this dataset. List them with --all.")
    return Group(*parts)
