# SPDX-License-Identifier: Apache-2.0
"""What the cells of a dataset say of throughput, as a table: what models, claims and comparisons start from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from scipy.special import ndtri

from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset.labels import STATUS, masks_of
from tpcsweep.flags import FLAGS

CONFIDENCE = 0.95
"""That of the intervals of a dataset without the attribute `measurement_confidence`."""

NOT_MEASURED, FAILED, WITHOUT = "not measured", "failed", "without throughput"
"""Reasons not to use a cell, besides its flags."""


def observations(
    summary: xr.Dataset, *, untrusted: Iterable[str] = (), also: Iterable[str] = ()
) -> pd.DataFrame:
    """Give a row for each cell of the grid and each repetition, measured or not, in the order of the dimensions.

    Columns are all parameters (axes, fixed ones, `repetition`), `throughput` and its standard error `error` in
    Gbit/s, each of `flags.FLAGS` as a boolean, what `also` names, and `reason`: why the cell cannot be used, in one
    word or two; empty where it can. The error is the one that the cell's confidence interval stands for; NaN without
    an interval.

    Args:
        summary: a dataset with `throughput`. Without `status` all its cells went well, without `flags` none has any.
        untrusted: flags of cells that are not to be used; a cell with several has the first as its reason.
        also: more variables that are wanted as columns; NaN where the dataset has none of the name.
    """
    also = tuple(also)
    names = ("throughput", "throughput_low", "throughput_high", "status", "flags", *also)
    cells = summary[[name for name in names if name in summary]]
    if REPETITION not in cells.dims:
        numbered = cells if REPETITION in cells.coords else cells.assign_coords({REPETITION: 1})
        cells = numbered.expand_dims(REPETITION)
    rows = cells.to_dataframe(dim_order=list(cells["throughput"].dims)).reset_index()
    rows = rows.assign(**{name: np.nan for name in (*names[:3], *also) if name not in rows})
    confidence = float(summary.attrs.get("measurement_confidence", CONFIDENCE))
    half = (rows["throughput_high"] - rows["throughput_low"]) / 2
    rows["error"] = half / ndtri((1 + confidence) / 2)
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
    unwanted = {"throughput_low", "throughput_high", "status", "flags"} - set(also)
    return rows.drop(columns=unwanted, errors="ignore")
