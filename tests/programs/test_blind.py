# SPDX-License-Identifier: Apache-2.0
"""The blind prediction: in a world that one of the sets is, sets are kept that say what the rest of it has."""

import re
from pathlib import Path

import blind
import numpy as np
import pandas as pd
import pytest
from blind import STATED, Fact, Predictor
from tpcsweep.configuration.loading import load, load_import
from tpcsweep.importing import import_table

from tests.support.notebooks import executed

ROOT = Path(__file__).parents[2]
RUN = {"sweep": "smoke", "testbed": "simulation"}
PLACES = [(2, 1, 16, 100, 5), (3, 1, 32, 100, 120), (4, 2, 32, 100, 5)]
PLACES += [(5, 4, 64, 200, 40), (7, 8, 128, 400, 5)]
"""Figure, origins, cores, bandwidth and RTT of curves."""


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Predictor:
    monkeypatch.setattr(blind, "DRAWS", 1000)
    testbed = load(RUN, ROOT).testbed
    return blind.simulation(testbed.parameters, testbed.queues)


def points(predictor: Predictor, number: int) -> pd.DataFrame:
    """Curves as they would be read off in a world that is one of the sets."""
    rows = [(*place, streams) for place in PLACES for streams in (1, 20, 90, 200)]
    facts = [Fact(figure, "a point", *place, streams=(streams,)) for figure, *place, streams in rows]
    throughput = predictor(blind._cells(facts)[0])[number]
    columns = ["figure", "origins", "cores", "bandwidth_gbit_per_s", "rtt_ms", "streams"]
    return pd.DataFrame(rows, columns=columns).assign(throughput_gbit_per_s=throughput)


def test_points_of_first_figures_tell_the_others(simulation: Predictor, tmp_path: Path) -> None:
    file = tmp_path / "curves.csv"
    points(simulation, 7).to_csv(file, index=False)
    name, settings = load_import("chep2024-curves", ROOT)
    facts = blind.of_curves(import_table(settings, file, name).summary)
    assert len(facts) == 4 * len(PLACES)
    found = blind.table(facts, {"simulation": simulation, "full path": blind.full_path})
    errors = found.set_index(["by", "figure"])["error"]
    for figure in (5, 7):
        assert errors["simulation", figure] < 0.1 < errors["full path", figure]
    assert (found["points"] == 4).all()


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
    text = (ROOT / "docs/studies.md").read_text()
    row = r"^\| (\d) \| [^|]+ \| ([\d.]+) [^|]*\| ([\d.]+) [^|]*\| ([\d.]+) [^|]*\|$"
    said = np.array(re.findall(row, text, re.MULTILINE), float)
    computed = found.pivot_table("median", ["figure", "stated"], "by", sort=False)[list(blind.predictors())]
    assert said[:, 0].tolist() == list(computed.index.get_level_values("figure"))
    assert np.allclose(said[:, 1:], computed, rtol=0.02)
