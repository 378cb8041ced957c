"""The cells of a dataset as a table, for spreadsheets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from tpcsweep.dataset.labels import SIMULATED, STATUS, flags_in, masks_of
from tpcsweep.files import replacing
from tpcsweep.flags import worst

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def table(summary: xr.Dataset) -> pd.DataFrame:
    """Give a row for each cell: place, status, throughput, interval, limit, flags with their worst grade, message."""
    names = ["throughput", "throughput_low", "throughput_high", "limit", "duration", "warmup"]
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
    """Write the table of cells as CSV: beside it, then renamed."""
    with replacing(Path(path)) as part:
        table(summary).to_csv(part, index=False, float_format="%.6g")
