# SPDX-License-Identifier: Apache-2.0
"""Datasets as others read them: lines of a monitoring server, OpenMetrics by its own parser, and Zarr by xarray."""

import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tpcsweep import dataset
from tpcsweep.exporting import UNITS, ExportError, exposition, monitoring_lines, zarr
from tpcsweep.flags import FLAGS
from tpcsweep.variables import SUMMARY

from tests.support import synthetic

AXES = {"cores": [0.5, None], "rtt": [5.0, 50.0], "streams": [1, 12], "repetition": [1, 2]}
FAILED = {"cores": 0.5, "rtt": 5.0, "streams": 1, "repetition": 1}
MISSING = {"cores": None, "rtt": 50.0, "streams": 12, "repetition": 2}


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A sweep with a cell that failed, one that is missing, and one with a flag; read back from its file."""
    folder = tmp_path_factory.mktemp("export")
    steady = {"not_steady": [{"cores": None, "rtt": 5.0, "streams": 1, "repetition": 2}]}
    files = synthetic.write_sweep(folder, AXES, failed=[FAILED], missing=[MISSING], flagged=steady)
    made = dataset.fold(files, AXES)
    dataset.write(made, folder / "dataset.nc")
    load = partial(xr.load_dataset, folder / "dataset.nc")
    return SimpleNamespace(summary=load(), samples=load(group="samples"))


def families(summary: xr.Dataset) -> dict[str, Any]:
    text = "".join(f"{line}\n" for line in exposition(summary))
    return {family.name: family for family in text_string_to_metric_families(text)}


def fields(summary: xr.Dataset, samples: xr.Dataset) -> list[list[str]]:
    return [line.split(", ") for line in monitoring_lines(summary, samples)]


def test_lines_have_the_published_form(folded: SimpleNamespace) -> None:
    found = fields(folded.summary, folded.samples)
    assert len({(row[0], row[4]) for row in found}) == len(found) == 2 * (16 - 2)
    assert [int(row[0]) for row in found] == sorted(int(row[0]) for row in found)
    where = {"cores": np.inf, "rtt": 50, "streams": 12, "repetition": 1}
    here = folded.summary.sel(where)
    ended = here.started.values.astype("datetime64[ms]").astype(int) + 1000 * float(here.duration)
    name = "http_m2m_{}_12s_04m_cores=none_rtt=50"
    average = folded.samples.goodput.sel(where).mean()
    for kind, value in (("avg", average), ("max", here.throughput_max)):
        [row] = [row for row in found if row[4] == name.format(kind)]
        assert row[:4] == [f"{ended:.0f}", "netns", "demo", "source->destination"]
        assert float(row[5]) == pytest.approx(125 * float(value), rel=1e-5)


@pytest.mark.parametrize(
    ("parameters", "begins"),
    [
        ({"tool": "iperf3", "tcp_buffer": 8_000_000}, "network_m2m_avg_01s_08m_cores"),
        ({"tool": "globus-url-copy", "layer": "memory_to_disk"}, "gridftp_m2d_avg_01s_04m_cores"),
        ({"tool": "xrdcp", "layer": "disk_to_disk"}, "xrootd_d2d_avg_01s_04m_cores"),
        ({"tool": "gfal-copy", "tcp_buffer": 1_500_001}, "http_m2m_avg_01s_1.5m_cores"),
    ],
)
def test_names_of_monitoring_lines(folded: SimpleNamespace, parameters: dict[str, Any], begins: str) -> None:
    summary = folded.summary.assign_coords(parameters).assign_attrs(testbed="=1+1,\nx", sweep="a, b")
    lines = fields(summary, folded.samples)
    assert {tuple(line[1:3]) for line in lines} == {("'=1+1 x", "a b")}
    assert {len(line) for line in lines} == {6}
    assert any(line[4].startswith(begins) for line in lines)


BUFFERS = {4_000_000: ["04m", "08m"], 8_000_000: ["08m_tcp_buffer=8000000", "08m_tcp_buffer=8388608"]}


@pytest.mark.parametrize(("size", "ends"), BUFFERS.items())
def test_similar_buffers_of_simulated_cells(tmp_path: Path, size: int, ends: list[str]) -> None:
    axes = {"tcp_buffer": [size, 8 * 2**20], "repetition": [1]}
    made = dataset.fold(synthetic.write_sweep(tmp_path, axes, kind="simulation"), axes)
    lines = fields(made.summary, made.samples)
    assert all(line[1].startswith("simulated:") for line in lines)
    names = {line[4] for line in lines if "_avg_" in line[4]}
    assert names == {f"http_m2m_avg_01s_{end}" for end in ends}
    found = families(made.summary)
    for family in found.values():
        assert all(sample.labels["testbed"].startswith("simulated:") for sample in family.samples)
    assert "simulated" in found["tpcsweep_throughput_bits_per_second"].documentation


def test_the_official_parser_reads_every_figure_with_its_unit(folded: SimpleNamespace) -> None:
    found = families(folded.summary)
    for name, variable in SUMMARY.items():
        unit, scale = UNITS[variable.units]
        family = found["_".join(filter(None, ("tpcsweep", name, unit)))]
        assert (family.type, family.unit, family.documentation) == ("gauge", unit, variable.long_name)
        for sample in family.samples:
            assert sample.labels.keys() == {"sweep", "testbed", *AXES}
            assert sample.labels["sweep"] == "demo"
            where = {axis: float(sample.labels[axis].replace("none", "inf")) for axis in AXES}
            cell = folded.summary.sel(where)
            assert sample.value == pytest.approx(scale * float(cell[name]), rel=1e-9)
            ended = cell.started.values.astype("datetime64[ns]").astype(int) / 1e9
            assert float(sample.timestamp) == pytest.approx(ended + float(cell.duration.fillna(0)), abs=1e-3)
    throughput = found["tpcsweep_throughput_bits_per_second"].samples
    assert len(throughput) == int((folded.summary.status == 1).sum()) == 14


def test_what_failed_and_what_is_flagged_is_said(folded: SimpleNamespace) -> None:
    found = families(folded.summary)
    ok, flags = found["tpcsweep_ok"].samples, found["tpcsweep_flags"].samples
    [failed] = [sample.labels for sample in ok if sample.value == 0]
    assert failed.items() >= {"cores": "0.5", "rtt": "5", "streams": "1", "repetition": "1"}.items()
    assert found["tpcsweep_flags"].type == "stateset"
    assert [sample.labels["tpcsweep_flags"] for sample in flags if sample.value == 1] == ["not_steady"]
    assert (len(ok), len(flags)) == (15, 15 * len(FLAGS))


@settings(max_examples=15)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_what_all_cells_share_is_said_once_and_any_text_survives(folded: SimpleNamespace, text: str) -> None:
    summary = folded.summary.isel(cores=[0], rtt=[0])[["status", "flags", "started", "duration"]]
    [sample] = families(summary.assign_attrs(cpu=text))["tpcsweep_sweep"].samples
    assert sample.name == "tpcsweep_sweep_info"
    expected = {"tool": "gfal-copy", "bandwidth": "1", "testbed_kind": "netns", "cpu": text}
    assert expected.items() <= sample.labels.items()


def test_a_dataset_without_times_is_refused(folded: SimpleNamespace) -> None:
    summary = folded.summary.assign(started=folded.summary.started.where(folded.summary.streams > 1))
    says = r"has no time of measurement for the cell cores=0\.5, rtt=5, streams=1, repetition=1, which"
    for export in (exposition, partial(monitoring_lines, samples=folded.samples)):
        with pytest.raises(ExportError, match=says):
            export(summary)


def test_a_store_has_all_groups_as_they_are_or_is_not_there(tmp_path: Path) -> None:
    axes = {"tool": ["curl", "native"], "cores": [0.5, None], "repetition": [1]}
    files = synthetic.write_sweep(tmp_path, axes, failed=[{"cores": 0.5, "repetition": 1}])
    dataset.write(dataset.fold(files, axes), tmp_path / "dataset.nc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zarr(tmp_path / "dataset.nc", tmp_path / "store.zarr")
    for group in dataset.GROUPS:
        was = xr.load_dataset(tmp_path / "dataset.nc", group=group)
        found = xr.open_zarr(tmp_path / "store.zarr", group=group, chunks=None).load()
        xr.testing.assert_identical(found, was)
    made = sorted(path.name for path in tmp_path.glob("*.*"))
    (tmp_path / "dataset.nc").write_text("none")
    with pytest.raises(ValueError, match="cannot be read"):
        zarr(tmp_path / "dataset.nc", tmp_path / "other.zarr")
    assert made == sorted(path.name for path in tmp_path.glob("*.*"))
    assert made == ["dataset.nc", "dataset.nc.sha256", "store.zarr"]
