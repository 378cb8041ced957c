# SPDX-License-Identifier: Apache-2.0
"""Published claims as predicates on a dataset: each holds, does not hold, is not decided, or not testable.

`docs/claims.md` says how each is read. A claim is one in `CLAIMS` of the file of its publication, and one line in
`configuration/testbeds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import get_args

import orjson
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.claims.base import Claim, Outcome, Verdict, judge_claim
from tpcsweep.claims.cells import cells_of
from tpcsweep.configuration.testbeds import ClaimName
from tpcsweep.dataset.tables import write_csv

__all__ = [
    "CLAIMS",
    "COLUMNS",
    "Claim",
    "Outcome",
    "Verdict",
    "evidence",
    "judge",
    "table",
    "write_json",
    "write_table",
]

_PUBLICATIONS = dict.fromkeys(name.split(".")[0] for name in get_args(ClaimName))

CLAIMS: Mapping[str, Claim] = {
    claim.name: claim
    for publication in _PUBLICATIONS
    for claim in import_module(f"{__name__}.{publication}").CLAIMS
}
"""Every claim by its identifier."""

COLUMNS = (
    "claim",
    "verdict",
    "data",
    "published",
    "source",
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
"""Of the table of verdicts."""


def judge(ds: xr.Dataset) -> list[Verdict]:
    """Give the verdict on every claim, in the order of `CLAIMS`, on a dataset as `docs/dataset.md` describes it.

    Raises:
        KeyError: for a dataset without throughput.
    """
    cells = cells_of(ds)
    return [judge_claim(claim, ds, cells) for claim in CLAIMS.values()]


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
    write_csv(table(verdicts), path)


def write_json(verdicts: Sequence[Verdict], path: str | Path) -> None:
    """Write every verdict with its evidence."""
    content = [verdict.to_dict() for verdict in verdicts]
    Path(path).write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
