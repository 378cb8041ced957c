# SPDX-License-Identifier: Apache-2.0
"""Open, check, copy and complete datasets, those from elsewhere and of earlier versions too.

Earlier datasets lack newer variables. The copy gets them without values, so that readers need to know one version only.
"""

import contextlib
import errno
import fcntl
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.places import STORE, SUFFIX
from tpcsweep.configuration.problems import ConfigurationError, refused
from tpcsweep.dataset.folding import netcdf_encoding
from tpcsweep.dataset.labels import GROUPS, TRANSFERS_GROUP, variable_attributes
from tpcsweep.dataset.tables import write_table
from tpcsweep.extras import require_extra
from tpcsweep.files import file_kind, note_checksum, replacing_file
from tpcsweep.variables import LIMITS, SAMPLES, SUMMARY, TRANSFERS, Variable

A_DATASET = "a dataset of tpcsweep, such as results/demo/dataset.nc; `tpcsweep import` reads tables"
_LOCKS = dict.fromkeys((errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS), "its file system has no locks")
_LOCKS[errno.EAGAIN] = "another process has locked it to write"
_ALWAYS = {
    "": ("throughput", "throughput_low", "throughput_high", "status", "flags", "message", "started"),
    "samples": ("goodput",),
    TRANSFERS_GROUP: ("stream", "start", "end", "ok"),
}
"""Variables of each group that datasets of every version contain."""
_LIMIT = {name: Variable("", "what bound the throughput: not judged") for name in ("limit", "limit_second")}
_TODAY: dict[str, Iterable[str]] = {"": (*SUMMARY, *_LIMIT), "samples": SAMPLES, TRANSFERS_GROUP: TRANSFERS}
"""Variables of each group that readers need."""
_ATTRIBUTES = ("title", "source", "sweep", "testbed", "testbed_kind", "measured_from", "measured_until")


def copy_completed(file: Path, output: Path) -> None:
    """Copy a dataset atomically, adding all current variables; write its table of cells next to it.

    Raises ConfigurationError if the file cannot be read or is not a dataset of tpcsweep, and MissingExtraError if it is
    a Zarr store and the extra `zarr` is not installed; nothing is written then.
    """
    _copy(file, output)
    write_table(load(output), output.with_name("cells.csv"))


@contextlib.contextmanager
def completed_dataset(file: Path) -> Iterator[Path]:
    """Yield a dataset with all current variables: the file itself, or a temporary copy.

    Raises ConfigurationError if the file cannot be read or is not a dataset of tpcsweep.
    """
    if require_dataset(file):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="tpcsweep-") as folder:
        copy = Path(folder, file.name)
        _copy(file, copy)
        yield copy


def require_dataset(file: Path, given: Path | None = None) -> bool:
    """Return whether a NetCDF file has all current variables; errors name `given`, by default `file`.

    Raises ConfigurationError if the file cannot be read or is not a dataset of tpcsweep.
    """
    with readable_dataset(file), netCDF4.Dataset(file) as dataset:
        if not dataset.data_model.startswith("NETCDF4"):
            way = f"NetCDF 4, as `nccopy -k netCDF-4 {file.name} NEW.nc` writes it"
            raise refused("dataset", "a file of NetCDF 3", way, str(given or file))
        if lacks := [*_lacking(dataset)]:
            raise _refused(given or file, f"a dataset without {', '.join(lacks)}")
        if wrong := _unusable(dataset):
            raise _refused(given or file, wrong)
        return all(
            name in (dataset[group] if group else dataset).variables
            for group, names in _TODAY.items()
            for name in names
        )


def _unusable(dataset: netCDF4.Dataset) -> str | None:
    throughput = dataset["throughput"]
    if not throughput.size:
        return "a dataset without cells"
    if np.dtype(throughput.dtype).kind not in "fiu":
        return "a throughput that is no number"
    known = SUMMARY["throughput"].units
    if (unit := getattr(throughput, "units", known)) != known:
        return f"a throughput in {unit}"
    rates = np.ma.filled(throughput[:].astype(float), np.nan)
    if np.any((rates < 0) | np.isinf(rates)):
        return "a negative or infinite throughput"
    axes = {name: dataset[name][:].tolist() for name in throughput.dimensions if name in dataset.variables}
    twice = [name for name, values in axes.items() if len(set(values)) < len(values)]
    return f"an axis with a value twice: {twice[0]}" if twice else None


def _lacking(dataset: netCDF4.Dataset) -> Iterator[str]:
    for group, names in _ALWAYS.items():
        if group and group not in dataset.groups:
            yield f"the group {group}"
        else:
            known = (dataset[group] if group else dataset).variables
            yield from (f"{group}/{name}".strip("/") for name in names if name not in known)
    yield from (f"the attribute {name}" for name in _ATTRIBUTES if name not in dataset.ncattrs())
    if "flags" in dataset.variables:
        lacking = {"flag_masks", "flag_meanings"}.difference(dataset["flags"].ncattrs())
        yield from (f"the attribute {name} of flags" for name in sorted(lacking))


def _refused(file: Path, given: str) -> ConfigurationError:
    return refused("dataset", given, A_DATASET, str(file))


