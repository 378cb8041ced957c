# SPDX-License-Identifier: Apache-2.0
"""Which cells are measured next, when that ends, and what is left in files."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tpcsweep import figures, staging
from tpcsweep.configuration.loading import Configuration, ConfigurationError, cell_spec, load
from tpcsweep.configuration.sweep import Cell
from tpcsweep.files import write_json, write_text
from tpcsweep.models import fit_process, observe
from tpcsweep.planning import choice
from tpcsweep.planning.choice import Belief, Costs, Space, first_points, next_points, stop_reason
from tpcsweep.planning.rounds import UNREACHABLE, RoundError, Rounds, draw_figures, surface_with_predictions

from tests.support import synthetic
from tests.support.notebooks import sketched
from tests.support.pictures import hues, pixels
from tests.support.workflow import ROOT

COSTS = Costs(deployment=6.0, point=10.0)


def space_of(**axes: Sequence[Any]) -> Space:
    return Space(pd.DataFrame(list(itertools.product(*axes.values())), columns=list(axes)))


def belief_of(space: Space) -> Belief:
    """A belief with a smooth covariance, as before anything is measured."""
    scaled = space.levels / np.maximum(space.levels.max(axis=0), 1)
    apart = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=-1)
    mean = np.random.default_rng(0).uniform(0, 1, len(space))
    return Belief(mean, np.exp(-apart), np.full(len(space), 0.02))


def rows_of(space: Space, chosen: Sequence[int]) -> set[tuple[Any, ...]]:
    return set(space.points.iloc[list(chosen)].itertuples(index=False, name=None))


def test_the_first_cells_are_corners_of_the_grid_of_many_every_other_one() -> None:
    space = space_of(rtt=[0, 5, 50, 100], cores=[1.0, 2.0, 4.0, np.inf], streams=[1, 2, 4, 8])
    chosen = rows_of(space, first_points(space))
    assert set(itertools.product((0, 100), (1, np.inf), (1, 8))) < chosen
    assert len(chosen) == 9  # eight corners, and one more to have three for each axis
    space = space_of(rtt=[0, 100], origins=[1, 2], cores=[1, 4], streams=[1, 2, 8])
    chosen = rows_of(space, space.corners())
    assert len(chosen) == 8
    assert list(map(set, zip(*chosen, strict=True))) == [{0, 100}, {1, 2}, {1, 4}, {1, 8}]


@pytest.mark.parametrize("seed", range(4))
def test_enough_cells_are_first_and_only_open_ones_are_chosen_next(seed: int) -> None:
    """Of a grid with holes, over numbers and words."""
    generator = np.random.default_rng(seed)
    whole = space_of(rtt=[0, 5, 200], origins=[1, 2], tool=["a", "b", "c"], streams=[1, 2, 8]).points
    space = Space(whole[generator.random(len(whole)) < 0.7].reset_index(drop=True))
    chosen = first_points(space)
    assert len(set(chosen)) == len(chosen) >= 3 * whole.shape[1]
    open_ = generator.random(len(space)) < 0.2
    for count in (1, 8, len(space)):
        chosen = next_points(space, belief_of(space), open_, COSTS, count)
        assert chosen and open_[chosen].all()
        assert len(set(chosen)) == len(chosen)
        untouched = set(space.deployment[open_]) - set(space.deployment[chosen])
        assert len(chosen) >= count or not untouched


def test_a_deployment_is_used_more_the_dearer_it_is() -> None:
    space = space_of(rtt=[1, 2, 3, 4, 5], streams=list(range(1, 11)))
    belief = Belief(np.ones(len(space)), np.eye(len(space)), np.full(len(space), 0.1))
    for cost, deployments in ((0.0, 5), (1000.0, 1)):
        chosen = next_points(space, belief, np.ones(len(space), bool), Costs(cost, 10.0), 5)
        assert len(set(space.deployment[chosen])) == deployments


def test_cells_that_tell_the_same_are_not_chosen_together() -> None:
    space, open_ = space_of(streams=[1, 2, 3, 4]), np.ones(4, bool)
    twins = np.diag([1.0, 1.0, 0.5, 0.2])
    twins[0, 1] = twins[1, 0] = 0.999
    belief = Belief(np.ones(4), twins, np.full(4, 0.01))
    assert next_points(space, belief, open_, Costs(0.0, 1.0), 1) in ([0], [1])
    assert next_points(space, belief, open_, Costs(10.0, 1.0), 1) in ([0, 2], [1, 2])


def test_of_a_large_grid_whole_deployments_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcsweep.planning.choice._MOST", 20)
    space = space_of(rtt=list(range(20)), streams=list(range(1, 9)))
    open_ = np.ones(len(space), bool)
    ways = {tuple(next_points(space, belief_of(space), open_, COSTS, 4, seed)) for seed in range(5)}
    assert all(1 <= len({space.deployment[row] for row in way}) <= 2 for way in ways)
    assert len(ways) > 1


@pytest.mark.parametrize(
    ("errors", "left", "reason"),
    [
        ([(0.04, 0.01)], 5, ""),  # it may be luck
        ([(0.06, 0.01), (0.04, 0.01)], 5, ""),
        ([(0.9, 0.0), (0.05, 0.01), (0.04, 0.01)], 5, choice.ENOUGH),
        ([(0.04, 0.01), (0.06, 0.01)], 5, ""),
        ([(0.064, 0.06), (0.061, 0.06)], 5, choice.NOISE),
        ([(0.08, 0.06), (0.061, 0.06)], 5, ""),
        ([(0.2, 0.06)], 0, choice.EXHAUSTED),
    ],
)
def test_it_ends_for_a_reason(errors: list[tuple[float, float]], left: int, reason: str) -> None:
    assert stop_reason(0.05, errors, 8, np.arange(10) >= left) == reason
    assert stop_reason(0.05, errors, 7, np.arange(10) >= left) in ("", choice.EXHAUSTED)


def test_the_error_is_that_of_cells_not_measured_over_the_range_of_the_surface() -> None:
    spread = np.diag([9.0, 9.0, 0.03, 0.03])
    belief = Belief(np.array([1.0, 2.0, 3.0, 5.0]), spread, np.full(4, 0.1), doubt=2.0)
    measured, throughput = np.array([True, True, False, False]), np.array([1.0, np.nan, np.nan, np.nan])
    found = choice.surface_error(belief, measured, throughput)
    assert found == pytest.approx((2 * 0.2 / 4, 2 * 0.1 / 4))


SWEEP = """
parameters: {origins: [2], cores: [1, null], rtt: [5, 20, 50, 100], streams: [1, 2, 3, 4, 6, 8],
             tcp_buffer: 4 MiB, bandwidth: 2 Gbit/s}
