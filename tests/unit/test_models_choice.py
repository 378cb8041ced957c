# SPDX-License-Identifier: Apache-2.0
"""The choice between models, the lookup table, and intervals of one more measurement."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tpcsweep.analysis.models import model_plots as draw
from tpcsweep.analysis.models.choice import Choice, choose, cross_validate, make_folds
from tpcsweep.analysis.models.fit import Fit, fit
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.learned import (
    LEARNED,
    Kernel,
    Learned,
    Learner,
    Trained,
    fit_lookup,
    fit_process,
    fit_table,
)
from tpcsweep.analysis.models.observations import Observations, observe, value_classes
from tpcsweep.analysis.models.predictor import BAND, Scatter
from tpcsweep.analysis.models.saved_fits import SavedError, read_fits, save_fits

from tests.support.coverage import of_new_run, of_same
from tests.support.made_up import RTT, STREAMS, TRUTHS, measured
from tests.support.plans import MEDIUM, Luck, made_up

WINDOW, _, FIXED = TRUTHS["window"]
GRID = {"rtt": RTT[::2], "streams": STREAMS[::2]}


def made(name: str, **more: Any) -> Observations:
    values, _, fixed = TRUTHS[name]
    return observe(measured(MODELS[name], values, GRID, fixed=fixed, **more))


def fits_of(observations: Observations, *names: str, resamples: int = 0) -> dict[str, Fit]:
    return {name: fit(MODELS[name], observations, resamples=resamples) for name in names}


def scored(observations: Observations, fits: Mapping[str, Fit], learned: Any = None) -> Choice:
    return choose({name: MODELS[name] for name in fits}, observations, fits, learned=learned or {})


@pytest.mark.parametrize("truth", ["window", "rao_sigmoid"])
def test_the_model_that_made_the_data_wins(truth: str) -> None:
    observations, others = made(truth), {"window", "lu", "rao_sigmoid", "constant"} - {truth}
    choice = scored(observations, fits_of(observations, truth, *sorted(others)))
    assert choice.best == truth
    scores = choice.scores.set_index("model")
    assert scores["score"][truth] < 0.7 * scores["score"][list(others)].min()
    assert scores.loc["constant", "skill"] == 0


def test_noise_alone_supports_no_model() -> None:
    grid = {"rtt": RTT[::3], "streams": STREAMS[::3]}
    observations = observe(measured(MODELS["constant"], {"rate": 2.0}, grid, noise=0.3))
    process = {"gaussian_process": LEARNED["gaussian_process"]}
    choice = scored(observations, fits_of(observations, "lu", "rao_sigmoid", "constant"), process)
    assert choice.scores.set_index("model").loc["constant", "tied"]
    assert choice.scores["skill"].max() < 0.15


def test_whole_values_and_whole_deployments_are_left_out() -> None:
    observations = made("window", repetitions=2)
    folds = make_folds(observations)
    kinds = Counter(fold.kind for fold in folds)
    assert kinds == {"rtt": 4, "streams": 4, "deployment": 4}
    for fold in folds:
        values = observations.frame[fold.kind]
        assert not set(values[fold.test]) & set(values[~fold.test])
    outside = Counter(fold.left_out_name for fold in folds if not fold.interpolated.any())
    # An RTT is a value, and a deployment.
    assert outside == {"streams=1": 1, "streams=64": 1, "rtt=0": 2, "rtt=160": 2}
    for kind in kinds:
        together = np.sum([fold.test for fold in folds if fold.kind == kind], axis=0)
        assert (together == 1).all()


def test_irregular_values_are_joined_to_classes() -> None:
    generator = np.random.default_rng(0)
    rtt = np.sort(np.concatenate([middle * generator.uniform(0.99, 1.01, 8) for middle in (5, 20, 60, 120)]))
    observations = observe(measured(MODELS["window"], WINDOW, {"rtt": rtt, "streams": [1, 2, 4]}))
    assert observations.frame["deployment"].nunique() == 4
    assert sum(fold.kind == "rtt" for fold in make_folds(observations)) == 4


@pytest.mark.parametrize(
    ("axis", "ends"), [("loss", (1e-6, 0.05)), ("bandwidth", (0.01, 0.1)), ("rtt", (2, 20))]
)
def test_distinct_values_of_any_size_have_classes_of_their_own(axis: str, ends: tuple[float, float]) -> None:
    values = pd.Series(np.geomspace(*ends, 13), name=axis)
    assert value_classes(values).equals(values)
    zero = value_classes(pd.concat([pd.Series([0.0]), values]).rename(axis))
    assert zero.nunique() == 14


def test_rtts_below_a_tenth_of_a_millisecond_are_noise() -> None:
    assert value_classes(pd.Series(np.geomspace(0.01, 0.1, 13), name="rtt")).unique().tolist() == [0.01]


def test_what_is_left_out_is_not_seen() -> None:
    observations = made("window")
    folds = make_folds(observations)
    table = cross_validate(lambda train, test: np.full(len(test), len(train)), folds, observations)
    seen = [len(observations) - fold.test.sum() for fold in folds]
    assert table["predicted"].tolist() == np.repeat(seen, [fold.test.sum() for fold in folds]).tolist()
    assert (table["measured"].to_numpy() == observations.throughput[table["row"]]).all()


def test_a_model_that_cannot_be_fitted_somewhere_is_named_and_has_no_score() -> None:
    def train(some: Observations, _kernel: Kernel | None) -> Trained:
        if 0.0 not in set(some.frame["rtt"]):
            raise ValueError("no LAN")
        return Trained(lambda cells: (np.zeros(len(cells)), np.ones(len(cells))))

    learned = {"learner": Learner("learner", "", train)}
    choice = choose({"constant": MODELS["constant"]}, made("window"), {}, learned=learned)
    assert choice.problems == ("learner could not be fitted without rtt=0",)
    assert np.isnan(choice.scores.set_index("model").loc["learner", "score"])


def test_too_few_values_leave_nothing_out_and_a_note_says_so() -> None:
    ds = measured(MODELS["window"], WINDOW, {"rtt": [1.0, 9.0], "streams": [1, 2]}, repetitions=3)
    choice = choose(MODELS, observe(ds), {})
    assert choice.winner == choice.best == ""
    assert choice.problems == ("no axis has enough values to leave one out",)


@pytest.fixture(scope="module")
def observations() -> Observations:
    axes = {"origins": [1, 2], "rtt": RTT[::3], "streams": STREAMS[::3]}
    return observe(measured(MODELS["window"], WINDOW, axes, fixed=FIXED))


@pytest.fixture(scope="module")
def kept(observations: Observations, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the fits of three models."""
    file = tmp_path_factory.mktemp("run") / "models.json"
    fits = fits_of(observations, "window", "lu", "constant", resamples=8)
    save_fits(file, observations.label, fits, scored(observations, fits))
    return file


