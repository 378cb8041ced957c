# SPDX-License-Identifier: Apache-2.0
"""Open dataset files; an unreadable file causes a one-line error with the fix."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xarray as xr

from tpcsweep.configuration.problems import refused

A_DATASET = "a dataset of tpcsweep, such as results/demo/dataset.nc; `tpcsweep import` reads tables"
_LOCKS = dict.fromkeys((errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS), "its file system has no locks")
_LOCKS[errno.EAGAIN] = "another process has locked it to write"


def load(file: Path, group: str | None = None) -> xr.Dataset:
    """Return a group of a dataset in memory. Raise ConfigurationError if the file cannot be read."""
    with readable(file), xr.open_dataset(file, engine="netcdf4", group=group) as content:
        return content.load()


@contextmanager
def opened(file: Path, group: str | None = None, **how: Any) -> Iterator[xr.Dataset]:
    """Yield a lazily read group of a dataset. Raise ConfigurationError if the file cannot be opened."""
    with readable(file):
        content = xr.open_dataset(file, engine="netcdf4", group=group, **how)
    with content:
        yield content


@contextmanager
def readable(file: Path) -> Iterator[None]:
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
    if start == b"\x89HDF\r\n\x1a\n":
        way = "a whole file: copy it again, or delete it and run snakemake again"
        return "it is damaged or cut short", way
    return "it is no file of NetCDF 4" if start else "it is empty", A_DATASET
