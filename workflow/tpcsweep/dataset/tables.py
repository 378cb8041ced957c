# SPDX-License-Identifier: Apache-2.0
"""Tables of a dataset's cells and single transfers, and CSV files that are safe to open as spreadsheets.

Spreadsheets take a text that begins with =, +, - or @ for a formula, which can run programs and send data elsewhere. An
apostrophe before the text prevents that; importing removes the apostrophe. Numbers stay as they are.

Retransmits are no column of transfers: the kernel counts them by connection, and knows no file's name. Nobody can tell
the transfers of several connections between the same two servers apart.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.dataset.labels import SIMULATED, STATUS, flags_in, masks_of
from tpcsweep.files import write_text
from tpcsweep.flags import worst
from tpcsweep.variables import GBIT, TRANSFERS

_FIGURES = ["startup", "sending", "total", "size", "rate"]
_HEADS = {name: f"{name} ({TRANSFERS[name].units})" for name in _FIGURES}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# A line break begins a cell too, and so do separators other than the comma, for which a spreadsheet may be set.
_BEGINS = r"(?:^|(?<=[;\t\r\n]))"
_FORMULA = r"[\s']*[=+\-@＝＋－＠]"
_TO_MARK = re.compile(rf"{_BEGINS}(?={_FORMULA})")
_MARKED = re.compile(rf"{_BEGINS}'(?={_FORMULA})")
_RETURN = re.compile(r"\r\n?")


def table(summary: xr.Dataset) -> pd.DataFrame:
    """Return a row for each cell: place, status, throughput, interval, limit, flags with the worst grade, message."""
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
    write_csv(table(summary), path)


def fastest(summary: xr.Dataset, transfers: xr.Dataset) -> int | None:
    """Return the fastest cell with transfers, by its number in `transfers.cell`; None without such a cell."""
    cells = np.unique(transfers["cell"].values)
    rates = summary["throughput"].values.ravel()[cells]
    return None if not np.isfinite(rates).any() else int(cells[np.nanargmax(rates)])


def of_cell(transfers: xr.Dataset, cell: int) -> pd.DataFrame:
    """Return a row for each transfer of a cell in the order of their starts, then `sum` and `mean`.

    The sum of rates is that of the streams, which ran at the same time: the bytes of a stream over the time that its
    transfers took. With one transfer a stream it is the plain sum.
    """
    frame = transfers.isel(transfer=transfers["cell"].values == cell).to_dataframe().sort_values("start")
    frame.index = pd.Index([str(number) for number in range(1, len(frame) + 1)])
    streams = frame.groupby("stream")[["size", "total"]].sum()
    both = pd.DataFrame([frame[_FIGURES].sum(), frame[_FIGURES].mean()], index=["sum", "mean"])
    both.loc["sum", "rate"] = (streams["size"] * GBIT / streams["total"]).sum()
    words = dict.fromkeys(("stream", "number", "message"), "")
    listed = frame[["stream", "number", *_FIGURES, "message"]].astype(dict.fromkeys(words, object))
    return _headed(pd.concat([listed, both]).fillna(words).rename(columns=_HEADS), transfers)


def per_cell(transfers: xr.Dataset) -> pd.DataFrame:
    """Return a row for each cell with transfers: how many ended well, and the means of all."""
    axes = [str(name) for name in transfers.data_vars if name not in TRANSFERS]
    grouped = transfers[[*axes, "cell", "ok", *_FIGURES]].to_dataframe().groupby("cell")
    cells = grouped[axes].first().assign(transfers=grouped["ok"].sum())
    means = grouped[_FIGURES].mean().rename(columns=_HEADS)
    return _headed(cells.join(means).reset_index(drop=True), transfers)


def _headed(frame: pd.DataFrame, transfers: xr.Dataset) -> pd.DataFrame:
    """Return a table whose head says so where transfers were simulated."""
    simulated = transfers.attrs.get("testbed_kind") == SIMULATED
    return frame.rename_axis(columns="simulated") if simulated else frame


# --- CSV for spreadsheets


def inert(text: str) -> str:
    """Return a text that no spreadsheet calculates; a number stays as it is."""
    return text if _NUMBER.fullmatch(text) else _TO_MARK.sub("'", text)


def as_written(text: str) -> str:
    """Return the text that `inert` was given."""
    return _MARKED.sub("", text) if "'" in text else text


def write_csv(frame: pd.DataFrame, path: str | Path, *, digits: int | None = 6, index: bool = False) -> None:
    """Write a table as CSV, whole or not at all, without formulas; see `csv_text`."""
    write_text(Path(path), csv_text(frame, digits=digits, index=index))


def csv_text(frame: pd.DataFrame, *, digits: int | None = 6, index: bool = False) -> str:
    """Return a table as CSV without formulas.

    Args:
        frame: the table.
        digits: significant digits of numbers that are no whole numbers; None: all digits.
        index: whether the table's index becomes the first columns.
    """
    cells = (frame.reset_index() if index else frame).rename(columns=lambda name: inert(str(name)))
    for place, kind in enumerate(cells.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            texts = cells.iloc[:, place].astype(object)
            cells.isetitem(place, texts.map(_cell).astype(object))
    float_format = None if digits is None else f"%.{digits}g"
    return str(cells.to_csv(index=False, float_format=float_format))


def _cell(value: object) -> object:
    # A carriage return alone is not put in quotes, and would end the line.
    return inert(_RETURN.sub("\n", value)) if isinstance(value, str) else value
