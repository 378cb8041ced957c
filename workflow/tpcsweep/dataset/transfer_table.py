"""Single transfers as tables, like those of the cambridge flows: a row for each, with sum and mean.

Retransmits, which those tables have, are not here: the kernel counts them by connection, and knows no file's name. Of
several connections that one server has open to another, nobody can say which transfer each is of.
"""

from __future__ import annotations

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.dataset import SIMULATED
from tpcsweep.rates import GBIT
from tpcsweep.variables import TRANSFERS

FIGURES = ("startup", "sending", "total", "size", "rate")


def fastest(summary: xr.Dataset, transfers: xr.Dataset) -> int | None:
    """The cell of the highest throughput among those with transfers, as `transfers.cell` has it; None without any."""
    cells = np.unique(transfers["cell"].values)
    rates = summary["throughput"].values.ravel()[cells]
    return None if not np.isfinite(rates).any() else int(cells[np.nanargmax(rates)])


def of_cell(transfers: xr.Dataset, cell: int) -> pd.DataFrame:
    """A row for each transfer of a cell in the order of their starts, then `sum` and `mean`.

    The sum of rates is that of the streams, which ran at the same time: of each its bytes over the time that its
    transfers took. With one transfer a stream it is the plain sum.
    """
    frame = transfers.isel(transfer=transfers["cell"].values == cell).to_dataframe().sort_values("start")
    frame.index = pd.Index([str(number) for number in range(1, len(frame) + 1)])
    figures = frame[list(FIGURES)]
    streams = frame.groupby("stream")[["size", "total"]].sum()
    both = pd.DataFrame([figures.sum(), figures.mean()], index=["sum", "mean"])
    both.loc["sum", "rate"] = (streams["size"] * GBIT / streams["total"]).sum()
    rows = pd.concat([figures, both]).rename(columns=_heads(figures.columns))
    words = frame[["stream", "number", "message"]].astype(object)
    table = words[["stream", "number"]].join(rows, how="right").join(words["message"])
    return _said(table.fillna(dict.fromkeys(words, "")), transfers)


def per_cell(transfers: xr.Dataset) -> pd.DataFrame:
    """A row for each cell that has transfers: how many ended well, and the means of all."""
    axes = [str(name) for name in transfers.data_vars if name not in TRANSFERS]
    frame = transfers[[*axes, "cell", "ok", *FIGURES]].to_dataframe()
    grouped = frame.groupby("cell")
    found = grouped[axes].first()
    found["transfers"] = grouped["ok"].sum()
    means = grouped[list(FIGURES)].mean()
    return _said(found.join(means.rename(columns=_heads(means.columns))).reset_index(drop=True), transfers)


def _said(table: pd.DataFrame, transfers: xr.Dataset) -> pd.DataFrame:
    """A table whose head says so where transfers were simulated."""
    simulated = transfers.attrs.get("testbed_kind") == SIMULATED
    return table.rename_axis(columns="simulated") if simulated else table


def _heads(names: pd.Index) -> dict[str, str]:
    units = {name: TRANSFERS[name].units for name in FIGURES}
    return {name: f"{name} ({units[name]})" for name in names if name in units}
