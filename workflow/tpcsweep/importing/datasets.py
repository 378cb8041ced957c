# SPDX-License-Identifier: Apache-2.0
"""A dataset from elsewhere, in the place of one that is folded here: looked through, copied, and made complete.

One of an earlier version lacks what is recorded since. It gets these variables without values, so that whatever reads
datasets needs to know one version alone.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.problems import ConfigurationError, refused
from tpcsweep.configuration.sides import STORE, SUFFIX
from tpcsweep.dataset import GROUPS, TRANSFERS_GROUP
from tpcsweep.dataset.folding import encoding_of
from tpcsweep.dataset.labels import attributes_of
from tpcsweep.dataset.tables import write_table
from tpcsweep.extras import require
from tpcsweep.files import note_checksum, replacing
from tpcsweep.variables import LIMITS, SAMPLES, SUMMARY, TRANSFERS, Variable

_NEEDED = ("throughput", "throughput_low", "throughput_high", "status", "flags", "message", "started")
_ATTRIBUTES = ("title", "source", "sweep", "testbed", "testbed_kind", "measured_from", "measured_until")
_OF_FLAGS = ("flag_masks", "flag_meanings")
_OF_TRANSFERS = ("stream", "start", "end", "ok")
_TEXTS = ("message", "xrootd_direction")


def bring(file: Path, output: Path) -> None:
    """Copy a dataset, whole or not at all, with every variable that datasets have today; write its table beside it.

    Raises:
        ConfigurationError: for what cannot be read, and what is no dataset of ours; nothing is written.
        MissingExtraError: for a Zarr store without the extra `zarr`.
    """
    _copy(file, output)
    write_table(xr.load_dataset(output), output.with_name("cells.csv"))


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


@contextlib.contextmanager
def completed(file: Path) -> Iterator[Path]:
    """Lend a dataset with every variable that datasets have today: the file itself, or a temporary copy.

    Raises:
        ConfigurationError: for a file that cannot be read or is not a dataset of tpcsweep.
    """
    if require_dataset(file, file):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="tpcsweep-") as folder:
        copy = Path(folder, file.name)
        _copy(file, copy)
        yield copy


def require_dataset(file: Path, given: Path | None = None) -> bool:
    """Whether a NetCDF file has every variable that datasets have today; raises ConfigurationError, see `completed`."""
    try:
        with netCDF4.Dataset(file) as dataset:
            lacks = lacking(dataset)
            whole = not lacks and _is_complete(dataset)
    except OSError as error:  # of a number below zero where it is no file of that format
        why = error.strerror if error.errno and error.errno > 0 else "it is no file of NetCDF 4"
        raise _refused(given or file, f"a file that cannot be read: {why}") from error
    if lacks:
        raise _refused(given or file, f"a dataset without {', '.join(lacks)}")
    return whole


def _is_complete(dataset: netCDF4.Dataset) -> bool:
    groups = (
        (dataset, [*SUMMARY, "limit"]),
        (dataset["samples"], SAMPLES),
        (dataset[TRANSFERS_GROUP], TRANSFERS),
    )
    return all(name in group.variables for group, names in groups for name in names)


def _complete_copy(file: Path, output: Path, given: Path) -> None:
    """Copy a NetCDF file that was given, or was made of what was given."""
    require_dataset(file, given)
    with replacing(output) as part:
        shutil.copyfile(file, part)
        with netCDF4.Dataset(part, "a") as copy:
            _complete(copy, given.name)
    note_checksum(output)


def lacking(dataset: netCDF4.Dataset) -> list[str]:
    """Say what every dataset of ours has, whatever its version, and this one has not."""
    needed = {"": _NEEDED, "samples": ("goodput",), TRANSFERS_GROUP: _OF_TRANSFERS}
    lacks = []
    for name, variables in needed.items():
        if name and name not in dataset.groups:
            lacks.append(f"the group {name}")
        else:
            group = dataset[name] if name else dataset
            lacks += [
                f"{name}/{variable}".strip("/") for variable in variables if variable not in group.variables
            ]
    attributes = [(dataset, "", name) for name in _ATTRIBUTES]
    if "flags" in dataset.variables:
        attributes += [(dataset["flags"], " of flags", name) for name in _OF_FLAGS]
    return [
        *lacks,
        *(f"the attribute {name}{of}" for holder, of, name in attributes if name not in holder.ncattrs()),
    ]


def _refused(file: Path, given: str) -> ConfigurationError:
    allowed = "a dataset of tpcsweep, such as results/demo/dataset.nc; `tpcsweep import` reads tables"
    return refused("dataset", given, allowed, str(file))


def _complete(dataset: netCDF4.Dataset, name: str) -> None:
    """Add to all groups the variables that they lack, and to the history that this is a copy."""
    samples, transfers = dataset["samples"], dataset[TRANSFERS_GROUP]
    axes = dataset["throughput"].dimensions
    _add(dataset, SUMMARY, axes)
    if "limit" not in dataset.variables:
        made = dataset.createVariable("limit", str, axes)
        made.setncatts(
            {"long_name": "what bound the throughput: not judged", "flag_meanings": " ".join(LIMITS)}
        )
        made[:] = np.full(made.shape, "", dtype=object)
    _add(samples, SAMPLES, samples["goodput"].dimensions)
    _add_transfers(dataset, transfers, axes)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    before = [dataset.history] if "history" in dataset.ncattrs() else []
    dataset.history = "\n".join([f"{now} tpcsweep: copied from {name}", *before])


def _add(group: netCDF4.Dataset, known: Mapping[str, Variable], dimensions: tuple[str, ...]) -> None:
    """Add variables of floats without values: unwritten, they take no room."""
    for name, about in known.items():
        if name not in group.variables:
            made = group.createVariable(name, "f8", dimensions, fill_value=np.nan, zlib=True)
            made.setncatts(attributes_of(about))


def _add_transfers(dataset: netCDF4.Dataset, group: netCDF4.Group, axes: tuple[str, ...]) -> None:
    """Add what a table of transfers lacks: what its other columns tell is computed."""
    rows = ("transfer",)
    stream, start, end = (np.asarray(group[name][:], float) for name in ("stream", "start", "end"))
    if "cell" not in group.variables:
        places = [_places(dataset[axis][:], group[axis][:]) for axis in axes]
        _make(group, "cell", "i8")[:] = np.ravel_multi_index(places, dataset["throughput"].shape)
    if "number" not in group.variables:
        _make(group, "number", "i4")[:] = _numbers(np.asarray(group["cell"][:]), stream, start)
    if "total" not in group.variables:
        _make(group, "total", "f8", fill_value=np.nan)[:] = end - start
    for name in _TEXTS:
        if name not in group.variables:
            _make(group, name, str)[:] = np.full(len(start), "", dtype=object)
    _add(group, TRANSFERS, rows)


def _make(group: netCDF4.Group, name: str, kind: Any, **how: Any) -> netCDF4.Variable[Any]:
    """Add a column to a table of transfers."""
    made = group.createVariable(name, kind, ("transfer",), **how)
    made.setncatts(attributes_of(TRANSFERS[name]))
    return made


def _places(values: NDArray[Any], given: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each given value among those of an axis."""
    place = {value: at for at, value in enumerate(np.asarray(values).tolist())}
    return np.array([place[value] for value in np.asarray(given).tolist()], np.int64)


def _numbers(cell: NDArray[Any], stream: NDArray[Any], start: NDArray[Any]) -> NDArray[np.int32]:
    """Count the transfers of each stream of each cell in the order of their starts, from 0."""
    numbers = np.zeros(len(cell), np.int32)
    counted: dict[tuple[int, float], int] = {}
    for row in np.lexsort((start, stream, cell)):
        key = (int(cell[row]), float(stream[row]))
        numbers[row] = counted.get(key, 0)
        counted[key] = numbers[row] + 1
    return numbers
