# SPDX-License-Identifier: Apache-2.0
"""Datasets from elsewhere and of earlier versions: checked, copied, and completed.

A dataset of an earlier version lacks later variables. The copy gets them without values, so that readers of datasets
need to know one version alone.
"""

from __future__ import annotations

import contextlib
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

from tpcsweep.configuration.problems import ConfigurationError, refused
from tpcsweep.configuration.sides import STORE, SUFFIX
from tpcsweep.dataset.folding import encoding_of
from tpcsweep.dataset.labels import GROUPS, TRANSFERS_GROUP, attributes_of
from tpcsweep.dataset.tables import write_table
from tpcsweep.extras import require
from tpcsweep.files import note_checksum, replacing
from tpcsweep.variables import LIMITS, SAMPLES, SUMMARY, TRANSFERS, Variable

_ALWAYS = {
    "": ("throughput", "throughput_low", "throughput_high", "status", "flags", "message", "started"),
    "samples": ("goodput",),
    TRANSFERS_GROUP: ("stream", "start", "end", "ok"),
}
"""Variables of each group in datasets of every version."""
_TODAY: dict[str, Iterable[str]] = {
    "": (*SUMMARY, "limit"),
    "samples": SAMPLES,
    TRANSFERS_GROUP: TRANSFERS,
}
"""Variables of each group that readers need."""
_ATTRIBUTES = ("title", "source", "sweep", "testbed", "testbed_kind", "measured_from", "measured_until")
_FLAG_ATTRIBUTES = ("flag_masks", "flag_meanings")


def copy_completed(file: Path, output: Path) -> None:
    """Copy a dataset, whole or not at all, with every variable that datasets have today; write its table beside it.

    Raises:
        ConfigurationError: for a file that cannot be read or is not a dataset of tpcsweep; nothing is written.
        MissingExtraError: for a Zarr store without the extra `zarr`.
    """
    _copy(file, output)
    write_table(xr.load_dataset(output), output.with_name("cells.csv"))


@contextlib.contextmanager
def completed(file: Path) -> Iterator[Path]:
    """Lend a dataset with every variable that datasets have today: the file itself, or a temporary copy.

    Raises:
        ConfigurationError: for a file that cannot be read or is not a dataset of tpcsweep.
    """
    if require_dataset(file):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="tpcsweep-") as folder:
        copy = Path(folder, file.name)
        _copy(file, copy)
        yield copy


def require_dataset(file: Path, given: Path | None = None) -> bool:
    """Whether a NetCDF file has every variable that datasets have today; raises ConfigurationError, see `completed`.

    Errors name the `given` file, by default the file itself.
    """
    try:
        with netCDF4.Dataset(file) as dataset:
            lacks = [*_lacking(dataset)]
            whole = not lacks and all(
                name in (dataset[group] if group else dataset).variables
                for group, names in _TODAY.items()
                for name in names
            )
    except OSError as error:  # its number is below zero for a file of another format
        why = error.strerror if error.errno and error.errno > 0 else "it is no file of NetCDF 4"
        raise _refused(given or file, f"a file that cannot be read: {why}") from error
    if lacks:
        raise _refused(given or file, f"a dataset without {', '.join(lacks)}")
    return whole


def _lacking(dataset: netCDF4.Dataset) -> Iterator[str]:
    """Yield the parts of a dataset of any version that this one lacks."""
    for group, names in _ALWAYS.items():
        if group and group not in dataset.groups:
            yield f"the group {group}"
        else:
            known = (dataset[group] if group else dataset).variables
            yield from (f"{group}/{name}".strip("/") for name in names if name not in known)
    yield from (f"the attribute {name}" for name in _ATTRIBUTES if name not in dataset.ncattrs())
    if "flags" in dataset.variables:
        told = dataset["flags"].ncattrs()
        yield from (f"the attribute {name} of flags" for name in _FLAG_ATTRIBUTES if name not in told)


