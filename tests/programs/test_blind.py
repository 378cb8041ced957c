# SPDX-License-Identifier: Apache-2.0
"""The blind prediction: how far figures are from it, and the table of its page."""

import re
from pathlib import Path

import blind
import numpy as np
import pandas as pd
import pytest
from blind import STATED, Fact

from tests.support.notebooks import executed

ROOT = Path(__file__).parents[2]


def test_every_figure_is_there_and_an_error_is_how_far_outside_a_prediction_is() -> None:
    assert {fact.figure for fact in STATED} == set(range(2, 9))
    least = Fact(5, "at least 95", 4, 64, 100, 5, low=95)
    number = Fact(8, "260", 8, 128, 400, 0, low=260, high=260)
    assert least.off(np.array([190.0, 9.5])) == pytest.approx([0, -1])
    assert number.off(np.array([2600.0, 26.0])) == pytest.approx([1, -1])
    assert least.agrees(np.array([95.0, 94.0])).tolist() == [True, False]
    assert number.agrees(np.array([240.0, 280.0, 300.0])).tolist() == [True, True, False]


def test_the_notebook_makes_the_table_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "studies/blind_prediction")
    found = executed(ROOT / "studies/blind_prediction/blind_prediction.ipynb", folder=str(tmp_path))["table"]
    assert pd.read_csv(tmp_path / "predictions.csv")["by"].unique().tolist() == list(blind.predictors())
    text = (ROOT / "studies/blind_prediction/README.md").read_text()
    row = r"^\| (\d) \| [^|]+ \| ([\d.]+) [^|]*\| ([\d.]+) [^|]*\| ([\d.]+) [^|]*\|$"
    said = np.array(re.findall(row, text, re.MULTILINE), float)
    computed = found.pivot_table("median", ["figure", "stated"], "by", sort=False)[list(blind.predictors())]
    assert said[:, 0].tolist() == list(computed.index.get_level_values("figure"))
    assert np.allclose(said[:, 1:], computed, rtol=0.02)
