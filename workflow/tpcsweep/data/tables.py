# SPDX-License-Identifier: Apache-2.0
"""Tables of observations (for models, claims and comparisons), cells and transfers; and CSV files.

Spreadsheets execute text that begins with =, +, - or @ as a formula, which can run programs and send data elsewhere.
CSV files have an apostrophe before such text, which importing removes. Numbers are unchanged.

Tables of transfers have no retransmits: the kernel counts them by connection and does not know file names, so transfers
of several connections between the same two servers cannot be separated.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.files import write_text
from tpcsweep.common.numbers import CONFIDENCE, GBIT
from tpcsweep.common.quantiles import student_quantile
from tpcsweep.data.flags import FLAGS, worst_grade
from tpcsweep.data.labels import SIMULATED, STATUS, flag_masks, flags_in
from tpcsweep.data.variables import TRANSFERS
from tpcsweep.sweeps.sweep import REPETITION

INTERVAL = ("throughput_low", "throughput_high", "throughput_freedom")
"""Variables of the interval of a throughput."""

RUN_PAUSE = np.timedelta64(6, "h")
"""Pause between the starts of cells that separates runs, usually those of different days."""

NOT_MEASURED, FAILED, WITHOUT = "not measured", "failed", "without throughput"
"""Reasons not to use a cell, in addition to its flags."""

_FIGURES = ["startup", "sending", "total", "size", "rate"]
_HEADS = {name: f"{name} ({TRANSFERS[name].units})" for name in _FIGURES}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# A line break begins a cell too, as do other separators that a spreadsheet may be set to.
_BEGINS = r"(?:^|(?<=[;\t\r\n]))"
_FORMULA = r"[\s']*[=+\-@＝＋－＠]"
_TO_MARK = re.compile(rf"{_BEGINS}(?={_FORMULA})")
_MARKED = re.compile(rf"{_BEGINS}'(?={_FORMULA})")


def observations(
    summary: xr.Dataset, *, untrusted: Iterable[str] = (), also: Iterable[str] = ()
) -> pd.DataFrame:
    """Return one row for each cell and repetition, measured or not, in the order of the dimensions.

    Columns are all parameters (axes, fixed ones, `repetition`), `throughput` and its standard error `error` in Gbit/s,
    the error's degrees of freedom `freedom`, a boolean for each of `data.flags.FLAGS`, `run` (see `run_numbers`), the
    variables of `also`, and `reason`: why the cell cannot be used, empty for a usable cell. The error follows from the
    cell's confidence interval and is NaN without one. An interval without degrees of freedom counts as that of a normal
    distribution, with infinite freedom.

    Args:
        summary: Dataset with `throughput`. Without `status` all cells count as ok, without `flags` as unflagged.
        untrusted: Flags that make a cell unusable; the first of several is the reason.
        also: Additional variables for columns; NaN if the dataset lacks them.
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
    rows["error"] = half / [student_quantile((1 - confidence) / 2, freedom) for freedom in rows["freedom"]]
    masks = flag_masks(summary) if "flags" in rows else {}
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
    numbers = run_numbers(rows, [str(json.loads(record).get("host", "")) for record in records])
    return rows.drop(columns=set(own) - set(also), errors="ignore").assign(run=numbers)


def run_numbers(rows: pd.DataFrame, machines: Sequence[str] = ()) -> NDArray[np.int64]:
    """Number the runs of measurements from 0; a run shares conditions that nobody configured.

    The variable `run` identifies them. Without it, runs differ in their machine (the host of each provenance record in
    `machines`), or are separated by a pause of `RUN_PAUSE` or more between the starts of cells; otherwise there is one
    run.
    """
    if "run" in rows and rows["run"].notna().any():
        return np.asarray(pd.factorize(rows["run"], sort=True, use_na_sentinel=False)[0])
    if "started" not in rows or not machines:
        return np.zeros(len(rows), np.int64)
    started = rows["started"].sort_values()  # NaT is last, and never follows a pause
    days = (started.diff() >= RUN_PAUSE).cumsum().reindex(rows.index)
    hosts = rows["provenance"].map(dict(enumerate(machines)))
    key = days.astype(str) + "/" + hosts.fillna(machines[0])
    return np.asarray(pd.factorize(key, sort=True)[0])


