# SPDX-License-Identifier: Apache-2.0
"""Open, check and copy datasets, and complete those that lack figures or parameters added later.

Readers get a dataset completed, and so know one kind only.
"""

import contextlib
import errno
import fcntl
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.extras import require_extra
from tpcsweep.common.files import file_kind, note_checksum, replacing_file
from tpcsweep.data.folding import netcdf_encoding
from tpcsweep.data.labels import (
    GROUPS,
    IMPORTED,
    SIMULATED,
    TRANSFERS_GROUP,
    coordinates,
    variable_attributes,
)
from tpcsweep.data.places import STORE
from tpcsweep.data.tables import write_table
from tpcsweep.data.variables import SAMPLES, SUMMARY, TRANSFERS, Variable
from tpcsweep.sweeps.parameters import BEFORE
from tpcsweep.sweeps.problems import ConfigurationError, refused

A_DATASET = "a dataset of tpcsweep, such as results/demo/dataset.nc; `tpcsweep import` reads tables"
_LOCKS = dict.fromkeys((errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS), "its file system has no locks")
_LOCKS[errno.EAGAIN] = "another process has locked it to write"
_REQUIRED = {
    "": (
        *("throughput", "throughput_low", "throughput_high", "throughput_freedom"),
        *("status", "flags", "limit", "limit_second", "message"),
        *("started", "provenance", "provenance_record"),
    ),
    "samples": ("goodput",),
    TRANSFERS_GROUP: ("cell", "stream", "number", "start", "end", "total", "ok"),
}
"""Variables of each group without which a file is no dataset."""
_ATTRIBUTES = (
    *("title", "summary", "source", "sweep", "testbed", "testbed_kind"),
    *("measured_from", "measured_until"),
)
_FIGURES: Mapping[str | None, tuple[Mapping[str, Variable], str]] = {
    None: (SUMMARY, "throughput"),
    "samples": (SAMPLES, "goodput"),
    TRANSFERS_GROUP: (TRANSFERS, "start"),
}
"""Figures of each group, and one whose shape they all have."""


def missing_variables(content: xr.Dataset, group: str | None = None) -> xr.Dataset:
    """Return the figures and parameters that were added after a group of a dataset was written.

    A figure is NaN everywhere, or "" if it is text. A parameter has the value that cells had before. Imported datasets
    get no parameter, because only those that their description names are known.
    """
    figures, like = _FIGURES[group]
    dimensions, shape = content[like].dims, content[like].shape
    kind = content.attrs.get("testbed_kind")
    added = {
        name: (
            dimensions,
            np.broadcast_to(_nothing(figure), shape),
            variable_attributes(name, figure, kind == SIMULATED),
        )
        for name, figure in figures.items()
        if name not in content.variables
    }
    # Single transfers have the axes alone.
    known = {} if group == TRANSFERS_GROUP or kind == IMPORTED else BEFORE
    fixed = {name: value for name, value in known.items() if name not in content.variables}
    return xr.Dataset(added, coordinates({}, fixed))


def _nothing(figure: Variable) -> NDArray[Any]:
    return np.array(np.nan) if figure.units else np.array("", object)  # text has no units


def copy_dataset(file: Path, output: Path) -> None:
    """Copy a dataset atomically, completed; write its table of cells next to it.

    Raises ConfigurationError if the file cannot be read or is not a dataset of tpcsweep, and MissingExtraError if it is
    a Zarr store and the extra `zarr` is not installed; nothing is written then.
    """
    if file.suffix == STORE:
        require_extra("zarr")
    else:
        require_dataset(file)
    with replacing_file(output) as part:
        if file.suffix == STORE:
            _convert_store(file, part)
            require_dataset(part, file)
        else:
            shutil.copyfile(file, part)
        for group in GROUPS:
            with _opened(part, group) as content:
                added = missing_variables(content, group)
                if group is None:
                    now = datetime.now(UTC).isoformat(timespec="seconds")
                    before = [content.attrs["history"]] if "history" in content.attrs else []
                    added.attrs["history"] = "\n".join([f"{now} tpcsweep: copied from {file.name}", *before])
            _append(part, group, added)
    note_checksum(output)
    write_table(load(output), output.with_name("cells.csv"))


def _convert_store(store: Path, output: Path) -> None:
    try:
        for group in GROUPS:
            with xr.open_dataset(
                store, engine="zarr", group=group, cache=False, consolidated=False
            ) as content:
                _append(output, group, content)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise _refused(store, f"a folder that cannot be read as a Zarr store: {reason}") from error


def _append(file: Path, group: str | None, content: xr.Dataset) -> None:
    content.to_netcdf(file, mode="a", engine="netcdf4", group=group, encoding=netcdf_encoding(content))


def require_dataset(file: Path, given: Path | None = None) -> None:
    """Raise ConfigurationError if a file cannot be read or is not a dataset of tpcsweep.

    The error names `given`, by default `file`.
    """
    with readable_dataset(file), netCDF4.Dataset(file) as dataset:
        if not dataset.data_model.startswith("NETCDF4"):
            way = f"NetCDF 4, as `nccopy -k netCDF-4 {file.name} NEW.nc` writes it"
            raise refused("dataset", "a file of NetCDF 3", way, str(given or file))
        if lacks := [*_lacking(dataset)]:
            raise _refused(given or file, f"a dataset without {', '.join(lacks)}")
        if wrong := _unusable(dataset):
            raise _refused(given or file, wrong)


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
    for group, names in _REQUIRED.items():
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


def load(file: Path, group: str | None = None) -> xr.Dataset:
    """Return a group of a dataset in memory, completed. Raise ConfigurationError if the file cannot be read."""
    with readable_dataset(file), open_group(file, group) as content:
        return content.load()


@contextlib.contextmanager
def open_group(file: Path, group: str | None = None, **how: Any) -> Iterator[xr.Dataset]:
    """Yield a lazily read group of a dataset, completed. Raise ConfigurationError if the file cannot be opened."""
    with _opened(file, group, **how) as content:
        added = missing_variables(content, group)
        yield content.assign(added.data_vars).assign_coords(added.coords)


@contextlib.contextmanager
def _opened(file: Path, group: str | None, **how: Any) -> Iterator[xr.Dataset]:
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