def _refused(file: Path, given: str) -> ConfigurationError:
    allowed = "a dataset of tpcsweep, such as results/demo/dataset.nc; `tpcsweep import` reads tables"
    return refused("dataset", given, allowed, str(file))


def _copy(file: Path, output: Path) -> None:
    if file.suffix != STORE:
        _complete_copy(file, output, file)
        return
    require("zarr")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as folder:
        copy = Path(folder) / file.with_suffix(SUFFIX).name
        try:
            for group in GROUPS:
                with xr.open_dataset(file, engine="zarr", group=group, cache=False) as content:
                    encoding = encoding_of(content)
                    content.to_netcdf(copy, mode="a", engine="netcdf4", group=group, encoding=encoding)
        except (OSError, ValueError, KeyError) as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise _refused(file, f"a folder that cannot be read as a Zarr store: {said}") from error
        _complete_copy(copy, output, file)


def _complete_copy(file: Path, output: Path, given: Path) -> None:
    """Copy a NetCDF file, which is the given file or was made of it."""
    require_dataset(file, given)
    with replacing(output) as part:
        shutil.copyfile(file, part)
        with netCDF4.Dataset(part, "a") as copy:
            _complete(copy, given.name)
    note_checksum(output)


def _complete(dataset: netCDF4.Dataset, name: str) -> None:
    """Add the variables that the groups lack, and to the history that this is a copy."""
    samples, transfers = dataset["samples"], dataset[TRANSFERS_GROUP]
    axes = dataset["throughput"].dimensions
    _add(dataset, SUMMARY, axes)
    if "limit" not in dataset.variables:
        nothing = np.full(dataset["throughput"].shape, "", object)
        _add(dataset, {"limit": Variable("", "what bound the throughput: not judged")}, axes, limit=nothing)
        dataset["limit"].flag_meanings = " ".join(LIMITS)
    _add(samples, SAMPLES, samples["goodput"].dimensions)
    if not transfers.variables.keys() >= TRANSFERS.keys():
        _add(transfers, TRANSFERS, ("transfer",), **_columns(dataset, transfers, axes))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    before = [dataset.history] if "history" in dataset.ncattrs() else []
    dataset.history = "\n".join([f"{now} tpcsweep: copied from {name}", *before])


def _columns(
    dataset: netCDF4.Dataset, transfers: netCDF4.Group, axes: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """Return columns of a table of transfers that follow from those that every version has."""
    stream, start, end = (np.asarray(transfers[name][:], float) for name in ("stream", "start", "end"))
    if "cell" in transfers.variables:
        cell = np.asarray(transfers["cell"][:])
    else:
        places = (
            pd.Index(np.asarray(dataset[axis][:])).get_indexer(np.asarray(transfers[axis][:]))
            for axis in axes
        )
        cell = np.ravel_multi_index(tuple(places), dataset["throughput"].shape)
    rows = pd.DataFrame({"cell": cell, "stream": stream, "start": start}).sort_values("start", kind="stable")
    number = rows.groupby(["cell", "stream"]).cumcount().sort_index().to_numpy(np.int32)
    empty = np.full(len(start), "", object)
    return {
        "cell": cell.astype(np.int64),
        "number": number,
        "total": end - start,
        "message": empty,
        "xrootd_direction": empty,
    }


def _add(
    group: netCDF4.Dataset,
    names: Mapping[str, Variable],
    dimensions: tuple[str, ...],
    **columns: NDArray[Any],
) -> None:
    """Add the variables that a group lacks: those of columns, and floats without values, which take no room."""
    for name, about in names.items():
        if name in group.variables:
            continue
        values = columns.get(name)
        if values is None:
            made = group.createVariable(name, "f8", dimensions, fill_value=np.nan, zlib=True)
        else:
            made = group.createVariable(name, str if values.dtype == object else values.dtype, dimensions)
            made[:] = values
        made.setncatts(attributes_of(about))
