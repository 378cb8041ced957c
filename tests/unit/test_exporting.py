# SPDX-License-Identifier: Apache-2.0
"""Datasets as others read them: monitoring lines, OpenMetrics and its dashboard, Zarr, and tables as CSV."""

import csv
import io
import json
import re
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tpcsweep import dataset
from tpcsweep.dataset.tables import escape_formula, write_csv
from tpcsweep.exporting import UNITS, ExportError, exposition, monitoring_lines, zarr
from tpcsweep.flags import FLAGS
from tpcsweep.importing import read_table
from tpcsweep.testbeds.kubernetes.pod.metrics import CellMetrics
from tpcsweep.variables import QUANTITIES, SUMMARY

from tests.support import synthetic
from tests.support.dashboards import asked, dashboard, queries

AXES = {"cores": [0.5, None], "rtt": [5.0, 50.0], "streams": [1, 12], "repetition": [1, 2]}
FAILED = {"cores": 0.5, "rtt": 5.0, "streams": 1, "repetition": 1}
MISSING = {"cores": None, "rtt": 50.0, "streams": 12, "repetition": 2}
VARIABLES = {"sweep": "demo", "testbed": "netns"}


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


@pytest.fixture(scope="module")
def written(folded: SimpleNamespace) -> dict[str, set[str]]:
    # What is not known of a made-up cell is written of a real one.
    known = {name: folded.summary[name].fillna(1.0) for name in SUMMARY}
    summary = folded.summary.assign(known).expand_dims("origins")
    running = CellMetrics()
    running.begin(VARIABLES, {"deployment": "a", "streams": "4"})
    for of in ("src1", "dst1", "client"):
        running.update({"of": of, "sample": dict.fromkeys(QUANTITIES, 1.0)})
    found: dict[str, set[str]] = {}
    for lines in (exposition(summary), running.lines()):
        for family in text_string_to_metric_families("".join(f"{line}\n" for line in lines)):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_query_names_what_is_written(written: dict[str, set[str]]) -> None:
    every = list(queries(VARIABLES))
    assert len(every) > 10
    for title, query in every:
        metrics, labels = asked(query)
        assert metrics and metrics <= set(written), title
        assert {"sweep", "testbed"} <= labels, title
        for metric in metrics:
            assert labels <= written[metric], title


def test_legends_and_variables_name_what_is_written(written: dict[str, set[str]]) -> None:
    content = dashboard()
    for panel in content["panels"]:
        for target in panel.get("targets", ()):
            (metric,) = asked(target["expr"])[0]
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= written[metric], panel["title"]
    for variable in content["templating"]["list"][1:]:
        said = re.fullmatch(r"label_values\(\{__name__=~\"(.+?)\".*\}, (\w+)\)", variable["query"]["query"])
        assert all(said[2] in written[metric] for metric in said[1].split("|"))
    columns = next(panel for panel in content["panels"] if panel["type"] == "table")["transformations"][0]
    hidden = set(columns["options"]["excludeByName"]) - {"Time", "Value", "__name__", "job", "instance"}
    assert hidden | set(columns["options"]["indexByName"]) <= written["tpcsweep_sweep_info"]


def test_grafanas_own_library_reads_all_of_it() -> None:
    register_default_plugins()
    content = dashboard()
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(content)))
    assert common(content, again) == content


def common(ours: Any, theirs: Any) -> Any:
    """The second of two documents, without the keys that the first lacks."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {key: common(ours[key], theirs[key]) for key in ours.keys() & theirs.keys()}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [common(*pair) for pair in zip(ours, theirs, strict=True)]
    return theirs


FORMULAS = st.builds("".join, st.lists(st.sampled_from([*"=+-@＝;, \t\r\n'\"a1"]), max_size=12))
TEXTS = st.text(max_size=20) | FORMULAS
ATTACKS = ['=HYPERLINK("http://x")', "+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(A1)"]
SUMS = ["\t=1+1", "  =1+1", "＝1+1", "a\n=1+1", "a;=1+1", "'=1+1"]


@pytest.mark.parametrize("text", [*ATTACKS, *SUMS])
def test_a_formula_becomes_text(text: str) -> None:
    for separator in ",;\t":
        cells = next(csv.reader([escape_formula(text).replace("\n", separator)], delimiter=separator))
        assert not any(cell.strip().startswith(tuple("=+-@＝")) for cell in cells)


@pytest.mark.parametrize("text", ["-5", "+1.5e-3", "-.5", "curl", "a-b", "x = 1", "5.8.1", "", "it's"])
def test_numbers_and_other_words_stay_as_they_are(text: str) -> None:
    assert escape_formula(text) == text


@settings(max_examples=20)
@given(st.lists(st.tuples(TEXTS, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=5))
def test_what_importing_reads_back_is_what_was_written(tmp_path_factory: Any, cells: list[Any]) -> None:
    file = tmp_path_factory.mktemp("table") / "cells.csv"
    frame = pd.DataFrame(cells, columns=["=name", "figure"]).assign(last="x")
    write_csv(frame, file, digits=None)
    table = read_table(file)
    assert table.columns.tolist() == ["=name", "figure", "last"]
    assert table["=name"].tolist() == [re.sub("\r\n?", "\n", text) for text, _ in cells]
    assert [float(value) for value in table["figure"]] == [value for _, value in cells]


def test_pandas_reads_numbers_as_numbers_and_a_table_without_rows_has_its_head(tmp_path: Path) -> None:
    write_csv(pd.DataFrame({"a": [], "=b": []}), tmp_path / "empty.csv")
    assert list(csv.reader(io.StringIO((tmp_path / "empty.csv").read_text()))) == [["a", "'=b"]]
    kept = {"streams": [-1, 2], "ok": [True, False]}
    content = {"limit": ["=1+1", "-5"], "throughput": [-0.123456789, np.nan], **kept}
    content["site"] = pd.Categorical(["@a", "b"])
    frame = pd.DataFrame(content, index=pd.Index(["+a", "b"], name="-x"))
    write_csv(frame, tmp_path / "some/cells.csv", index=True)
    table = pd.read_csv(tmp_path / "some/cells.csv").fillna(0.0)
    expected = {"limit": ["'=1+1", "-5"], "throughput": [-0.123457, 0.0], **kept, "site": ["'@a", "b"]}
    assert table.to_dict("list") == {"'-x": ["'+a", "b"], **expected}
    assert frame["limit"].tolist() == ["=1+1", "-5"]  # the table itself is left alone
