# SPDX-License-Identifier: Apache-2.0
"""Files of datasets: opened, refused in their own line with a way out, and completed."""

import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import xarray as xr
from tpcsweep.data import exporting, folding, labels
from tpcsweep.data.opening import copy_dataset, load, open_group, require_dataset
from tpcsweep.data.places import DatasetStudy, load_dataset
from tpcsweep.data.variables import SUMMARY
from tpcsweep.sweeps.parameters import BEFORE
from tpcsweep.sweeps.problems import ConfigurationError

from tests.support.commands import tpcsweep
from tests.support.synthetic import write_sweep
from tests.support.workflow import ROOT

SURFACE = ROOT / "examples/surface.nc"
WHOLE = SURFACE.read_bytes()
OPENINGS = (load, require_dataset, lambda file: open_group(file).__enter__())
Way = Callable[[Path], object]
Change = Callable[[xr.Dataset], xr.Dataset]
Patch = pytest.MonkeyPatch


def of_bytes(content: bytes) -> Way:
    return lambda file: file.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "why", "way"),
    [
        (of_bytes(b""), "it is empty", "a dataset of tpcsweep"),
        (of_bytes(b"streams,gbps\n1,2\n"), "it is no file of NetCDF 4", "`tpcsweep import` reads tables"),
        (of_bytes(WHOLE[:5]), "it is damaged or cut short", "copy it again"),
        (of_bytes(WHOLE[:600_000]), "it is damaged or cut short", "copy it again"),
        (of_bytes(WHOLE[:100] + bytes(3000) + WHOLE[3100:]), "it is damaged or cut short", "copy it again"),
        (of_bytes(b"PK\x03\x04" + bytes(100)), "it is a ZIP file.*", "a dataset of tpcsweep"),
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


def test_netcdf_3_and_datasets_without_groups_have_different_errors(tmp_path: Path) -> None:
    bare = load(ROOT / "examples/surface.nc")[["throughput"]].reset_coords(drop=True)
    bare.to_netcdf(tmp_path / "x.nc", format="NETCDF3_64BIT", engine="netcdf4")
    done = tpcsweep("claims", tmp_path / "x.nc")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "given a file of NetCDF 3, allowed: NetCDF 4, as `nccopy -k netCDF-4 x.nc NEW.nc`" in done.stderr


def loaded(source: Path | str) -> DatasetStudy:
    return load_dataset(str(source), Path("results"), ROOT)


def test_a_file_that_is_not_there_or_has_a_name_of_signs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a b.nc").touch()
    missing = "dataset: given 'examples/surfaces.nc', allowed: the path of a dataset that exists.*"
    for name, said in (
        ("examples/surfaces.nc", f"{missing}examples contains surface.nc$"),
        ("nowhere/a.nc", "nowhere contains none"),
        (tmp_path / "a b.nc", "a file name of letters"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            loaded(name)


def groups_of(*files: Path) -> Iterator[list[xr.Dataset]]:
    for group in labels.GROUPS:
        yield [xr.load_dataset(file, group=group) for file in files]


YOUNGER = {
    None: ["client_cpu", "encryption"],
    "samples": ["busy", "encryption"],
    "transfer_times": ["rate", "message"],
}
"""Figures of each group, and a parameter, that a dataset lacks as if they were added after it was written."""


def test_a_dataset_gets_the_figures_and_parameters_that_were_added_later(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setitem(BEFORE, "encryption", "none")
    (file, copy) = (tmp_path / name for name in ("dataset.nc", "copy.nc"))
    copy_dataset(SURFACE, tmp_path / "whole.nc")  # with all figures and parameters of today
    wholes = [xr.load_dataset(tmp_path / "whole.nc", group=group) for group in labels.GROUPS]
    for (group, names), whole in zip(YOUNGER.items(), wholes, strict=True):
        whole.drop_vars(names).to_netcdf(file, mode="a" if group else "w", group=group)
    copy_dataset(file, copy)
    for whole, opened, copied in zip(
        wholes, map(partial(load, file), YOUNGER), map(partial(load, copy), YOUNGER), strict=True
    ):
        opened.attrs.pop("history", None), copied.attrs.pop("history", None)
        xr.testing.assert_identical(opened, copied)
        assert opened.variables.keys() == whole.variables.keys()
        assert opened.coords.keys() == whole.coords.keys()
    summary, samples, transfers = map(partial(load, file), YOUNGER)
    assert summary.client_cpu.isnull().all() and summary.client_cpu.attrs == labels.variable_attributes(
        "client_cpu", SUMMARY["client_cpu"]
    )
    assert samples.busy.isnull().all() and transfers.rate.isnull().all()
    assert (transfers.message == "").all()
    assert {str(group.encryption.item()) for group in (summary, samples)} == {"none"}


def test_a_whole_dataset_stays_as_it_is(tmp_path: Path) -> None:
    axes, file = {"rtt": [5.0, 50.0], "streams": [1, 2], "repetition": [1]}, tmp_path / "current.nc"
    folding.write(folding.fold(write_sweep(tmp_path, axes), axes), file)
    copy_dataset(file, tmp_path / "copy.nc")
    for was, now in groups_of(file, tmp_path / "copy.nc"):
        assert now.drop_attrs(deep=False).identical(was.drop_attrs(deep=False))
        assert now.attrs.get("history", "").endswith(was.attrs.get("history", ""))
    assert (
        xr.load_dataset(tmp_path / "copy.nc")
        .attrs["history"]
        .splitlines()[0]
        .endswith("copied from current.nc")
    )


def test_a_store_comes_back_as_its_file_does(tmp_path: Path) -> None:
    store = tmp_path / "theirs" / "dataset.zarr"
    exporting.zarr(SURFACE, store)
    assert str(loaded(store).folder) == "results/theirs"
    copy_dataset(store, tmp_path / "of-store.nc")
    copy_dataset(SURFACE, tmp_path / "of-file.nc")
    for of_file, of_store in groups_of(tmp_path / "of-file.nc", tmp_path / "of-store.nc"):
        of_file.attrs.pop("history", None), of_store.attrs.pop("history", None)
        xr.testing.assert_identical(of_store, of_file)
    with pytest.raises(ConfigurationError, match=r"theirs contains dataset\.zarr"):
        loaded(store.with_name("other.zarr"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda ds: ds.isel({ds.throughput.dims[0]: slice(0)}), "a dataset without cells, allowed: a dataset of"),
        (lambda ds: xr.concat([ds, ds], ds.throughput.dims[0], data_vars="minimal"), "an axis with a value twice: "),
        (lambda ds: ds.assign(throughput=ds.throughput.assign_attrs(units="MB/s")), "a throughput in MB/s, allowed"),
        (lambda ds: ds.assign(throughput=ds.throughput.astype(str)), "a throughput that is no number"),
        (lambda ds: ds.assign(throughput=-ds.throughput), "a negative or infinite throughput"),
        (lambda ds: ds.assign(throughput=ds.throughput / 0), "a negative or infinite throughput"),
        (lambda ds: ds.drop_attrs(deep=False), "a dataset without the attribute title, .* the attribute testbed_kind,"),
    ],
)  # fmt: skip
def test_a_dataset_with_something_wrong_is_refused(tmp_path: Path, change: Change, said: str) -> None:
    file = tmp_path / "odd.nc"
    for group in labels.GROUPS:
        content = xr.load_dataset(SURFACE, group=group).drop_encoding()
        content = content if group else change(content)
        content.to_netcdf(file, mode="a" if group else "w", group=group)
    with pytest.raises(ConfigurationError, match=rf"odd\.nc: dataset: given {said}"):
        copy_dataset(file, tmp_path / "output.nc")
    assert [*tmp_path.iterdir()] == [file]


def test_what_is_no_dataset_of_ours_is_refused(tmp_path: Path) -> None:
    one = xr.Dataset({"throughput": ("x", [1.0])})
    one.to_netcdf(tmp_path / "other.nc")
    one.to_zarr(tmp_path / "other.zarr", zarr_format=2)
    (tmp_path / "empty.zarr").mkdir()
    for name, said in {
        "other.nc": "given a dataset without throughput_low, .* the group samples",
        "other.zarr": "other.zarr: dataset: given a folder that cannot be read",
        "empty.zarr": "given a folder that cannot be read as .*: No group",
    }.items():
        with pytest.raises(ConfigurationError, match=said):
            copy_dataset(tmp_path / name, tmp_path / "output.nc")
    assert len([*tmp_path.iterdir()]) == 3
