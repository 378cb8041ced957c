# SPDX-License-Identifier: Apache-2.0
"""Files that are held, damaged or of another kind: each has its own line, with a way out."""

import errno
import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import xarray as xr
from tpcsweep.configuration.problems import ConfigurationError
from tpcsweep.dataset import load, opened
from tpcsweep.dataset.earlier import completed, require_dataset

from tests.support.commands import tpcsweep
from tests.support.workflow import ROOT

WHOLE = (ROOT / "examples/surface.nc").read_bytes()
ENTERED = (lambda file: opened(file).__enter__(), lambda file: completed(file).__enter__())
OPENINGS = (load, require_dataset, *ENTERED)
Way = Callable[[Path], object]
Patch = pytest.MonkeyPatch


def of_bytes(content: bytes) -> Way:
    return lambda file: file.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "why", "way"),
    [
        (of_bytes(b""), "it is empty", "a dataset of tpcsweep"),
        (of_bytes(b"streams,gbps\n1,2\n"), "it is no file of NetCDF 4", "`tpcsweep import` reads tables"),
        (of_bytes(WHOLE[:5]), "it is no file of NetCDF 4", "a dataset of tpcsweep"),
        (of_bytes(WHOLE[:600_000]), "it is damaged or cut short", "copy it again"),
        (of_bytes(WHOLE[:100] + bytes(3000) + WHOLE[3100:]), "it is damaged or cut short", "copy it again"),
        (of_bytes(b"PK\x03\x04" + bytes(100)), "it is no file of NetCDF 4", "a dataset of tpcsweep"),
        (Path.mkdir, "Is a directory", "a file that you may read"),
        (lambda file: file.symlink_to("nowhere"), "No such file or directory", "a file that you may read"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("opening", OPENINGS)
def test_an_unreadable_file_has_its_line(tmp_path: Path, make: Way, why: str, way: str, opening: Way) -> None:
    make(file := tmp_path / "x.nc")
    with pytest.raises(ConfigurationError) as raised:
        opening(file)
    line = rf"{re.escape(str(file))}: dataset: given a file that cannot be read: {why}, allowed: .*{re.escape(way)}.*"
    assert re.fullmatch(line, str(raised.value))


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_file_that_another_process_writes_is_locked(tmp_path: Path, opening: Way) -> None:
    (file := tmp_path / "x.nc").write_bytes(WHOLE)
    said = r"another process has locked it.*HDF5_USE_FILE_LOCKING=FALSE"
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match=said):
            opening(file)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOLCK, "its file system has no locks, allowed: .*HDF5_USE_FILE_LOCKING=FALSE"),
        (errno.ENOTSUP, "its file system has no locks"),
        (errno.EACCES, "Permission denied, allowed: a file that you may read"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_file_system_says_why(tmp_path: Path, monkeypatch: Patch, number: int, said: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    (file := tmp_path / "x.nc").write_bytes(WHOLE)
    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(xr, "open_dataset", refuse)
    with pytest.raises(ConfigurationError, match=said):
        load(file)


def test_netcdf_3_is_told_from_datasets_that_lack_groups(tmp_path: Path) -> None:
    bare = load(ROOT / "examples/surface.nc")[["throughput"]].reset_coords(drop=True)
    bare.to_netcdf(tmp_path / "x.nc", format="NETCDF3_64BIT", engine="netcdf4")
    done = tpcsweep("claims", tmp_path / "x.nc")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "given a file of NetCDF 3, allowed: NetCDF 4, as `nccopy -k netCDF-4 x.nc NEW.nc`" in done.stderr
