# SPDX-License-Identifier: Apache-2.0
"""Plans: with a predictor of known formula, and with a real fit of made-up cells."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tpcsweep.analysis.models.fit import fit
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.observations import Observations, observe
from tpcsweep.analysis.models.predictor import Domain, Predictor
from tpcsweep.analysis.models.saved_fits import Saved
from tpcsweep.analysis.plans.anchored import anchor
from tpcsweep.analysis.plans.plan import best_measured, candidates, plan
from tpcsweep.analysis.plans.plan_plots import draw
from tpcsweep.analysis.plans.question import Question
from tpcsweep.analysis.plans.recommendations import COLUMNS, Answer, as_csv, plan_table, recommend
from tpcsweep.data import folding
from tpcsweep.sweeps.parameters import KNOBS
from tpcsweep.sweeps.problems import ConfigurationError, validated

from tests.support import synthetic
from tests.support.pictures import hues, pixels

AXES = ("rtt", "streams", "cores")
CHOICE = {"best": "window", "formula": "window", "problems": []}
DOMAIN = Domain(
    {"origins": (1.0, 2.0), "cores": (1.0, 4.0), "streams": (1.0, 16.0), "rtt": (2.0, 80.0)},
    {},
    {"bandwidth": 10.0, "tcp_streams": 2.0, "loss": 0.0},
)


@dataclass(frozen=True)
class Known(Predictor):
    """Throughput is the least of the path, cores, origins and windows; a measurement is evenly within a share of it."""

    spread: float = 0.2
    domain: Domain = field(default=DOMAIN, kw_only=True)
    name = "known"
    about = "what is known"

    def estimate(self, points: Any) -> NDArray[np.float64]:
        limits = [points[name] * share for name, share in (("cores", 1.0), ("origins", 3.0))]
        limits += [10 * points["streams"] / points["rtt"], np.full(len(points), 9.5)]
        return np.asarray(np.min(np.array(limits, float), axis=0))

    def draws(self, points: Any, count: int = 200) -> NDArray[np.float64]:
        shares = 1 - self.spread + 2 * self.spread * np.arange(count)[:, None] / (count - 1)
        return np.asarray(self.estimate(points) * shares)


def cost(row: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(float(row[name]) for name in KNOBS)


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(st.floats(0.05, 5), st.floats(2, 80), st.floats(0.05, 0.98), st.floats(0.01, 0.8))
def test_only_the_cheapest_reaches(target: float, rtt: float, probability: float, spread: float) -> None:
    model = Known(spread)
    answer = plan(model, target, probability, rtt=rtt)
    every = candidates(DOMAIN, {"rtt": rtt})
    assert len(every) == 2 * 4 * 16
    reach = np.mean(model.draws(every, 1000) >= target, axis=0) >= probability
    enough = every[reach].to_dict("records")
    assert answer.reached == bool(enough)
    pairs = {(row["cores"], row["streams"]) for row in enough}
    better = {one for one in pairs if not any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in pairs)}
    assert list(zip(answer.front["cores"], answer.front["streams"], strict=True)) == sorted(better)
    if answer.cheapest is not None:
        assert cost(answer.cheapest) == min(map(cost, enough))
        assert answer.beyond.empty


def test_what_cannot_be_reached_says_how_much_can() -> None:
    answer = plan(Known(spread=0.1), "20 Gbit/s", rtt=20)
    # The path does not carry it, however many streams, and no draw reaches it.
    assert (answer.reached, answer.extrapolation, answer.surest) == (False, None, None)
    said = "not reached: no setting inside the data reaches it, nor up to 4 times their largest values"
    assert answer.verdict == said
    best = answer.largest
    ends = ("throughput", "throughput_low", "throughput_high")
    assert [best[name] for name in ends] == pytest.approx([4.0, 0.905 * 4, 1.095 * 4], rel=1e-3)  # of 4 cores
    assert (cost(best), best["extrapolated"]) == ((4, 2, 8), False)
    likeliest = plan(Known(spread=0.5), 4, 0.9, rtt=20, cores=4)
    assert not likeliest.reached and likeliest.surest is not None
    chance = likeliest.surest["probability"]
    assert chance == pytest.approx(0.5, abs=0.01)
    assert f"the likeliest setting inside the data has a chance of {100 * chance:.1f} %" in likeliest.verdict


@pytest.mark.parametrize(
    ("rtt", "best"), [(2.0, "8.25 Gbit/s: cores no quota, streams 1"), (20.0, "4 Gbit/s: cores 1, streams 8")]
)
def test_a_target_that_is_not_reached_names_the_best_measured_cell(rtt: float, best: str) -> None:
    cells = [(2.0, 1, 1.0, 7), (2.0, 1, math.inf, 8.25), (20.0, 1, math.inf, 3), (20.0, 8, 1.0, 4)]
    seen = Observations(pd.DataFrame(cells, columns=[*AXES, "throughput"]), AXES)
    assert plan(Known(), 20, rtt=rtt, observations=seen).notes[0] == f"The best measured cell has {best}."
    assert not any("measured cell" in one for one in plan(Known(), 0.1, rtt=rtt, observations=seen).notes)
    assert best_measured(seen, {"rtt": 5.0}) == ""


def test_what_lies_beyond_the_data_is_kept_apart_and_marked() -> None:
    answer = plan(Known(spread=0.01), 4.9, rtt=20)  # takes more than 4 cores
    assert not answer.reached and answer.extrapolation is not None
    cores, origins, streams = cost(answer.extrapolation)
    assert (cores, origins) == (5, 2) and streams >= 10
    assert answer.verdict.endswith(", reached beyond the data by extrapolation")
    assert not answer.settings["extrapolated"].any() and answer.beyond["extrapolated"].all()
    answer = plan(Known(), 1, rtt="100 ms")
    assert answer.reached and answer.settings["extrapolated"].all()
    assert answer.verdict == "reached, extrapolated"
    assert "Extrapolated: rtt 100 ms is not in the data: 2 ms to 80 ms." in answer.notes
    assert plan(Known(), 1, rtt="50 ms", bandwidth="20 Gbit/s").settings["extrapolated"].all()


def test_what_is_given_is_searched_and_no_measurement_is_above_the_bandwidth() -> None:
    slower = plan(Known(), 1, rtt=5, bandwidth="3 Gbit/s").settings
    assert slower["throughput_high"].max() == slower["throughput"].max() == 3
    answer = plan(Known(), 2, rtt=20, origins=2, cores=[4, 6], loss="1 %")
    assert [set(answer.settings[name]) for name in ("origins", "cores")] == [{2}, {4, 6}]
    assert answer.cheapest is not None and cost(answer.cheapest) == (4, 2, 5)
    notes = " ".join(answer.notes)
    assert "The model finds no effect of loss" in notes
    assert "Of rtt" not in notes


def test_what_was_measured_is_among_the_settings() -> None:
    values = {"cores": (0.1, 0.2, 0.4), "streams": (1.0, 50.0, 77.0, 200.0)}
    domain = Domain({"cores": (0.1, 0.4), "streams": (1.0, 200.0), "rtt": (2.0, 80.0)}, {}, {}, values)
    for reach in (1.0, 4.0):
        found = candidates(domain, {"rtt": 20.0}, reach)
        for name, measured in values.items():
            assert set(measured) <= set(found[name])
    assert candidates(domain, {"rtt": 20.0})["cores"].max() == 0.4
    # A model that says of 0.2 cores what was measured there recommends them, and not a little more.
    found = plan(Known(spread=0.0, domain=domain), 0.2, 0.8, rtt=2.0).cheapest
    assert found is not None and found["cores"] == 0.2


def test_a_plan_is_json_drawn_and_shown(tmp_path: Path) -> None:
    for target, cores in ((3, [4, None]), (4.9, [4, 6]), (90, 4)):  # inside the data, beyond, not reached
        answer = plan(Known(spread=0.01), target, rtt=20, data="made up", cores=cores)
        content = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
        assert (content["target"], content["reached"]) == (target, target < 5)
        assert set(content["settings"]["cores"]) == (set(cores) if isinstance(cores, list) else {cores})
        draw(answer).savefig(tmp_path / "plan.png", dpi=50)
        assert hues(pixels(tmp_path / "plan.png")) > 0
        assert plan_table(answer)


def test_recommendations_are_what_plans_say_and_can_be_read_by_others() -> None:
    found = recommend(Known(), [5, 40], target="3.3 Gbit/s", rtt="20 ms")
    assert list(found["rtt"].unique()) == [5, 20, 40]
    assert list(found["target"].unique()) == [3.3, 5, 8, 9, 9.5]  # shares of 10 Gbit/s, and the target
    assert set(found["tcp_streams"]) == {2}
    for row in found.to_dict("records"):
        one = plan(Known(), row["target"], rtt=row["rtt"])
        assert row["reached"] == one.reached
        assert one.cheapest is None or cost(row) == cost(one.cheapest)
    unlimited = recommend(Known(), [20], cores=[None])
    answer = Answer(validated(Question, {"rtt": 20}), "known", "made up", None, unlimited)
    content = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert content["given"] == {"rtt": 20} and content["columns"]["rtt"]["unit"] == "ms"
    kinds = {(row["cores"], type(row["streams"]), type(row["reached"])) for row in content["rows"]}
    assert kinds == {(None, int, bool)}
    head, *lines = as_csv(unlimited).splitlines()
    assert (head.split(","), len(lines)) == ([*COLUMNS], len(unlimited))


@pytest.fixture(scope="module")
def observations(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    axes = {"rtt": [5.0, 20.0, 100.0], "tool": ["curl", "gfal-copy"], "streams": [1, 2, 4, 8]}
    axes["repetition"] = [1, 2]
    folder = tmp_path_factory.mktemp("cells")
    return observe(folding.fold(synthetic.write_sweep(folder, axes), axes).summary)


@pytest.fixture(scope="module")
def saved(observations: Observations) -> Saved:
    window = fit(MODELS["window"], observations, resamples=20)
    return Saved("sweep demo, measured on netns", {"window": window}, CHOICE)


def test_anchored_fits_give_the_streams_that_the_cells_need(observations: Observations, saved: Saved) -> None:
    model = anchor(saved.formulas, observations)
    answer = plan(model, "500 Mbit/s", 0.8, rtt="100 ms", tool="curl")
    # As the cells were made: windows of 4 MiB over 100.5 ms, and at most 0.94 Gbit/s.
    windows = 4 * 2**20 * 8 / 100.5 / 1e6
    true = [0.94 * ((n * windows) ** -4 + 1.6**-4 + 1) ** -0.25 for n in range(1, 9)]
    least = next(n for n, rate in enumerate(true, start=1) if rate >= 0.5)
    assert least <= answer.cheapest["streams"] <= least + 2
    assert not answer.cheapest["extrapolated"]
    assert plan(model, "100 Mbit/s", 0.8, rtt="200 ms", tool="curl").cheapest["extrapolated"]
    for words, said in (({}, "nothing"), ({"tool": "wget"}, "'wget', allowed: a value in the data: curl, g")):
        with pytest.raises(ConfigurationError, match=f"tool: given {said}"):
            plan(model, "500 Mbit/s", 0.8, rtt="20 ms", **words)