def table(summary: xr.Dataset) -> pd.DataFrame:
    """Return one row for each cell: place, status, throughput, interval, limit, flags, grade, message."""
    names = ("throughput", "throughput_low", "throughput_high", "limit", "duration", "warmup")
    frame = summary[["status", *names, "flags", "message"]].reset_coords(drop=True).to_dataframe()
    frame["status"] = [STATUS[value] for value in frame["status"]]
    masks = flag_masks(summary)
    flags = [flags_in(value, masks) for value in frame["flags"]]
    frame["flags"] = [" ".join(names) for names in flags]
    frame.insert(frame.columns.get_loc("flags") + 1, "grade", [worst_grade(names) or "" for names in flags])
    if summary.attrs["testbed_kind"] == SIMULATED:
        frame["data"] = "simulated"
    return frame.reset_index()


def write_table(summary: xr.Dataset, path: str | Path) -> None:
    write_csv(table(summary), path)


def fastest(summary: xr.Dataset, transfers: xr.Dataset) -> int | None:
    """Return the number (in the column `cell` of transfers) of the fastest cell with transfers, or None without one."""
    cells = np.unique(transfers["cell"].values)
    rates = summary["throughput"].values.ravel()[cells]
    return None if not np.isfinite(rates).any() else int(cells[np.nanargmax(rates)])


def transfers_of_cell(transfers: xr.Dataset, cell: int) -> pd.DataFrame:
    """Return one row for each transfer of a cell in the order of their starts, then `sum` and `mean`.

    The sum of rates adds the rates of concurrent streams: the bytes of a stream over the time of its transfers. With
    one transfer in each stream it is the plain sum.
    """
    frame = transfers.isel(transfer=transfers["cell"].values == cell).to_dataframe().sort_values("start")
    frame.index = pd.Index([str(number) for number in range(1, len(frame) + 1)])
    streams = frame.groupby("stream")[["size", "total"]].sum()
    both = pd.DataFrame([frame[_FIGURES].sum(), frame[_FIGURES].mean()], index=["sum", "mean"])
    both.loc["sum", "rate"] = (streams["size"] * GBIT / streams["total"]).sum()
    words = dict.fromkeys(("stream", "number", "message"), "")
    listed = frame[["stream", "number", *_FIGURES, "message"]].astype(dict.fromkeys(words, object))
    return _headed(pd.concat([listed, both]).fillna(words).rename(columns=_HEADS), transfers)


def transfer_means(transfers: xr.Dataset) -> pd.DataFrame:
    """Return one row for each cell with transfers: the number of successful ones, and the means of all."""
    axes = [str(name) for name in transfers.data_vars if name not in TRANSFERS]
    grouped = transfers[[*axes, "cell", "ok", *_FIGURES]].to_dataframe().groupby("cell")
    cells = grouped[axes].first().assign(transfers=grouped["ok"].sum())
    means = grouped[_FIGURES].mean().rename(columns=_HEADS)
    return _headed(cells.join(means).reset_index(drop=True), transfers)


def _headed(frame: pd.DataFrame, transfers: xr.Dataset) -> pd.DataFrame:
    simulated = transfers.attrs.get("testbed_kind") == SIMULATED
    return frame.rename_axis(columns="simulated") if simulated else frame


# --- CSV for spreadsheets


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet executes; numbers are unchanged."""
    return text if _NUMBER.fullmatch(text) else _TO_MARK.sub("'", text)


def unescape_formula(text: str) -> str:
    return _MARKED.sub("", text) if "'" in text else text


def write_csv(frame: pd.DataFrame, path: str | Path, *, digits: int | None = 6, index: bool = False) -> None:
    """Write a table as CSV without formulas, atomically; see `csv_text`."""
    write_text(Path(path), csv_text(frame, digits=digits, index=index))


def csv_text(frame: pd.DataFrame, *, digits: int | None = 6, index: bool = False) -> str:
    """Return a table as CSV without formulas, with `digits` significant digits, or all if None."""
    cells = (frame.reset_index() if index else frame).rename(columns=lambda name: escape_formula(str(name)))
    for place, kind in enumerate(cells.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            texts = cells.iloc[:, place].astype(object)
            cells.isetitem(place, texts.map(_cell).astype(object))
    return str(cells.to_csv(index=False, float_format=None if digits is None else f"%.{digits}g"))


def _cell(value: object) -> object:
    # A carriage return alone is not quoted, and would end the line.
    return escape_formula(re.sub(r"\r\n?", "\n", value)) if isinstance(value, str) else value
