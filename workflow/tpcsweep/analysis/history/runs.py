# SPDX-License-Identifier: Apache-2.0
"""Kept runs of a sweep: datasets named by the date and time of their last cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.common.files import is_file, replacing_file
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import MASKS, STATUS, about_flags, data_origin, declared_coordinates, flagged
from tpcsweep.data.made_with import made_with
from tpcsweep.data.opening import load, open_group
from tpcsweep.data.places import SUFFIX
from tpcsweep.data.scatter import Floats
from tpcsweep.data.tables import INTERVAL
from tpcsweep.sweeps.parameters import Value
from tpcsweep.sweeps.sweep import REPETITION

FOLDER = "history"  # name of the folder in a sweep's results
FILE_NAME_FORMAT = "%Y-%m-%dT%H%M%SZ"
"""Format of a run's file name, in UTC; a colon would separate values of axes in a comparison."""


class HistoryError(ValueError):
    """A dataset that cannot be kept, or a folder without a run; the text contains reason and fix."""


@dataclass(frozen=True)
class Run:
    file: str
    ended: datetime  # end of its last cell, UTC
    identity: tuple[str, str]  # names of sweep and testbed
    made: str  # origin of its throughput, as text for people
    cells: xr.Dataset
    """Cells over the axes, with repetitions combined.
    Variables: throughput (geometric mean) and its interval (of a single measurement) in Gbit/s with degrees of freedom,
    status, flags, limit, message, machine_work."""
    parameters: Mapping[str, Value]  # parameters with a single value for all cells
    made_with: Mapping[str, str]
    """Software, kernel, machine, hosts and settings by name; see `data.made_with`."""
    starts: frozenset[int]  # start times of its cells, ns since 1970, which identify the run

    def count(self, status: str) -> int:
        return int((self.cells["status"] == STATUS.index(status)).sum())

    @property
    def flagged(self) -> int:
        """Number of cells with a warning, or flagged invalid."""
        return int(flagged(self.cells, *graded(FLAGS, "warning", "invalid")).sum())


def keep_run(dataset: Path, folder: Path) -> Path:
    """Copy a dataset into a folder under its last cell's date, unless it is there. Raises HistoryError without one."""
    with open_group(dataset) as summary:
        file = folder / f"{_ended(summary):{FILE_NAME_FORMAT}}{SUFFIX}"
    if not is_file(file):
        with replacing_file(file) as part:
            part.write_bytes(dataset.read_bytes())
    return file


def read_kept_runs(folder: Path) -> tuple[list[Run], dict[str, str]]:
    """Return a folder's runs of the newest sweep and testbed, oldest first, and skipped files by reason."""
    left: dict[str, str] = {}
    runs = []
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            runs.append(read_run(file.name, load(file)))
        except (OSError, ValueError, KeyError) as error:  # a foreign file must not hide the others
            left[file.name] = f"it cannot be read: {error}"
    runs.sort(key=lambda run: run.ended)
    left |= dict(_others(runs))
    return [run for run in runs if run.file not in left], left


def read_run(file: str, summary: xr.Dataset) -> Run:
    """Return the run that a dataset contains.

    Raises HistoryError without a date of measurement or a measured cell, KeyError if the dataset is not of a sweep.
    """
    axes = [str(name) for name in summary["throughput"].dims if name != REPETITION]
    several = [name for name in axes if summary.sizes[name] > 1]
    parameters = {
        name: summary[name].values.reshape(-1).tolist()[0]
        for name in declared_coordinates(summary)
        if name not in (*several, REPETITION)
    }
    started = summary["started"].values.astype("datetime64[ns]")
    return Run(
        file,
        _ended(summary),
        (str(summary.attrs["sweep"]), str(summary.attrs["testbed"])),
        data_origin(summary),
        _together(summary).squeeze([name for name in axes if name not in several], drop=True),
        parameters,
        made_with(summary),
        frozenset(started[~np.isnat(started)].astype(np.int64).tolist()),
    )


def _ended(summary: xr.Dataset) -> datetime:
    measured_until = str(summary.attrs.get("measured_until", "unknown"))
    try:
        return datetime.fromisoformat(measured_until).astimezone(UTC)
    except ValueError as error:
        raise HistoryError(
            f"measured_until of the dataset is {measured_until!r}, but a history needs the dates of its runs: "
            "measure a cell, or use a dataset that tpcsweep measured"
        ) from error