def test_what_was_saved_predicts(kept: Path, observations: Observations) -> None:
    content = read_fits(kept)
    best = content.best(observations)
    assert best is content.formula and best.name == "window"
    found = best.predict(xr.Dataset(coords={"streams": [3], "rtt": [30.0]})).squeeze()
    assert float(found.throughput_low) < float(found.throughput) < float(found.throughput_high)


@pytest.mark.parametrize("problem", ["format", "parameters of window"])
def test_fits_of_another_format_or_formula_are_refused(kept: Path, tmp_path: Path, problem: str) -> None:
    content = json.loads(kept.read_text())
    if problem == "format":
        content["format"] = 0
    else:
        del content["fits"]["window"]["parameters"]["base"]
    (tmp_path / "models.json").write_text(json.dumps(content))
    said = rf"models\.json: no fits of format [0-9]+.*{problem}.*run snakemake"
    with pytest.raises(SavedError, match=said):
        read_fits(tmp_path / "models.json")


def test_cells_answer_inside_and_a_formula_beyond(tmp_path: Path) -> None:
    axes = {"rtt": np.geomspace(2, 160, 10), "streams": STREAMS[::3]}
    ds = measured(MODELS["window"], WINDOW, axes, fixed=FIXED, noise=0.02)
    wave = 1 + 0.6 * np.sin(1.5 * np.log(ds.rtt))  # which no formula has
    observations = observe(ds.map(lambda variable: variable * wave, keep_attrs=True))
    fits = fits_of(observations, "window", "constant", resamples=5)
    choice = scored(observations, fits, LEARNED)
    assert (choice.best, choice.formula) == ("gaussian_process", "window")
    save_fits(tmp_path / "models.json", observations.label, fits, choice)
    best = read_fits(tmp_path / "models.json").best(observations)
    assert best.name == choice.best
    # The file and the cells are all that it takes.
    assert np.abs(best.estimate(observations.frame) / observations.throughput - 1).max() < 0.3


