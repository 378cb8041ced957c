# SPDX-License-Identifier: Apache-2.0
"""Observations, and fits to data whose truth is known: parameters come back, what cannot be known is said."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import stdtrit
from tpcsweep.analysis.claims.claim_cells import claim_cells
from tpcsweep.analysis.comparison import compare
from tpcsweep.analysis.models.fit import Fit, fit
from tpcsweep.analysis.models.formula import Model, Parameter, with_defaults
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.learned import fit_process
from tpcsweep.analysis.models.observations import (
    FLOOR,
    SAMPLE_SIZE,
    NothingMeasuredError,
    Observations,
    observe,
)
from tpcsweep.analysis.models.predictor import Predictor
from tpcsweep.data import folding
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.labels import STATUS
from tpcsweep.data.tables import observations

from tests.support import synthetic
from tests.support.made_up import RTT, STREAMS, TRUTHS, measured
from tests.support.workflow import ROOT

WINDOW, WINDOW_AXES, WINDOW_FIXED = TRUTHS["window"]
LARGEST = max(len(model.parameters) for model in MODELS.values())


@pytest.mark.parametrize("name", MODELS)
def test_parameters_come_back_within_their_intervals(name: str) -> None:
    values, axes, fixed = TRUTHS[name]
    model = MODELS[name]
    found = fit(model, observe(measured(model, values, axes, fixed=fixed, repetitions=2)), resamples=20)
    assert found.ok and not found.problems
    for one in model.parameters:
        low, truth, high = (float(one.to_unit(of[one.name])) for of in (found.low, values, found.high))
        # 20 resamples know the ends of an interval only roughly: half its width more at each end.
        more = 0.5 * (high - low)
        assert low - more <= truth <= high + more, (one.name, found.reasons)
    # The truth is told from other values, wherever the data are said to determine it.
    assert sum(found.determined.values()) >= 0.6 * len(values), found.reasons


def of_window(axes: Any = WINDOW_AXES, fixed: Any = WINDOW_FIXED, **how: Any) -> Observations:
    return observe(measured(MODELS["window"], WINDOW, axes, fixed=fixed, **how))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    held = []
    for seed in range(8):
        found = fit(MODELS["window"], of_window(seed=seed), resamples=24)
        held += [found.low[one] <= truth <= found.high[one] for one, truth in WINDOW.items()]
    # 24 intervals of 95 %: 19 or fewer have a probability of 0.6 %. Narrower by a third they hold 14.
    assert sum(held) >= 20


def test_outliers_do_not_move_the_fit() -> None:
    ds = measured(MODELS["window"], WINDOW, WINDOW_AXES, fixed=WINDOW_FIXED)
    stalled = np.random.default_rng(1).random(ds.throughput.shape) < 0.15
    assert stalled.sum() >= 4
    spoiled = ds.assign({name: ds[name].where(~stalled, ds[name] * 0.02) for name in ds.data_vars})
    clean, robust = (fit(MODELS["window"], observe(one), resamples=0) for one in (ds, spoiled))
    everywhere = observe(ds).frame
    assert robust.estimate(everywhere) == pytest.approx(clean.estimate(everywhere), rel=0.08)


@pytest.mark.parametrize(
    ("axes", "fixed", "unknown", "reason"),
    [
        ({"streams": STREAMS}, WINDOW_FIXED | {"rtt": 20.0}, {"window", "base"}, "one value of rtt"),
        (WINDOW_AXES, {"bandwidth": 1e5, "tcp_buffer": 2.0**18}, {"efficiency"}, ""),
    ],
)
def test_what_data_do_not_show_is_not_determined(axes: Any, fixed: Any, unknown: Any, reason: str) -> None:
    observations = of_window(axes, fixed)
    found = fit(MODELS["window"], observations, resamples=20)
    assert all(not found.determined[name] and reason in found.reasons[name] for name in unknown)
    assert found.determined["efficiency" if "window" in unknown else "window"]
    assert found.estimate(observations.frame) == pytest.approx(observations.throughput, rel=0.2)


def test_the_combined_model_rises_and_falls_with_cores_and_streams() -> None:
    axes = {"streams": STREAMS, "cores": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]}
    values = TRUTHS["usl"][0] | {"origins_contention": 0.0, "origins_coherency": 1e-9}
    ds = measured(MODELS["usl"], values, axes, noise=0.02)
    found = fit(MODELS["combined"], observe(ds), resamples=0)
    surface = found.predict(ds).throughput
    assert int(surface.sel(streams=16).argmax("cores")) not in (0, len(axes["cores"]) - 1)
    assert int(surface.sel(cores=8).argmax("streams")) not in (0, len(STREAMS) - 1)
    assert float(np.abs(surface / ds.throughput.isel(repetition=0) - 1).median()) < 0.1


def test_parameters_with_the_same_effect_are_undetermined() -> None:
    twins = tuple(Parameter(name, "1", name, 0.01, 100.0, 1.0, "log") for name in ("one", "other"))
    about = ("twins", "Twins", "", "", ("streams",), twins)
    model = Model(*about, lambda points, one, other: one * other * points["streams"])
    ds = measured(model, {"one": 2.0, "other": 3.0}, {"streams": STREAMS})
    found = fit(model, observe(ds), resamples=20)
    assert found.reasons["one"] == "it cannot be told from other"
    assert not found.determined["other"]


def test_unfittable_models_have_a_reason_and_raise_nothing() -> None:
    found = fit(MODELS["window"], of_window({"rtt": [1.0, 2.0]}))
    assert "too few observations to determine 3 parameters: 2" in found.problems[0]
    assert not any(found.determined.values())
    broken = replace(MODELS["lu"], function=lambda points, **_: np.full(len(points["streams"]), np.nan))
    found = fit(broken, observe(measured(MODELS["lu"], TRUTHS["lu"][0], {"streams": STREAMS})), resamples=5)
    assert "no value" in found.problems[0]


@pytest.fixture(scope="module")
def window() -> Fit:
    return fit(MODELS["window"], of_window(), resamples=20)


@pytest.fixture(scope="module", params=["fit", "process"])
def predictor(request: pytest.FixtureRequest, window: Fit) -> Predictor:
    return window if request.param == "fit" else fit_process(of_window())


def test_predictions_have_the_axes_that_were_asked_for(predictor: Predictor) -> None:
    found = predictor.predict(xr.Dataset(coords={"streams": [2, 6], "rtt": [10.0, 30.0, 500.0]}))
    assert found.throughput.dims == ("streams", "rtt")
    assert (found.throughput_low <= found.throughput_high).all()
    assert found.extrapolated.sel(rtt=500).all()
    assert not found.extrapolated.sel(rtt=[10, 30]).any()
    with pytest.raises(KeyError, match="no rtt: these vary in the data"):
        predictor.predict(xr.Dataset(coords={"streams": [1]}))


@pytest.mark.parametrize(
    ("law", "axes", "between", "limit"),
    [
        ("usl", {"streams": STREAMS, "cores": [1, 2, 4, 8, 16, 32]}, {"cores": [3, 12, 24]}, 0.012),
        ("ranges", {"rtt": RTT, "tcp_streams": [2, 4, 8, 16]}, {"rtt": [7, 28, 110]}, 0.05),
    ],
)
def test_a_process_is_fitted_to_ratios(law: str, axes: Any, between: Any, limit: float) -> None:
    """Fitted to throughput itself, the process is off by 0.015 and 0.06."""
    values, _, fixed = TRUTHS[law]
    places = {name: [3, 12] for name in axes} | between
    ds, truth = (
        measured(MODELS[law], values, grid, fixed=fixed, noise=noise)
        for grid, noise in ((axes, 0.02), (places, 0.0))
    )
    found = fit_process(observe(ds)).predict(truth.isel(repetition=0)).throughput
    assert float(np.abs(np.log(found / truth.throughput.squeeze("repetition"))).mean()) < limit


def test_a_process_counts_zeros_and_reports_them() -> None:
    ds = measured(MODELS["window"], WINDOW, WINDOW_AXES, fixed=WINDOW_FIXED)
    assert not fit_process(observe(ds)).problems
    found = fit_process(observe(ds.assign(throughput=ds.throughput.where(ds.streams > 1, 0.0))))
    assert found.problems[0].startswith("7 cells without throughput count as ")
    assert np.isfinite(found.estimate(observe(ds).frame)).all()


def test_draws_are_seeded_and_never_negative(predictor: Predictor) -> None:
    points = {"streams": np.array([1.0, 64.0]), "rtt": np.array([160.0, 0.0])}
    draws = predictor.draws(points, count=50)
    assert draws.shape == (50, 2) and (draws >= 0).all()
    assert np.array_equal(draws, predictor.draws(points, count=50))


def test_fits_survive_json(window: Fit) -> None:
    failed = fit(MODELS["window"], of_window({"rtt": [1.0, 2.0]}))
    for found in (failed, window):
        again = Fit.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
        for name in ("ok", "problems", "reasons", "determined"):
            assert getattr(again, name) == getattr(found, name)
    asked = xr.Dataset(coords={"streams": [2, 6], "rtt": [10.0, 30.0]})
    xr.testing.assert_allclose(again.predict(asked), window.predict(asked), rtol=1e-3)


def test_observations_of_a_sweep(tmp_path: Any) -> None:
    axes: dict[str, Any] = {"tool": ["curl", "gfal-copy"], "cores": [1.0, None], "rtt": [5.0, 50.0]}
    axes |= {"streams": [1, 2], "repetition": [1, 2]}
    failed = {"tool": "curl", "cores": 1.0, "rtt": 5.0, "streams": 2}
    specs = synthetic.write_sweep(tmp_path, axes, failed=[failed], missing=[{"rtt": 50.0, "repetition": 2}])
    summary = folding.fold(specs, axes).summary
    found = observe(summary)
    assert (found.axes, found.numeric) == (tuple(axes)[:-1], ("cores", "rtt", "streams"))
    assert len(found) == int((summary.status == 1).sum()) == 32 - 8 - 2
    assert set(found.frame["deployment"]) == {f"cores={c}/rtt={r}" for c in ("1", "inf") for r in ("5", "50")}
    cell = summary.stack(at=summary.throughput.dims)
    # At 50 ms, where one repetition was measured: the floor is a share of it.
    cell = cell.sel(at=cell.throughput_low.notnull() & cell.cores.notnull() & (cell.rtt == 50)).isel(at=0)
    place = pd.Series({axis: cell[axis].item() for axis in found.axes})
    row = found.frame[(found.frame[place.index] == place).all(axis=1)].iloc[0]
    assert row["throughput"] == float(cell.throughput)
    half = float((cell.throughput_high - cell.throughput_low) / 2 / stdtrit(cell.throughput_freedom, 0.975))
    floors = FLOOR * np.array([row["throughput"], np.median(found.throughput)])
    assert row["error"] == pytest.approx(np.sqrt(half**2 + (floors**2).sum()))


def test_a_dataset_without_a_good_cell_is_refused() -> None:
    ds = measured(MODELS["constant"], {"rate": 1.0}, {"streams": [1, 2]})
    with pytest.raises(NothingMeasuredError):
        observe(ds.assign(throughput=ds.throughput * np.nan))


COUNTS = {"streams": st.integers(1, 1000), "origins": st.integers(1, 16)}
CORES = st.just(np.inf) | st.floats(0.1, 256)
POINTS = st.fixed_dictionaries({"rtt": st.floats(0, 300), **COUNTS, "cores": CORES})
UNITS = st.lists(st.floats(0, 1), min_size=LARGEST, max_size=LARGEST)


@given(st.sampled_from(sorted(MODELS)), POINTS, UNITS)
@settings(max_examples=100)
def test_models_are_finite_and_not_negative_everywhere(name: str, point: Any, units: list[float]) -> None:
    model = MODELS[name]
    values = {one.name: float(one.from_unit(u)) for one, u in zip(model.parameters, units, strict=False)}
    columns = {key: np.array([value]) for key, value in {**point, "bandwidth": 10.0}.items()}
    [found] = model(with_defaults(columns), values)
    assert 0 <= found < np.inf


def test_a_single_stream_has_the_whole_of_a_single_origin() -> None:
    point = with_defaults(
        {name: np.ones(1) for name in ("streams", "cores")} | {"bandwidth": np.full(1, 10.0)}
    )
    assert MODELS["combined"](point, TRUTHS["combined"][0]) == pytest.approx(1.3058, rel=1e-4)


@given(st.floats(0, 300), st.integers(1, 500), st.floats(1.1, 4))
def test_more_round_trip_time_never_helps_the_combined_model(rtt: float, streams: int, more: float) -> None:
    fixed = {"streams": float(streams), "file_size": 2.0**28, "bandwidth": 10.0, "cores": 8.0}
    columns = {name: np.full(2, value) for name, value in fixed.items()}
    points = with_defaults(columns | {"rtt": np.array([rtt, more * (rtt + 1)])})
    near, far = MODELS["combined"](points, {**TRUTHS["combined"][0], "contention": 0.0})
    assert far <= near * (1 + 1e-9)


def test_the_shipped_surface_says_what_its_documents_say() -> None:
    observations = observe(xr.load_dataset(ROOT / "examples/surface.nc"))
    assert len(observations) == 144
    ours = fit(MODELS["combined"], observations, resamples=4)
    windows = fit(MODELS["window"], observations, resamples=0)
    estimates = (one.estimate(observations.frame) for one in (ours, windows))
    off, off_windows = (np.abs(estimate - observations.throughput).mean() for estimate in estimates)
    assert off < 0.5 * off_windows
    assert ours.determined["redirection"]
    assert 10 < ours.low["redirection"] < ours.high["redirection"] < 30  # no cell is without a redirector


AXES = ("rtt", "streams", "repetition")


def made(shape: tuple[int, int, int] = (2, 3, 2), half: float = 0.2) -> xr.Dataset:
    """A dataset whose cells are told apart by their throughput: 1, 2, 3 … Gbit/s ± half."""
    throughput = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    axes = {name: np.arange(1, size + 1) for name, size in zip(AXES, shape, strict=True)}
    return synthetic.bare(throughput, half, axes).assign_coords(record=[0]).assign_attrs(testbed_kind="netns")


def with_freedom(ds: xr.Dataset, freedom: int) -> xr.Dataset:
    return ds.assign(throughput_freedom=xr.full_like(ds.throughput, freedom))


def test_every_cell_is_a_row_in_the_order_of_the_dimensions() -> None:
    rows = observations(made())
    assert rows["throughput"].tolist() == list(range(1, 13))
    assert rows.loc[7, ["rtt", "streams", "repetition", "tool"]].tolist() == [2, 1, 2, "curl"]
    assert (rows["reason"] == "").all() and not rows[list(FLAGS)].any(axis=None)
    assert not {"record", "status", "flags", "throughput_low", "throughput_high"} & set(rows)


@given(st.floats(0.5, 0.999), st.floats(1e-6, 10), st.integers(1, 30))
@settings(max_examples=8)
def test_an_error_gives_back_its_interval(confidence: float, half: float, freedom: int) -> None:
    ds = made(half=half).assign_attrs(measurement_confidence=confidence)
    unsaid = observations(ds)
    said = observations(with_freedom(ds, freedom))
    for rows, expected in ((unsaid, np.inf), (said, freedom)):  # imports may lack it
        assert (rows["freedom"] == expected).all()
        ends = stats.t.interval(confidence, rows["freedom"], rows["throughput"], rows["error"])
        assert np.allclose(ends, [rows["throughput"] - half, rows["throughput"] + half])


def test_claims_count_few_degrees_of_freedom_as_more_error() -> None:
    ds = made((2, 3, 1))
    few, many = (claim_cells(with_freedom(ds, freedom)).trusted["error"] for freedom in (4, 16))
    assert (few > many).all()
    half = 0.2 / stats.t.ppf(0.975, 4)
    assert np.allclose(few * stats.norm.ppf(0.9995), half * stats.t.ppf(0.9995, 4))


def test_intervals_without_a_confidence_level_are_of_95_percent() -> None:
    said = made((2, 3, 1))
    unsaid = said.assign_attrs()
    del unsaid.attrs["measurement_confidence"]
    tables = ((observe(ds).frame, claim_cells(ds).trusted, compare(ds, ds).cells) for ds in (unsaid, said))
    for found, expected in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(found, expected)


def test_without_an_interval_the_error_is_not_known() -> None:
    bare = observations(made()[["throughput"]])
    assert bare["error"].isna().all() and (bare["reason"] == "").all()
    half = made()
    half["throughput_low"][0, 0, 0] = np.nan
    assert observations(half)["error"].isna().tolist() == [True] + [False] * 11


def test_reasons_are_the_first_that_holds() -> None:
    ds = made()
    at = {"rtt": 1, "streams": 1}
    ds["status"].loc[at] = [STATUS.index("not_measured"), STATUS.index("failed")]
    ds["throughput"].loc[{"rtt": 1}] = np.where(np.arange(3)[:, None] < 2, np.nan, 7.0)
    ds["flags"].attrs.update(flag_meanings="path_slow disturbed", flag_masks=np.array([1, 2]))  # its own bits
    ds["flags"].loc[{"rtt": 1, "streams": 3}] = 1 | 2
    rows = observations(ds, untrusted=("path_slow", "disturbed"))
    expected = ["not measured", "failed", *["without throughput"] * 2, *["path_slow"] * 2, *[""] * 6]
    assert rows["reason"].tolist() == expected
    # What is untrusted is the caller's to say.
    assert observations(ds)["reason"].tolist()[4:] == [""] * 8
    assert np.flatnonzero(rows["disturbed"]).tolist() == [4, 5]


def test_more_columns_are_there_also_where_the_dataset_has_none() -> None:
    rows = observations(made().assign(limit=xr.full_like(made()["throughput"], 3.0)), also=("limit", "cores"))
    assert (rows["limit"] == 3).all() and rows["cores"].isna().all()


@pytest.mark.parametrize("selection", [{"repetition": 1}, {"repetition": 1, "rtt": 0, "streams": 2}])
def test_a_part_of_a_dataset_has_the_same_rows(selection: dict[str, int]) -> None:
    whole, part = observations(made()), observations(made().isel(selection))
    chosen = whole[np.all([whole[name] == at + 1 for name, at in selection.items()], axis=0)]
    rows = part[list(chosen)], chosen.reset_index(drop=True)
    pd.testing.assert_frame_equal(*rows, check_dtype=False, check_names=False)
    bare = observations(made().isel(selection).drop_vars("repetition"))
    assert bare["throughput"].tolist() == part["throughput"].tolist()


def test_runs_differ_by_pauses_and_machines() -> None:
    ds = made((1, 4, 1))
    days = ["2026-01-01T22", "2026-01-02T01", "2026-01-02T09", "2026-01-02T10"]
    hosts = ['{"host": "one"}', '{"host": "two"}']
    ds["started"] = AXES, np.array(days, "datetime64[ns]").reshape(1, 4, 1)
    ds["provenance"] = AXES, np.reshape([0, 0, 0, 1], (1, 4, 1))
    ds["provenance_record"] = "record", hosts[:1]
    assert observations(made((1, 4, 1)))["run"].tolist() == [0] * 4
    # Midnight ends no run.
    assert observations(ds)["run"].tolist() == [0, 0, 1, 1]
    ds = ds.drop_dims("record").assign(provenance_record=("record", hosts))
    assert observations(ds)["run"].tolist() == [0, 0, 1, 2]
    # What says it itself is believed.
    assert observations(ds.assign(run=(AXES, np.full((1, 4, 1), 7.0))))["run"].tolist() == [0] * 4


def share(found: Observations) -> np.ndarray:
    """Errors as shares of what was measured, without the floor that is the same for all."""
    floor = 0.05 * np.median(found.throughput)
    return np.asarray(np.sqrt(found.error**2 - floor**2) / found.level)


@given(st.floats(0.02, 0.4), st.sampled_from([4, 8]))
@settings(max_examples=5)
def test_without_intervals_errors_are_a_share_that_repetitions_tell(spread: float, repetitions: int) -> None:
    level = np.geomspace(0.1, 10, 12)[None, :, None]
    noise = np.random.default_rng(0).standard_normal((1, 12, repetitions))
    ds = xr.Dataset({"throughput": (AXES, level * (1 + spread * np.maximum(noise, -2)))})
    ds = ds.assign_coords(rtt=[1], streams=range(12), repetition=range(repetitions))
    found = observe(ds)
    assert np.allclose(share(found), max(spread, 0.05), rtol=0.6)
    assert found.error[-1] > 20 * spread * found.error[0]
    assert np.allclose(share(observe(ds.isel(repetition=[0]))), 0.2)


def test_runs_that_measured_other_cells_are_not_compared() -> None:
    ds = made((2, 3, 2))
    runs = {axis: observe(ds.assign(run=ds[axis].broadcast_like(ds.throughput))).runs for axis in AXES}
    assert [axis for axis in AXES if runs[axis] is not None] == ["repetition"]


@given(st.integers(1, 2000), st.integers(1, 2000))
@settings(max_examples=6)
def test_of_many_cells_a_sample_is_taken_that_is_the_same_each_time(cells: int, most: int) -> None:
    ds = made((1, cells, 1))
    found, again = (observe(ds, most) for _ in range(2))
    taken = cells if cells <= most else min(most, SAMPLE_SIZE)
    assert len(found) == taken
    assert found.throughput.tolist() == again.throughput.tolist() == sorted(set(found.throughput))
    assert (f"{taken} of {cells} cells chosen at random" in found.label) == (cells > most)