def _others(runs: list[Run]) -> Iterator[tuple[str, str]]:
    """Yield runs that do not belong to this history: another sweep, or partly repeated and kept again."""
    ours = [run for run in runs if run.identity == runs[-1].identity]
    for run in runs:
        if run.identity != runs[-1].identity:
            yield run.file, "it belongs to sweep {} on testbed {}".format(*run.identity)
    for at, run in enumerate(ours):
        if again := next((later for later in ours[at + 1 :] if run.starts & later.starts), None):
            yield run.file, f"{again.file} contains these measurements and newer ones"


def _together(summary: xr.Dataset) -> xr.Dataset:
    summary = summary.reset_coords(drop=True)  # without fixed coordinates, which all results would inherit
    ok = (summary["status"] == STATUS.index("ok")) & (summary["throughput"] > 0)
    several = summary.sizes[REPETITION] > 1
    # The spread between runs describes several repetitions better than their intervals.
    unknown = xr.full_like(summary["throughput"], np.nan)
    alone = ok & (not several)
    interval = {name: summary.get(name, unknown).where(alone).max(REPETITION) for name in INTERVAL}
    status = summary["status"].max(REPETITION).where(~ok.any(REPETITION), STATUS.index("ok"))
    nothing = xr.full_like(status, "", object)
    first = summary.isel({REPETITION: 0}, drop=True)
    logs: Any = np.log(summary["throughput"].where(ok))  # `Any`, because numpy's types infer an array
    work = summary.get("machine_work", unknown)
    flags = [flagged(summary, flag).any(REPETITION).values * mask for flag, mask in MASKS.items()]
    return xr.Dataset(
        {
            "throughput": np.exp(logs.mean(REPETITION)),
            **interval,
            "status": status.astype(np.int8),
            "flags": (status.dims, np.sum(flags, axis=0), about_flags()),
            "machine_work": work.mean(REPETITION),
            **{name: first.get(name, nothing) for name in ("limit", "message")},
        },
        attrs={name: value for name, value in summary.attrs.items() if name == "measurement_confidence"},
    )


# --- runs as one grid of cells over time


def join_runs(runs: Sequence[Run]) -> xr.Dataset:
    """Join the cells of runs, oldest first, along `repetition`: each run is one repetition of all cells.

    A parameter with several values in some run becomes an axis. A parameter with a single value in each run does not,
    even if runs differ: that is a changed setting. Cells that a run lacks count as not measured. The variable `run` is
    the run's number. The confidence of all intervals is that of the first run.
    """
    axes = dict.fromkeys(str(name) for run in reversed(runs) for name in run.cells.dims)
    placed = []
    for number, run in enumerate(runs):
        single = [name for name in axes if name not in run.cells.dims]
        cells = run.cells.assign_coords({name: run.parameters.get(name, "unknown") for name in single})
        cells = cells.expand_dims(single).drop_vars(set(map(str, cells.coords)) - set(axes), errors="ignore")
        cells = cells.expand_dims({REPETITION: [number]})
        placed.append(cells.assign(run=xr.full_like(cells["throughput"], number)))
    holes: dict[str, Any] = {str(name): np.nan for name in placed[0].data_vars}
    together: xr.Dataset = xr.concat(
        placed,
        REPETITION,
        data_vars="all",
        join="outer",
        fill_value=holes | {"status": 0, "flags": 0, "limit": "", "message": ""},
        combine_attrs="override",
    )
    return together.transpose(*axes, REPETITION)


def log_throughput(cells: xr.Dataset) -> Floats:
    """Return logarithms of throughput, runs × cells, last axis fastest; NaN for unmeasured cells."""
    flat = cells["throughput"].transpose(REPETITION, ...).values
    return np.asarray(np.log(flat.reshape(len(flat), -1)))


def mean_log_ratio(logs: Floats) -> Floats:
    """Return for each run the mean over cells of a cell's distance from its own mean over all runs.

    A cell that a run lacks does not move the mean of the others. A run without cells is NaN.
    """
    frame = pd.DataFrame(logs)
    return np.asarray((frame - frame.mean()).mean(axis=1), float)


def mean_cell(cells: xr.Dataset) -> xr.Dataset:
    """Return the mean of all cells as one cell: for each run, the ratio to the mean over all runs."""
    mean = mean_log_ratio(log_throughput(cells))
    about = (REPETITION, np.zeros(len(mean), np.int32), about_flags())
    return xr.Dataset(
        {"throughput": (REPETITION, np.exp(mean)), "flags": about},
        coords={REPETITION: cells[REPETITION].values},
    )