def test_saved_processes_and_tables_predict_as_when_they_were_saved(tmp_path: Path) -> None:
    axes = {"rtt": np.geomspace(2, 160, 8), "streams": STREAMS[::3], "origins": [1, 2]}
    observations = observe(measured(MODELS["window"], WINDOW, axes, fixed=FIXED, noise=0.05))
    learned = {name: learner(observations) for name, learner in LEARNED.items()}
    kept = {name: one.to_dict() for name, one in learned.items()}
    save_fits(tmp_path / "models.json", observations.label, {}, Choice(), learned=kept)
    saved = read_fits(tmp_path / "models.json").learned
    points = observations.frame.iloc[::3]
    for name, before in learned.items():
        again = LEARNED[name].again(observations, saved[name])
        assert again.estimate(points) == pytest.approx(before.estimate(points), rel=0.02), name
        assert again.draws(points) == pytest.approx(before.draws(points), rel=0.03), name
        assert again.domain == before.domain


def test_where_there_are_several_runs_a_left_out_run_judges() -> None:
    """Between RTTs the level of one says nothing of the next; in another run it is the same."""
    axes = {"rtt": np.geomspace(2, 160, 8), "streams": [1, 4]}
    ds = measured(MODELS["window"], WINDOW, axes, fixed=FIXED, repetitions=3)
    level = xr.DataArray(np.exp(0.4 * (-1.0) ** np.arange(8)), dims="rtt")
    ds = ds.map(lambda variable: variable * level, keep_attrs=True)
    ds = ds.assign(run=ds.repetition.broadcast_like(ds.throughput))
    for told, best in ((True, "table"), (False, "window")):
        observations = observe(ds if told else ds.drop_vars("run"))
        choice = scored(observations, fits_of(observations, "window"), {"table": LEARNED["table"]})
        assert ("run" in set(choice.errors["kind"])) == told
        assert choice.best == best


def test_figures_show_every_cell_and_say_what_they_are(kept: Path, observations: Observations) -> None:
    content = read_fits(kept)
    fits = draw.fitted(observations, content.formula)
    assert "measured on netns" in " ".join(text.get_text() for text in fits.texts)
    assert len(fits.axes) == 2
    points = [len(line.get_xdata()) for axes in fits.axes for line in axes.lines if line.get_marker() == "."]
    assert sum(points) == len(observations)
    bands = [
        path.vertices[:, 1] for axes in fits.axes for band in axes.collections for path in band.get_paths()
    ]
    assert bands and max(map(max, bands)) <= float(observations.frame["bandwidth"].max())
    residuals = draw.against_measured(observations, content.fits)
    assert sum(axes.get_label() != "<colorbar>" for axes in residuals.axes) == 2 * len(content.fits)
    errors = draw.prediction_errors(content.choice, content.label)
    assert next(t.get_text() for t in errors.axes[0].get_yticklabels()) == "window *: Window limit"
    assert content.winner(observations).name == content.choice["winner"] == "window"
    assert {*draw.parameter_table(content.fits["lu"])["parameter"]} == {"a", "b"}
    surface = draw.interactive_surface(observations, content.formula)
    assert len(surface.layout.updatemenus[0].buttons) == 2


