# SPDX-License-Identifier: Apache-2.0
"""Datasets from elsewhere: what becomes of earlier ones, what their results are called, and what is refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
from tpcsweep import dataset, exporting, figures
from tpcsweep.configuration.loading import ConfigurationError, Imported, load_dataset
from tpcsweep.dataset import tables
from tpcsweep.dataset.earlier import copy_completed
from tpcsweep.variables import SAMPLES, SUMMARY, TRANSFERS

from tests.support.synthetic import write_sweep
from tests.support.workflow import ROOT

EARLIER = ROOT / "examples/surface.nc"


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory) -> Path:
    axes = {"rtt": [5.0, 50.0], "streams": [1, 2], "repetition": [1]}
    file = tmp_path_factory.mktemp("current") / "mine/dataset.nc"
    dataset.write(dataset.fold(write_sweep(file.parent, axes), axes), file)
    return file


def loaded(source: Path | str) -> Imported:
    return load_dataset(str(source), Path("results"), ROOT)


def test_results_are_called_by_the_file_and_by_its_folder_where_all_are_called_alike(current: Path) -> None:
    assert str(loaded("examples/surface.nc").folder) == "results/surface"
    assert str(loaded(current).folder) == "results/mine"
    assert loaded(current).file == current


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


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("earlier") / "brought.nc"
    copy_completed(EARLIER, file)
    return file


def groups_of(*files: Path) -> Iterator[list[xr.Dataset]]:
    for group in dataset.GROUPS:
        yield [xr.load_dataset(file, group=group) for file in files]


def test_an_earlier_one_gets_what_it_lacks_and_keeps_what_it_has(brought: Path) -> None:
    pairs = groups_of(EARLIER, brought)
    for variables, (was, now) in zip((SUMMARY, SAMPLES, TRANSFERS), pairs, strict=True):
        assert set(variables) <= set(now.data_vars)
        assert now[list(was.data_vars)].drop_attrs(deep=False).identical(was.drop_attrs(deep=False))
    summary = xr.load_dataset(brought)
    assert set(np.unique(summary.limit.values)) == {""}
    assert summary.attrs["history"].splitlines()[0].endswith("copied from surface.nc")


def test_of_an_earlier_one_the_same_is_made(brought: Path) -> None:
    summary = xr.load_dataset(brought)
    transfers = xr.load_dataset(brought, group="transfer_times")
    fastest = tables.fastest(summary, transfers)
    rows = tables.of_cell(transfers, fastest)
    cell = summary.throughput.stack(at=summary.throughput.dims).isel(at=fastest)
    at = transfers.isel(transfer=transfers.cell.values == fastest)
    for axis in ("origins", "cores", "rtt", "streams"):
        assert set(at[axis].values) == {cell[axis].item()}
    assert len(rows) == at.sizes["transfer"] + 2
    assert (at.total == at.end - at.start).all()
    for stream in np.unique(at.stream):
        of = at.isel(transfer=at.stream.values == stream).sortby("start")
        assert of.number.values.tolist() == list(range(of.sizes["transfer"]))
    assert figures.limits(summary).texts


def test_a_dataset_of_this_version_stays_as_it_is(current: Path, tmp_path: Path) -> None:
    copy_completed(current, tmp_path / "brought.nc")
    for was, now in groups_of(current, tmp_path / "brought.nc"):
        assert now.drop_attrs(deep=False).identical(was.drop_attrs(deep=False))
        assert now.attrs.get("history", "").endswith(was.attrs.get("history", ""))


def test_a_store_comes_back_as_its_file_does(brought: Path, tmp_path: Path) -> None:
    store = tmp_path / "theirs" / "dataset.zarr"
    exporting.zarr(EARLIER, store)
    assert str(loaded(store).folder) == "results/theirs"
    copy_completed(store, tmp_path / "of-store.nc")
    for of_file, of_store in groups_of(brought, tmp_path / "of-store.nc"):
        of_file.attrs.pop("history", None), of_store.attrs.pop("history", None)
        xr.testing.assert_identical(of_store, of_file)
    with pytest.raises(ConfigurationError, match=r"theirs contains dataset\.zarr"):
        loaded(store.with_name("other.zarr"))


def test_what_is_no_dataset_of_ours_is_refused_in_plain_words(tmp_path: Path) -> None:
    one = xr.Dataset({"throughput": ("x", [1.0])})
    one.to_netcdf(tmp_path / "other.nc")
    one.to_zarr(tmp_path / "other.zarr", zarr_format=2)
    (tmp_path / "empty.zarr").mkdir()
    (tmp_path / "text.nc").write_text("a,b\n")
    shutil.copy(EARLIER, tmp_path / "bare.nc")
    with netCDF4.Dataset(tmp_path / "bare.nc", "a") as dataset_file:
        dataset_file.delncattr("testbed_kind")
    groups = {group: xr.load_dataset(EARLIER, group=group) for group in ("samples", "transfer_times")}
    whole = xr.load_dataset(EARLIER)
    axis = whole.throughput.dims[0]
    odd = {
        "empty.nc": whole.isel({axis: slice(0)}),
        "twice.nc": xr.concat([whole, whole], axis, data_vars="minimal"),
        "unit.nc": whole.assign(throughput=whole.throughput.assign_attrs(units="MB/s")),
        "words.nc": whole.assign(throughput=whole.throughput.astype(str)),
        "below.nc": whole.assign(throughput=-whole.throughput),
        "endless.nc": whole.assign(throughput=whole.throughput / 0),
    }
    for name, root in odd.items():
        for group, content in {None: root, **groups}.items():
            content.drop_encoding().to_netcdf(tmp_path / name, mode="a" if group else "w", group=group)
    before = {*tmp_path.iterdir()}
    for name, says in {
        "other.nc": "given a dataset without throughput_low, .* the group samples",
        "empty.nc": "empty.nc: dataset: given a dataset without cells, allowed: a dataset of tpcsweep",
        "twice.nc": "given an axis with a value twice: ",
        "unit.nc": "given a throughput in MB/s, allowed",
        "words.nc": "words.nc: dataset: given a throughput that is no number",
        "below.nc": "given a negative or infinite throughput",
        "endless.nc": "given a negative or infinite throughput",
        "text.nc": "text.nc: dataset: given a file that cannot be read: .* NetCDF 4",
        "bare.nc": "without the attribute testbed_kind, allowed: a dataset of tpcsweep",
        "other.zarr": "other.zarr: dataset: given a folder that cannot be read",
        "empty.zarr": "given a folder that cannot be read as .*: No group",
    }.items():
        with pytest.raises(ConfigurationError, match=says):
            copy_completed(tmp_path / name, tmp_path / "output.nc")
    assert {*tmp_path.iterdir()} == before
