# SPDX-License-Identifier: Apache-2.0
"""A census of crashes and failures: how often servers died, for each value of an axis, and in how much of their time.

`docs/releases.md` describes it for those who use it.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.broken import BROKEN
from tpcsweep.comparing.intervals import rate_interval
from tpcsweep.dataset.observations import NOT_MEASURED, observations
from tpcsweep.dataset.spreadsheets import write_csv

TABLE = {
    "cells": "cells measured, repetitions counted",
    "server_hours": "hours in which origins had transfers: those of both sides × seconds of their cells",
    "crashes": "cells in which a server died",
    "died_of": "what the servers died of, with how often; of a cell the first that was noticed",
    "crashes_per_hour": "crashes per server hour",
    "crashes_per_hour_low": "lower end of its 95 % interval (Poisson, Garwood)",
    "crashes_per_hour_high": "upper end of its 95 % interval",
    "otherwise_broken": "cells whose deployment broke without a server that died",
    "cells_with_failures": "cells in which transfers failed, and nothing broke",
    "transfers": "transfers that ended, well or not",
    "transfers_failed": "those that failed",
    "whole_cells": "cells in which nothing broke and nothing failed",
    "throughput": "throughput of the whole cells, Gbit/s, mean",
    "throughput_least": "the smallest of them",
    "throughput_most": "the largest of them",
}
"""The columns of a census after the axis, and what they mean."""

_DEATH = re.compile(
    r"\b(?:xrootd|cmsd) (?:was killed by (?P<signal>SIG\w+)|ended with (?P<code>exit code \d+))"
)
"""What a cell's message says of a server that died: on netns the signal, on Kubernetes the exit code (139: SIGSEGV)."""


def census(summary: xr.Dataset, axis: str) -> pd.DataFrame:
    """Count, for each value of an axis, what broke and failed.

    Cells that were not measured are in none of the columns.

    Args:
        summary: a measured dataset.
        axis: one of its axes or fixed parameters.

    Returns:
        A row for each value of the axis, in its order, with the columns of `TABLE`.
    """
    # The flag transfers_failed is a column of observations, and would take the place of the count.
    counted = summary.rename(transfers_failed="failures")
    cells = observations(counted, also=("message", "duration", "transfers", "failures"))
    cells = cells[cells["reason"] != NOT_MEASURED]
    cells = cells.assign(
        death=[
            _death(text) if broken else ""
            for text, broken in zip(cells["message"], cells[BROKEN], strict=True)
        ],
        server_hours=2 * cells["origins"] * cells["duration"].fillna(0) / 3600,
    )
    rows = [{axis: value, **_counted(part)} for value, part in cells.groupby(axis, sort=False)]
    return pd.DataFrame(rows, columns=[axis, *TABLE])


def write(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, whole or not at all."""
    write_csv(table, path)


def _death(message: str) -> str:
    """Give what a server died of, by the message of a cell; nothing where none did."""
    said = _DEATH.search(message)
    return (said["signal"] or said["code"]) if said else ""


def _counted(cells: pd.DataFrame) -> dict[str, object]:
    """Give the row of some cells."""
    deaths = Counter(death for death in cells["death"] if death)
    crashes, hours = deaths.total(), float(cells["server_hours"].sum())
    low, high = rate_interval(crashes, hours)
    failures = cells["failures"].fillna(0)
    whole = ~cells[BROKEN] & (failures == 0) & (cells["reason"] == "")
    throughput = cells.loc[whole, "throughput"]
    return {
        "cells": len(cells),
        "server_hours": hours,
        "crashes": crashes,
        "died_of": ", ".join(f"{death} {count}" for death, count in deaths.most_common()),
        "crashes_per_hour": crashes / hours if hours else np.nan,
        "crashes_per_hour_low": low,
        "crashes_per_hour_high": high,
        "otherwise_broken": int(cells[BROKEN].sum()) - crashes,
        "cells_with_failures": int((~cells[BROKEN] & ~whole).sum()),
        "transfers": int(cells["transfers"].fillna(0).sum() + failures.sum()),
        "transfers_failed": int(failures.sum()),
        "whole_cells": int(whole.sum()),
        "throughput": throughput.mean(),
        "throughput_least": throughput.min(),
        "throughput_most": throughput.max(),
    }