def test_what_is_not_determined_has_no_number() -> None:
    ds = measured(MODELS["window"], WINDOW, {"streams": STREAMS}, fixed=FIXED | {"rtt": 20.0})
    found = fit(MODELS["window"], observe(ds), resamples=20)
    table = draw.parameter_table(found).set_index("parameter")
    assert table.loc["window", ["value", "95 % interval"]].tolist() == ["", "not determined"]
    assert "rtt" in table.loc["window", "note"]
    without = replace(found, reasons={}, low=dict.fromkeys(found.low, math.nan))  # no interval
    rows = {row["name"]: row for row in without.parameter_rows()}
    assert rows["window"]["value"] and not rows["window"]["interval"] and not rows["window"]["reason"]


def grid(values: np.ndarray) -> xr.Dataset:
    axes = {"tool": ["curl", "davix"], "rtt": [1.0, 10.0, 100.0], "streams": [1, 4, 16]}
    content = xr.DataArray(values, axes, tuple(axes))
    return content.to_dataset(name="throughput").expand_dims(repetition=[1])


def test_what_was_measured_comes_back_and_between_it_lies_the_nearest() -> None:
    ds = grid(np.exp(np.random.default_rng(0).normal(size=(2, 3, 3))))
    table = fit_table(observe(ds))
    found = table.predict(ds.drop_vars("throughput"))
    assert np.allclose(found.throughput, ds.throughput.isel(repetition=0))
    near = ds.throughput.sel(streams=4, rtt=10.0, repetition=1)
    between = table.predict(xr.Dataset(coords={"tool": ["davix", "gfal"], "rtt": [12.0], "streams": [4]}))
    # A word that no cell has is as near to each.
    wanted = [near.sel(tool="davix"), np.sqrt(near.prod())]
    assert np.allclose(between.throughput.squeeze(), wanted)
    assert between.extrapolated.squeeze().values.tolist() == [False, True]


def test_a_place_has_the_medians_of_its_cells() -> None:
    def fitted(rtt: np.ndarray, *repetitions: np.ndarray) -> Learned:
        axes = {"repetition": [*range(len(repetitions))], "rtt": rtt}
        return fit_table(observe(xr.Dataset({"throughput": (tuple(axes), np.array(repetitions))}, axes)))

    # Of 13 values the three near 10 ms are one place.
    rtt = np.array([1.0, 10.0, 10.1, 10.9, *np.geomspace(100, 1e4, 9)])
    table = fitted(rtt, np.array([2.0, 9.0, 5.0, 1.0, *[2.0] * 9]))
    assert table.estimate({"rtt": np.array([10.1])}) == pytest.approx(5.0)


def test_a_lookup_ignores_streams_and_holds_another_run() -> None:
    """Streams without effect, measured in part, only add noise to a table."""
    axes = {"rtt": RTT[::2], "streams": STREAMS}
    ds = measured(MODELS["constant"], {"rate": 2.0}, axes, repetitions=3, noise=0.02)
    luck = np.exp(0.3 * np.random.default_rng(0).standard_normal(ds.throughput.shape))
    ds = ds[["throughput"]].assign_attrs(ds.attrs) * luck
    observations = observe(ds.assign(run=ds.repetition.broadcast_like(ds.throughput)))
    points = observations.frame[["rtt", "streams"]]
    lookup, table = fit_lookup(observations), fit_table(observations)
    assert np.abs(lookup.estimate(points) - 2).mean() < 0.5 * np.abs(table.estimate(points) - 2).mean()
    assert of_new_run("rao_ramp", fit_lookup, 0) > 0.9


def test_of_tied_ways_to_learn_the_process_predicts() -> None:
    axes = {"rtt": RTT[::3], "streams": STREAMS[::3]}
    observations = observe(measured(MODELS["constant"], {"rate": 2.0}, axes, noise=0.3, seed=6))
    choice = scored(observations, {}, LEARNED)
    assert choice.scores.set_index("model")["tied"][["lookup", "gaussian_process"]].all()
    assert (choice.winner, choice.best) == ("lookup", "gaussian_process")


