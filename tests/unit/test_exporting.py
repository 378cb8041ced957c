# SPDX-License-Identifier: Apache-2.0
"""Datasets as others read them: Zarr, tables as CSV, and the monitoring lines of 2007."""

import csv
import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from lines import monitoring_lines
from tpcsweep.data import folding, labels
from tpcsweep.data.exporting import zarr
from tpcsweep.data.importing.table_import import read_table
from tpcsweep.data.tables import escape_formula, write_csv

from tests.support import synthetic


def test_a_store_has_all_groups_as_they_are_or_is_not_there(tmp_path: Path) -> None:
    axes = {"tool": ["curl", "native"], "cores": [0.5, None], "repetition": [1]}
    files = synthetic.write_sweep(tmp_path, axes, failed=[{"cores": 0.5, "repetition": 1}])
    folding.write(folding.fold(files, axes), tmp_path / "dataset.nc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zarr(tmp_path / "dataset.nc", tmp_path / "store.zarr")
    for group in labels.GROUPS:
        was = xr.load_dataset(tmp_path / "dataset.nc", group=group)
        found = xr.open_zarr(tmp_path / "store.zarr", group=group, chunks=None).load()
        xr.testing.assert_identical(found, was)
    made = sorted(path.name for path in tmp_path.glob("*.*"))
    (tmp_path / "dataset.nc").write_text("none")
    with pytest.raises(ValueError, match="cannot be read"):
        zarr(tmp_path / "dataset.nc", tmp_path / "other.zarr")
    assert made == sorted(path.name for path in tmp_path.glob("*.*"))
    assert made == ["dataset.nc", "dataset.nc.sha256", "store.zarr"]


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


def test_monitoring_lines_have_the_published_form(tmp_path: Path) -> None:
    axes = {
        "cores": [0.5, None],
        "streams": [1, 12],
        "tcp_buffer": [8_000_000, 8 * 2**20],
        "repetition": [1, 2],
    }
    failed = [{"cores": 0.5, "streams": 1, "tcp_buffer": 8_000_000, "repetition": 1}]
    folded = folding.fold(synthetic.write_sweep(tmp_path, axes, failed=failed), axes)
    summary = folded.summary.assign_attrs(testbed="=1+1,\nx", testbed_kind="simulation")
    summary = summary.assign_coords(tool="xrdcp", layer="disk_to_disk")
    fields = [line.split(", ") for line in monitoring_lines(summary, folded.samples)]
    assert len({(row[0], row[4]) for row in fields}) == len(fields) == 2 * (16 - 1)
    assert [int(row[0]) for row in fields] == sorted(int(row[0]) for row in fields)
    where = {"cores": np.inf, "streams": 12, "tcp_buffer": 8_000_000, "repetition": 1}
    cell = summary.sel(where)
    ended = cell.started.values.astype("datetime64[ms]").astype(int) + 1000 * float(cell.duration)
    for kind, value in (("avg", folded.samples.goodput.sel(where).mean()), ("max", cell.throughput_max)):
        name = f"xrootd_d2d_{kind}_12s_08m_cores=none_tcp_buffer=8000000"
        [row] = [row for row in fields if row[4] == name and row[0] == f"{ended:.0f}"]
        assert row[1:4] == ["simulated:=1+1 x", "demo", "source->destination"]
        assert float(row[5]) == pytest.approx(125 * float(value), rel=1e-5)
    with pytest.raises(ValueError, match="no times of measurement"):
        monitoring_lines(summary.assign(started=summary.started.where(summary.streams > 1)), folded.samples)