def _copy(file: Path, output: Path) -> None:
    if file.suffix != STORE:
        _complete_copy(file, output, file)
        return
    require_extra("zarr")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as folder:
        copy = Path(folder) / file.with_suffix(SUFFIX).name
        try:
            for group in GROUPS:
                with xr.open_dataset(
                    file, engine="zarr", group=group, cache=False, consolidated=False
                ) as content:
                    _append(copy, group, content)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise _refused(file, f"a folder that cannot be read as a Zarr store: {said}") from error
        _complete_copy(copy, output, file)


def _complete_copy(file: Path, output: Path, given: Path) -> None:
    require_dataset(file, given)
    with replacing_file(output) as part:
        shutil.copyfile(file, part)
        summaries, series, moved = (open_group(part, group) for group in GROUPS)
        with summaries as summary, series as samples, moved as transfers:
            limit = dict.fromkeys(_LIMIT, np.full(summary["throughput"].shape, "", object))
            derived = {} if transfers.variables.keys() >= TRANSFERS.keys() else _columns(summary, transfers)
            added = {
                None: _later(summary, SUMMARY | _LIMIT, "throughput", limit),
                "samples": _later(samples, SAMPLES, "goodput", {}),
                TRANSFERS_GROUP: _later(transfers, TRANSFERS, "start", derived),
            }
            now = datetime.now(UTC).isoformat(timespec="seconds")
            before = [summary.attrs["history"]] if "history" in summary.attrs else []
        if "limit" in added[None]:
            added[None]["limit"].attrs["flag_meanings"] = " ".join(LIMITS)
        added[None].attrs["history"] = "\n".join([f"{now} tpcsweep: copied from {given.name}", *before])
        for group, content in added.items():
            _append(part, group, content)
    note_checksum(output)


def _later(
    group: xr.Dataset, today: Mapping[str, Variable], like: str, columns: Mapping[str, NDArray[Any]]
) -> xr.Dataset:
    """Return current variables that a group lacks, shaped like `like`, with values of `columns` or NaN."""
    nothing = np.broadcast_to(np.nan, group[like].shape)
    return xr.Dataset(
        {
            name: (group[like].dims, columns.get(name, nothing), variable_attributes(about))
            for name, about in today.items()
            if name not in group.variables
        }
    )


def _columns(summary: xr.Dataset, transfers: xr.Dataset) -> dict[str, NDArray[Any]]:
    stream, start, end = (transfers[name].values for name in ("stream", "start", "end"))
    if "cell" in transfers:
        cell = transfers["cell"].values
    else:
        throughput = summary["throughput"]
        places = (summary.indexes[axis].get_indexer(transfers[axis].values) for axis in throughput.dims)
        cell = np.ravel_multi_index(tuple(places), throughput.shape)
    rows = pd.DataFrame({"cell": cell, "stream": stream, "start": start}).sort_values("start", kind="stable")
    empty = np.full(len(start), "", object)
    return {
        "cell": cell.astype(np.int64),
        "number": rows.groupby(["cell", "stream"]).cumcount().sort_index().to_numpy(np.int32),
        "total": end - start,
        "message": empty,
        "xrootd_direction": empty,
    }


def _append(file: Path, group: str | None, content: xr.Dataset) -> None:
    content.to_netcdf(file, mode="a", engine="netcdf4", group=group, encoding=netcdf_encoding(content))


def load(file: Path, group: str | None = None) -> xr.Dataset:
    """Return a group of a dataset in memory. Raise ConfigurationError if the file cannot be read."""
    with readable_dataset(file), xr.open_dataset(file, engine="netcdf4", group=group) as content:
        return content.load()


@contextlib.contextmanager
def open_group(file: Path, group: str | None = None, **how: Any) -> Iterator[xr.Dataset]:
    """Yield a lazily read group of a dataset. Raise ConfigurationError if the file cannot be opened."""
    with readable_dataset(file):
        content = xr.open_dataset(file, engine="netcdf4", group=group, **how)
    with content:
        yield content


@contextlib.contextmanager
def readable_dataset(file: Path) -> Iterator[None]:
    """Convert errors of reading a file to a ConfigurationError with the fix."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: damage behind the part that is read first
        why, way = _reason(file)
        raise refused("dataset", f"a file that cannot be read: {why}", way, str(file)) from error


def _reason(file: Path) -> tuple[str, str]:
    """Return why a file cannot be read, and the fix, because the libraries report only a number."""
    try:
        with file.open("rb") as content:
            start = content.read(8)
            fcntl.flock(content, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        way = "one without a lock; HDF5_USE_FILE_LOCKING=FALSE in the environment reads it as it is"
        why = _LOCKS.get(error.errno or 0)
        return why or str(error.strerror), way if why else "a file that you may read"
    if start[:4] == b"\x89HDF":
        way = "a whole file: copy it again, or delete it and run snakemake again"
        return "it is damaged or cut short", way
    why = f"it is {kind}" if (kind := file_kind(start)) else "it is no file of NetCDF 4"
    return why if start else "it is empty", A_DATASET