def test_intervals_hold_points_that_were_left_out_and_too_little_is_refused() -> None:
    assert of_same("window", fit_table, 0) > 0.9
    with pytest.raises(ValueError, match="at least three points"):
        fit_table(observe(grid(np.ones((2, 3, 3))).isel(tool=0, rtt=0, streams=[0, 1])))


def test_a_full_path_keeps_its_narrow_scatter_beside_slow_cells_that_stall() -> None:
    generator = np.random.default_rng(0)
    fitted = np.repeat([0.1, 1.0], 5 * BAND)
    spread = np.where(fitted < 0.5, 0.5, 0.02)
    scatter = Scatter.from_residuals(spread * generator.standard_normal(fitted.size), fitted)
    slow, full = scatter.residuals((np.arange(1000) + 0.5) / 1000, np.array([0.1, 1.0])).std(axis=0)
    assert 0.4 < slow < 0.6 and 0.015 < full < 0.025


def test_between_bands_it_changes_evenly() -> None:
    scatter = Scatter(np.log([0.1, 1.0]), np.array([np.linspace(-1, 1, 100), np.zeros(100)]))
    found = scatter.residuals(np.array([0.995]), np.array([1e-3, np.sqrt(0.1), 50.0]))
    assert np.allclose(found[0], [1.0, 0.5, 0.0])


@given(st.lists(st.integers(1, 3 * BAND), min_size=1, max_size=6), st.randoms())
@settings(max_examples=25)
def test_the_order_of_rows_makes_no_difference(sizes: list[int], random: Random) -> None:
    """Rows of the same prediction are not shared out among bands by where they stand."""
    fitted = np.repeat(np.arange(1.0, len(sizes) + 1), sizes)
    residuals = np.linspace(-1, 1, fitted.size)  # as if runs with other luck came one after another
    order = np.array(random.sample(range(fitted.size), fitted.size))
    one, other = (
        Scatter.from_residuals(residuals, fitted),
        Scatter.from_residuals(residuals[order], fitted[order]),
    )
    assert np.allclose(one.quantiles, other.quantiles) and np.allclose(one.at, other.at)
    assert len(one.at) <= max(1, fitted.size // BAND)


def test_few_degrees_of_freedom_widen_the_tails() -> None:
    scatters = (Scatter.from_residuals(np.linspace(-1, 1, 20), np.ones(20), freedom) for freedom in (1e6, 4))
    many, few = (scatter.residuals(np.array([0.025, 0.975]), np.ones(1)) for scatter in scatters)
    assert np.allclose(few / many, stats.t.ppf(0.975, 4) / stats.norm.ppf(0.975), rtol=1e-3)


def test_one_more_measurement_and_a_run_that_was_not_seen_are_inside() -> None:
    """`benchmarks/held_out.py` has the rates of all laws."""
    window = partial(fit, MODELS["window"], resamples=8)
    assert of_same("usl", fit_process, 0) > 0.9
    told, untold = (of_new_run("window", window, 0, told=known) for known in (True, False))
    assert untold < told and told > 0.8


def test_a_process_predicts_deployments_although_cells_stall() -> None:
    """If stalled cells counted for their neighbours, its median error would be 0.13."""
    observations = observe(made_up("contention", MEDIUM, Luck(), seed=21))
    deployments = observations.frame["deployment"].unique()
    chosen = np.random.default_rng(21).permutation(deployments)[: len(deployments) // 4]
    out = observations.frame["deployment"].isin(chosen).to_numpy()
    held = observations.take(out)
    found = fit_process(observations.take(~out)).predict(held.frame[[*MEDIUM]])
    assert np.median(np.abs(found.throughput / held.throughput - 1)) < 0.08
    inside = (found.throughput_low <= held.throughput) & (held.throughput <= found.throughput_high)
    assert inside.mean() >= 0.9