exclude: [{rtt: 100, streams: 1}]
"""


@dataclass
class Fake:
    configuration: Configuration
    broken: Callable[[Cell], bool] = lambda _: False
    asked: list[list[str]] = field(default_factory=list)

    def __call__(self, cells: Sequence[Cell]) -> None:
        self.asked.append([cell.path for cell in cells])
        for cell in cells:
            path, spec = self.configuration.cell_file(cell), cell_spec(self.configuration, cell)
            if self.broken(cell):
                staging.write_placeholder(path, spec, "no route")
            else:
                synthetic.write_cell(path, spec)


def configured(folder: Path, sweep: str = SWEEP, **config: Any) -> Configuration:
    (folder / "probe.yaml").write_text(sweep)
    given = {"sweep": str(folder / "probe.yaml"), "testbed": "netns", "results": str(folder / "results")}
    return load(given | config, ROOT)


def ran(configuration: Configuration, error: float = 0.05, **options: Any) -> tuple[Rounds, Fake]:
    fake = Fake(configuration, **options)
    rounds = Rounds(configuration, fake, lambda _: None, error)
    rounds.run()
    return rounds, fake


def paths(fake: Fake) -> list[str]:
    return [path for cells in fake.asked for path in cells]


def log_of(rounds: Rounds) -> Any:
    return json.loads((rounds.folder / "rounds.json").read_text())


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rounds, Fake]:
    return ran(configured(tmp_path_factory.mktemp("rounds")), 0.08)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcsweep.figures.save", sketched)


def test_rounds_end_at_the_error_and_another_run_measures_nothing(explored: tuple[Rounds, Fake]) -> None:
    rounds, fake = explored
    asked = paths(fake)
    assert rounds.reason == choice.ENOUGH
    assert len(set(asked)) == len(asked) < 0.6 * len(rounds.configuration.grid.cells)
    assert len(fake.asked) > 2
    logged = log_of(rounds)["rounds"]
    assert max(one["error"] for one in logged[-2:]) <= 0.08
    assert sum(len(one.get("surprise", [])) for one in logged) >= 8
    _, again = ran(rounds.configuration, 0.08)
    assert again.asked == []
    for log in (logged, log_of(rounds)["rounds"]):
        assert [one["cells"] for one in log] == fake.asked


def test_what_was_not_measured_is_missing_and_predicted(explored: tuple[Rounds, Fake]) -> None:
    rounds, fake = explored
    ds = xr.load_dataset(rounds.folder / "dataset.nc")
    assert dict(ds.throughput.sizes) == {"origins": 1, "cores": 2, "rtt": 4, "streams": 6, "repetition": 1}
    assert int((ds.status == 1).sum()) == int(ds.throughput.notnull().sum()) == len(paths(fake))
    assert ds.sel(rtt=100, streams=1).throughput_predicted.isnull().all()  # excluded
    assert int(ds.throughput_predicted.notnull().sum()) == 46
    true = xr.full_like(ds.throughput_predicted, np.nan)
    for cell in rounds.configuration.grid.cells:
        place = {name: np.inf if cell.axes[name] is None else cell.axes[name] for name in true.dims}
        true.loc[place] = synthetic.cell(cell_spec(rounds.configuration, cell))["summary"]["throughput"]
    away = abs(ds.throughput_predicted - true).where(ds.status.squeeze("repetition") == 0)
    # The error is an estimate.
    assert float(np.sqrt((away**2).mean()) / (true.max() - true.min())) < 1.1 * 0.08
    inside = (true > ds.throughput_predicted_low) & (true < ds.throughput_predicted_high)
    assert float(inside.where(away.notnull()).mean()) > 0.8


def test_predictions_that_turned_out_wrong_are_doubted(explored: tuple[Rounds, Fake]) -> None:
    rounds, _ = explored
    space, process = rounds.space, fit_process(observe(xr.load_dataset(rounds.folder / "dataset.nc")))
    sure, doubtful = choice.believe(process, space), choice.believe(process, space, [3.0, -3.0])
    assert doubtful.doubt == pytest.approx(3.0)
    assert np.all(doubtful.deviation > sure.deviation)
    far = sure.mean + 3 * sure.deviation / sure.doubt
    assert sure.standardized_errors([0, 5, 9], far) == pytest.approx([3.0] * 3)
    assert sure.standardized_errors([0], np.full(len(space), np.nan)) == []


@pytest.mark.usefixtures("coarse")
def test_figures_show_the_completed_surface_and_mark_what_is_predicted(explored: tuple[Rounds, Fake]) -> None:
    folder = explored[0].folder
    draw_figures(folder)
    assert all(hues(pixels(folder / "figures" / f"{name}.png")) > 0 for name in ("surface", "rounds"))
    ds = xr.load_dataset(folder / "dataset.nc")
    shown = surface_with_predictions(ds)
    assert int(shown.throughput.notnull().sum()) == 46
    assert int(shown.predicted.sum()) == 46 - int((ds.status == 1).sum())
    legend = [text.get_text() for text in figures.heatmap(shown).legends[0].get_texts()]
    assert "not measured: predicted" in legend


@pytest.mark.parametrize("log", ["", "[]", "{}"])
def test_a_grid_that_is_measured_whole_is_left_alone_and_logged(tmp_path: Path, log: str) -> None:
    configuration = configured(tmp_path, "parameters: {rtt: [5, 20], streams: [1, 2]}")
    Fake(configuration)(configuration.grid.cells)
    write_text(configuration.folder / "adaptive/rounds.json", log)
    rounds, fake = ran(configuration)
    assert (fake.asked, rounds.reason, log_of(rounds)["ended"]) == ([], choice.EXHAUSTED, choice.EXHAUSTED)


@pytest.mark.usefixtures("coarse")
def test_a_single_cell_is_a_grid_too(tmp_path: Path) -> None:
    rounds, fake = ran(configured(tmp_path, "{parameters: {streams: [4]}, repetitions: 2}"))
    assert ([len(cells) for cells in fake.asked], rounds.reason) == ([2], choice.EXHAUSTED)
    draw_figures(rounds.folder)


def test_a_deployment_that_fails_is_named_not_tried_again_and_leaves_no_file(tmp_path: Path) -> None:
    configuration = configured(tmp_path, "parameters: {rtt: [5, 20, 50], streams: [1, 2, 4]}")
    rounds, fake = ran(configuration, 0.001, broken=lambda cell: cell.value("rtt") == 20)
    assert rounds.failed == ["rtt=20"]
    assert sum("rtt=20" in path for path in paths(fake)) <= 3
    assert rounds.reason == UNREACHABLE
    cells = configuration.grid.cells
    assert {cell.value("rtt") for cell in cells if configuration.cell_file(cell).exists()} == {5, 50}
    with pytest.raises(RoundError, match="no deployment of this round"):
        ran(configured(tmp_path, results=str(tmp_path / "others")), broken=lambda _: True)


def test_only_the_cells_of_a_list_are_left_and_another_text_is_refused(tmp_path: Path) -> None:
    configuration = configured(tmp_path)
    wished = configuration.grid.cells[5:8]
    write_json(tmp_path / "cells.json", [cell.path for cell in wished])
    only = configured(tmp_path, only=f"{tmp_path}/cells.json")
    assert only.grid.cells == wished
    assert only.grid.axes == configuration.grid.axes
    assert [cell_spec(only, cell) for cell in wished] == [cell_spec(configuration, cell) for cell in wished]
    for content in ("[]", '["rtt=7"]', "no JSON"):
        (tmp_path / "cells.json").write_text(content)
        with pytest.raises(ConfigurationError, match=r"only: given .*allowed: a "):
            configured(tmp_path, only=f"{tmp_path}/cells.json")


def test_cells_of_an_interrupted_run_are_used_and_damaged_ones_are_measured(tmp_path: Path) -> None:
    configuration = configured(tmp_path, "parameters: {rtt: [5, 20, 50], tcp_buffer: 4 MiB}")
    staged, damaged, placeholder = configuration.grid.cells
    specs = [cell_spec(configuration, cell) for cell in configuration.grid.cells]
    synthetic.write_cell(staging.staged_file(configuration, staged), specs[0])
    write_text(configuration.cell_file(damaged), "{}")
    staging.write_placeholder(configuration.cell_file(placeholder), specs[2], "it was late")
    _, fake = ran(configuration)
    assert set(paths(fake)) == {damaged.path, placeholder.path}
    assert len(list(configuration.folder.rglob("*.damaged"))) == 1
