# SPDX-License-Identifier: Apache-2.0
"""Tables as CSV: no cell is a formula to a spreadsheet, and what is read back is what was written."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.dataset.tables import as_written, inert, write_csv
from tpcsweep.importing import read_table

FORMULAS = st.builds("".join, st.lists(st.sampled_from([*"=+-@＝;, \t\r\n'\"a1"]), max_size=12))
TEXTS = st.text(max_size=20) | FORMULAS


ATTACKS = ['=HYPERLINK("http://x")', "+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(A1)"]
SUMS = ["\t=1+1", "  =1+1", "＝1+1", "a\n=1+1", "a;=1+1", "'=1+1"]


@pytest.mark.parametrize("text", [*ATTACKS, *SUMS])
def test_a_formula_becomes_text(text: str) -> None:
    for separator in ",;\t":
        cells = next(csv.reader([inert(text).replace("\n", separator)], delimiter=separator))
        assert not any(cell.strip().startswith(tuple("=+-@＝")) for cell in cells)


@pytest.mark.parametrize("text", ["-5", "+1.5e-3", "-.5", "curl", "a-b", "x = 1", "5.8.1", "", "it's"])
def test_numbers_and_other_words_stay_as_they_are(text: str) -> None:
    assert inert(text) == text


@given(st.lists(st.tuples(TEXTS, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=5))
def test_what_importing_reads_back_is_what_was_written(tmp_path_factory: Any, cells: list[Any]) -> None:
    file = tmp_path_factory.mktemp("table") / "cells.csv"
    frame = pd.DataFrame(cells, columns=["=name", "figure"]).assign(last="x")
    write_csv(frame, file, digits=None)
    table = read_table(file)
    assert table.columns.tolist() == ["=name", "figure", "last"]
    assert table["=name"].tolist() == [re.sub("\r\n?", "\n", text) for text, _ in cells]
    assert [float(value) for value in table["figure"]] == [value for _, value in cells]
    for text, _ in cells:
        assert as_written(inert(text)) == text
        assert inert(text) == text or inert(text).replace("'", "") == text.replace("'", "")


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
