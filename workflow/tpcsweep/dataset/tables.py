# SPDX-License-Identifier: Apache-2.0
"""Tables of a dataset: its cells, for spreadsheets, and single transfers, like those of the cambridge flows.

Retransmits, which the tables of those flows have, are not here: the kernel counts them by connection, and knows no
file's name. Of several connections that one server has open to another, nobody can say which transfer each is of.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.dataset import spreadsheets
from tpcsweep.dataset.labels import SIMULATED, STATUS, flags_in, masks_of
from tpcsweep.flags import worst
from tpcsweep.rates import GBIT
from tpcsweep.variables import TRANSFERS

FIGURES = ("startup", "sending", "total", "size", "rate")
_HEADS = {name: f"{name} ({TRANSFERS[name].units})" for name in FIGURES}


def table(summary: xr.Dataset) -> pd.DataFrame:
    """Give a row for each cell: place, status, throughput, interval, limit, flags with their worst grade, message."""
    known = ("throughput", "throughput_low", "throughput_high", "limit", "duration", "warmup")
    names = [name for name in known if name in summary]  # an earlier version did not judge limits
    frame = summary[["status", *names, "flags", "message"]].reset_coords(drop=True).to_dataframe()
    frame["status"] = [STATUS[value] for value in frame["status"]]
    masks = masks_of(summary)
    flags = [flags_in(value, masks) for value in frame["flags"]]
    frame["flags"] = [" ".join(names) for names in flags]
    frame.insert(frame.columns.get_loc("flags") + 1, "grade", [worst(names) or "" for names in flags])
    if summary.attrs["testbed_kind"] == SIMULATED:
        frame["data"] = "simulated"
    return frame.reset_index()


def write_table(summary: xr.Dataset, path: str | Path) -> None:
    """Write the table of cells as CSV, whole or not at all."""
    spreadsheets.write_csv(table(summary), path)


def csv_text(summary: xr.Dataset) -> str:
    """Return the table of cells as CSV."""
    return spreadsheets.csv_text(table(summary))


def fastest(summary: xr.Dataset, transfers: xr.Dataset) -> int | None:
    """Give the cell of the highest throughput among those with transfers, as `transfers.cell` has it; None without."""
    cells = np.unique(transfers["cell"].values)
    rates = summary["throughput"].values.ravel()[cells]
    return None if not np.isfinite(rates).any() else int(cells[np.nanargmax(rates)])


def of_cell(transfers: xr.Dataset, cell: int) -> pd.DataFrame:
    """Give a row for each transfer of a cell in the order of their starts, then `sum` and `mean`.

    The sum of rates is that of the streams, which ran at the same time: of each its bytes over the time that its
    transfers took. With one transfer a stream it is the plain sum.
    """
    frame = transfers.isel(transfer=transfers["cell"].values == cell).to_dataframe().sort_values("start")
    frame.index = pd.Index([str(number) for number in range(1, len(frame) + 1)])
    figures = frame[list(FIGURES)]
    streams = frame.groupby("stream")[["size", "total"]].sum()
    both = pd.DataFrame([figures.sum(), figures.mean()], index=["sum", "mean"])
    both.loc["sum", "rate"] = (streams["size"] * GBIT / streams["total"]).sum()
    rows = pd.concat([figures, both]).rename(columns=_HEADS)
    words = frame[["stream", "number", "message"]].astype(object)
    joined = words[["stream", "number"]].join(rows, how="right").join(words["message"])
    return _headed(joined.fillna(dict.fromkeys(words, "")), transfers)


def per_cell(transfers: xr.Dataset) -> pd.DataFrame:
    """Give a row for each cell that has transfers: how many ended well, and the means of all."""
    axes = [str(name) for name in transfers.data_vars if name not in TRANSFERS]
    grouped = transfers[[*axes, "cell", "ok", *FIGURES]].to_dataframe().groupby("cell")
    cells = grouped[axes].first().assign(transfers=grouped["ok"].sum())
    means = grouped[list(FIGURES)].mean().rename(columns=_HEADS)
    return _headed(cells.join(means).reset_index(drop=True), transfers)


def _headed(frame: pd.DataFrame, transfers: xr.Dataset) -> pd.DataFrame:
    """A table whose head says so where transfers were simulated."""
    simulated = transfers.attrs.get("testbed_kind") == SIMULATED
    return frame.rename_axis(columns="simulated") if simulated else frame
