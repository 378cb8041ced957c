"""Verdicts as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import Verdict

COLUMNS = (
    "claim",
    "verdict",
    "data",
    "published",
    "tested",
    "effect",
    "value",
    "low",
    "high",
    "units",
    "reason",
    "to_test",
    "cells_used",
    "cells_left_out",
)


def table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Give a row for each verdict, without its evidence."""
    frame = pd.DataFrame([verdict.to_dict() for verdict in verdicts], columns=list(COLUMNS))
    frame["cells_left_out"] = [
        ", ".join(f"{count} {why}" for why, count in left.items()) for left in frame["cells_left_out"]
    ]
    return frame


def evidence(verdict: Verdict) -> pd.DataFrame:
    """Give what a verdict stands on; no rows where there is nothing."""
    return pd.DataFrame([dict(row) for row in verdict.rows])


def write_table(verdicts: Sequence[Verdict], path: str | Path) -> None:
    """Write the table as CSV."""
    table(verdicts).to_csv(path, index=False, float_format="%.6g")


def write_json(verdicts: Sequence[Verdict], path: str | Path) -> None:
    """Write every verdict with its evidence."""
    content = [verdict.to_dict() for verdict in verdicts]
    Path(path).write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
