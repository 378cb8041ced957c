# SPDX-License-Identifier: Apache-2.0
"""Plans against the measurements that they come from, and against hidden truths."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tpcsweep.analysis.models.observations import observe
from tpcsweep.analysis.plans.anchored import Anchored
from tpcsweep.analysis.plans.plan import answers, cheapest_row, plan
from tpcsweep.sweeps.parameters import KNOBS

from tests.support import plans
from tests.support.plans import SMALL, Luck

ROOT = Path(__file__).resolve().parents[2]
FEW = ("window", "combined")


@pytest.fixture(scope="module")
def demo() -> xr.Dataset:
    """Return 24 cells of a quiet machine, the last of which stalled."""
    ds = plans.made_up("windows and cores", SMALL, Luck(stalls=0), seed=1)
    for end in ("throughput", "throughput_low", "throughput_high"):
        ds[end][{"origins": 1, "cores": 1, "rtt": 1, "streams": 1}] *= 0.01
    return ds


@pytest.fixture(scope="module")
def model(demo: xr.Dataset) -> Anchored:
    return plans.planner(observe(demo), FEW)


def test_a_plan_never_says_less_than_the_data(demo: xr.Dataset, model: Anchored) -> None:
    for cell in demo.throughput.stack(cell=demo.throughput.dims).T:
        measured, setting = float(cell), {name: cell[name].item() for name in SMALL}
        alone = plan(model, 0.93 * measured, **setting)
        assert alone.reached, (setting, alone.settings)
        assert alone.cheapest["throughput"] == pytest.approx(measured, rel=1e-6)
        assert (
            0.9 * measured < alone.cheapest["throughput_low"] < measured < alone.cheapest["throughput_high"]
        )
        among = plan(model, 0.93 * measured, rtt=setting["rtt"])
        assert among.reached and among.cheapest["cores"] <= 1.25 * setting["cores"]


def test_a_single_bad_cell_counts_for_its_own_setting_alone(demo: xr.Dataset, model: Anchored) -> None:
    near = pd.DataFrame({"origins": [2, 2, 1], "cores": 0.6, "streams": [2, 4, 2], "rtt": [40.0, 45.0, 20.0]})
    found = model.predict(near)
    assert (found.throughput_high / found.throughput_low < 4).all()
    truth = plans.LAWS["windows and cores"](near)
    assert ((found.throughput_low < truth) & (truth < found.throughput_high)).all()
    stalled = model.predict(near.iloc[:1].assign(rtt=50.0))
    assert float(stalled.throughput[0]) == pytest.approx(float(demo.throughput[1, 1, 1, 1, 0]))


def test_the_scatter_depends_on_the_distance_from_measured_cells(model: Anchored) -> None:
    line = pd.DataFrame({"origins": 1, "cores": [0.15, 0.17, 0.3], "streams": 1, "rtt": 5.0})
    at = model.outlook(line)
    assert at.doubt[0] < at.doubt[1] < at.doubt[2]
    beyond = model.outlook(line.assign(cores=[0.6, 0.9, 2.0]))
    assert beyond.doubt[0] < beyond.doubt[1] < beyond.doubt[2]


@pytest.mark.parametrize(
    ("settings", "cheapest"),
    [
        ([(0.10, 1, 17), (0.12, 1, 3)], 1),
        ([(0.10, 1, 3), (0.12, 1, 2)], 0),
        ([(0.10, 1, 17), (0.20, 1, 1)], 0),
        ([(0.10, 2, 2), (0.11, 1, 4)], 1),
        ([(16.0, 1, 90), (17.0, 1, 1)], 0),
        ([(np.inf, 1, 4), (np.inf, 1, 2)], 1),
    ],
)
def test_parts_of_a_core_without_meaning_are_not_traded(
    settings: list[tuple[float, int, int]], cheapest: int
) -> None:
    assert cheapest_row(pd.DataFrame(settings, columns=[*KNOBS])) == cheapest


def test_the_answers_to_all_targets_are_those_to_each(model: Anchored) -> None:
    settings = plan(model, 1e-3, rtt=5).settings
    table = list(answers(settings))
    assert [most for most, _ in table] == sorted({most for most, _ in table})
    for target in np.linspace(0.01, settings["assured"].max(), 60):
        one = plan(model, target, rtt=5).cheapest
        assert tuple(next(row for most, row in table if most >= target)[[*KNOBS]]) == tuple(one[[*KNOBS]])


def test_plans_suffice_and_answer_on_hidden_laws() -> None:
    laws = ("windows and cores", "pauses")
    rows = pd.DataFrame(row for law in laws for row in plans.on_law(law, SMALL, Luck(), seed=5, names=FEW))
    for stated, some in plans.judged(rows[rows["where"] == "measured"]).groupby("stated"):
        assert some["sufficient"].mean() >= stated
        assert some["answered"].mean() >= 0.9


def test_plans_from_a_part_of_the_surface_hold_for_the_rest() -> None:
    rows = pd.DataFrame(
        plans.on_left_out(xr.load_dataset(ROOT / "examples/surface.nc"), seed=0, names=("combined",))
    )
    for stated, some in rows.groupby("stated"):
        assert some["reached"].mean() >= stated
        assert some["answered"].mean() >= 0.8
