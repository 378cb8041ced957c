# SPDX-License-Identifier: Apache-2.0
"""The throughput of a dataset's cells as a table, from which models, claims and comparisons start."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from scipy.special import stdtrit

from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset.labels import STATUS, masks_of
from tpcsweep.flags import FLAGS

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIDENCE = 0.95
"""That of the intervals of a dataset without the attribute `measurement_confidence`."""

INTERVAL = ("throughput_low", "throughput_high", "throughput_freedom")
"""Variables of the interval of a throughput."""

APART = np.timedelta64(6, "h")
"""Pause between the starts of cells that separates runs, mostly those of different days."""

NOT_MEASURED, FAILED, WITHOUT = "not measured", "failed", "without throughput"
"""Reasons not to use a cell, besides its flags."""


def observations(
    summary: xr.Dataset, *, untrusted: Iterable[str] = (), also: Iterable[str] = ()
) -> pd.DataFrame:
    """Return a row for each cell of the grid and each repetition, measured or not, in the order of the dimensions.

    Columns are all parameters (axes, fixed ones, `repetition`), `throughput` and its standard error `error` in
    Gbit/s, the degrees of freedom `freedom` of that error, each of `flags.FLAGS` as a boolean, `run` (see `runs_of`),
    those of `also`, and `reason`: why the cell cannot be used, in one word or two; empty for a usable cell. The error
    follows from the cell's confidence interval; NaN without an interval. An interval without degrees of freedom is
    taken for that of a normal distribution, whose freedom is infinite.

    Args:
        summary: a dataset with `throughput`. Without `status` all cells went well, without `flags` none has a flag.
        untrusted: flags that make a cell unusable; a cell with several has the first as its reason.
        also: more variables for columns; NaN for those that the dataset lacks.
    """
    also = tuple(also)
    own = (*INTERVAL, "status", "flags", "run", "started", "provenance")
    names = dict.fromkeys(("throughput", *own, *also))
    cells = summary[[name for name in names if name in summary]]
    if REPETITION not in cells.dims:
        numbered = cells if REPETITION in cells.coords else cells.assign_coords({REPETITION: 1})
        cells = numbered.expand_dims(REPETITION)
    rows = cells.to_dataframe(dim_order=list(cells["throughput"].dims)).reset_index()
    rows = rows.assign(**{name: np.nan for name in ("throughput", *INTERVAL, *also) if name not in rows})
    confidence = float(summary.attrs.get("measurement_confidence", CONFIDENCE))
    half = (rows["throughput_high"] - rows["throughput_low"]) / 2
    rows["freedom"] = rows["throughput_freedom"].fillna(np.inf)
    rows["error"] = half / stdtrit(rows["freedom"], (1 + confidence) / 2)
    masks = masks_of(summary) if "flags" in rows else {}
    flags = rows.get("flags", pd.Series(0, rows.index))
    rows = rows.assign(**{flag: (flags & masks.get(flag, 0)) != 0 for flag in FLAGS})
    status = rows.get("status", pd.Series(STATUS.index("ok"), rows.index))
    reasons = {
        NOT_MEASURED: status == STATUS.index("not_measured"),
        FAILED: status == STATUS.index("failed"),
        WITHOUT: rows["throughput"].isna(),
        **{flag: rows[flag] for flag in untrusted},
    }
    rows["reason"] = np.select(list(reasons.values()), list(reasons), "")
    records = summary["provenance_record"].values.tolist() if "provenance_record" in summary else []
    numbers = runs_of(rows, [str(json.loads(record).get("host", "")) for record in records])
    return rows.drop(columns=set(own) - set(also), errors="ignore").assign(run=numbers)


def runs_of(rows: pd.DataFrame, machines: Sequence[str] = ()) -> NDArray[np.int64]:
    """Number the runs of measurements from 0, which share circumstances that nobody set.

    The variable `run` names them. Without it, runs differ in their machine, or are separated by a pause of `APART` or
    more between the starts of cells. Rows without either are one run.

    Args:
        rows: with `run`, or else `started` and `provenance`.
        machines: the host of each record of provenance.
    """
    if "run" in rows and rows["run"].notna().any():
        return np.asarray(pd.factorize(rows["run"], sort=True, use_na_sentinel=False)[0])
    if "started" not in rows or not machines:
        return np.zeros(len(rows), np.int64)
    started = rows["started"].sort_values()  # NaT last, and never after a pause
    days = (started.diff() >= APART).cumsum().reindex(rows.index)
    hosts = rows["provenance"].map(dict(enumerate(machines)))
    key = days.astype(str) + "/" + hosts.fillna(machines[0])
    return np.asarray(pd.factorize(key, sort=True)[0])
