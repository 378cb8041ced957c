# SPDX-License-Identifier: Apache-2.0
"""Settings: one mean and one interval over repetitions, on every part of a page."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from tpcsweep.common.numbers import between, short
from tpcsweep.data import folding
from tpcsweep.data.labels import STATUS, flag_masks
from tpcsweep.data.repetitions import half_widths, settings_of
from tpcsweep.pages.content import page_content
from tpcsweep.pages.panel_grid import combine

from tests.support.synthetic import write_sweep

AXES: dict[str, Any] = {"rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1, 2, 3]}
FREEDOM = 7.0


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> folding.Folded:
    return folding.fold(write_sweep(tmp_path_factory.mktemp("cells"), AXES), AXES)


@pytest.fixture
def summary(folded: folding.Folded) -> xr.Dataset:
    return folded.summary.copy(deep=True)


@pytest.mark.parametrize("repetitions", [2, 3])
@pytest.mark.parametrize(
    ("noise", "scatter", "uneven", "known"),
    [
        (0.02, 0.0, 0, True),
        (0.02, 0.02, 0, True),
        (0.01, 0.05, 0, True),  # repetitions differ by far more than their intervals
        (0.01, 0.05, 1, True),
        (0.1, 0.0, 0, False),
    ],
)
def test_intervals_contain_the_truth(
    repetitions: int, noise: float, scatter: float, uneven: float, known: bool
) -> None:
    generator, hits, settings = np.random.default_rng(0), [], 24
    for _ in range(100):
        true = np.exp(generator.normal(size=settings))
        own = noise * np.exp(0.5 * generator.normal(size=settings))
        spread = np.hypot(own, scatter * np.exp(uneven * generator.normal(size=settings)))
        shape = repetitions, settings
        errors = np.sqrt(generator.chisquare(FREEDOM, shape) / FREEDOM) * own * true
        rates = true * np.maximum(1 + spread * generator.normal(size=shape), 0.01)
        errors, freedom = (errors, FREEDOM) if known else (np.full(shape, np.nan), np.inf)
        half = half_widths(rates, errors, np.full(shape, freedom), 0.95)[0]
        hits.append(np.abs(rates.mean(axis=0) - true) <= half)
    assert 0.94 <= np.mean(hits) <= 0.995


def test_repetitions_of_a_single_setting_without_intervals_have_students() -> None:
    rates = np.array([[0.9], [0.95], [1.1]])
    nothing = np.full(rates.shape, np.nan)
    half, freedom, _ = half_widths(rates, nothing, nothing, 0.95)
    assert (half[0], freedom[0]) == pytest.approx(
        (stats.t.ppf(0.975, 2) * stats.sem(rates[:, 0]), 2), rel=1e-6
    )


def test_a_single_measurement_keeps_its_interval(summary: xr.Dataset) -> None:
    once = summary.sel(repetition=[2])
    settings, ends = settings_of(once), ("throughput", "throughput_low", "throughput_high")
    xr.testing.assert_allclose(settings[[*ends]], once[[*ends]].sel(repetition=2, drop=True))


def test_the_best_grade_of_repetitions_counts(summary: xr.Dataset) -> None:
    masks, place = flag_masks(summary), {"rtt": 5.0, "streams": 1}
    summary["flags"].loc[{**place, "repetition": 1}] = masks["not_steady"]
    summary["flags"].loc[{**place, "repetition": 2}] = masks["too_short"]
    summary["status"].loc[{**place, "repetition": 3}] = STATUS.index("failed")
    one = settings_of(summary).sel(place)
    assert (one["counted"], one["flags"], one["status"]) == (1, masks["too_short"], STATUS.index("ok"))
    assert one["throughput"] == summary["throughput"].sel({**place, "repetition": 2})
    # Others show how repetitions scatter, which its own interval does not contain.
    alone = settings_of(summary.sel(repetition=[2])).sel(place)
    assert one["throughput_high"] >= alone["throughput_high"]
    summary["status"].loc[{**place, "repetition": 2}] = STATUS.index("failed")
    assert settings_of(summary).sel(place)["flags"] == masks["not_steady"]
    summary["status"].loc[place] = STATUS.index("not_measured")
    lost = settings_of(summary).sel(place)
    assert (lost["status"], lost["counted"]) == (STATUS.index("not_measured"), 0) and np.isnan(
        lost["throughput"]
    )


def test_simulated_intervals_do_not_shrink(summary: xr.Dataset) -> None:
    settings = settings_of(summary.assign_attrs(testbed_kind="simulation"))
    assert np.allclose(settings["throughput_low"], summary["throughput_low"].mean("repetition"))


def test_pictures_panel_and_findings_have_one_number_for_a_setting(
    folded: folding.Folded, summary: xr.Dataset
) -> None:
    summary["throughput"].loc[{"rtt": 5.0, "streams": 2}] *= 1.2
    for end in ("low", "high"):
        summary[f"throughput_{end}"].loc[{"rtt": 5.0, "streams": 2}] *= 1.2
    summary["flags"].loc[{"rtt": 5.0, "streams": 2, "repetition": 3}] = flag_masks(summary)["not_steady"]
    page = page_content(summary, folded.samples, folded.transfers)
    points, cells = page["data"]["points"], page["data"]["cells"]
    drawn, best = combine(summary), settings_of(summary)["throughput"].argmax(...)
    place = int(np.ravel_multi_index([int(best[name]) for name in ("rtt", "streams")], (2, 3)))
    low, mean, high = (float(drawn[name].values.ravel()[place]) for name in ("low", "throughput", "high"))
    assert points["value"][place] == short(mean)
    assert f"{points['low'][place]} to {points['high'][place]}" == between(low, high)
    assert f"{short(mean)} Gbit/s ({between(low, high)})" in page["findings"][0]["text"]
    assert sum(cells["counts"]) == 17
    texts = (
        points["flags"]["texts"][points["flags"]["at"][1]],
        cells["marks"]["texts"][cells["marks"]["at"][5]],
    )
    assert texts == ("not steady (1 of 3 repetitions, left out)", "not in the mean, not steady")
    assert page["about"]["state"].startswith(
        "6 settings × 3 repetitions = 18 cells, all measured: 17 without warnings, 1 with"
    )


def test_what_a_sweep_excludes_is_no_setting_of_it(folded: folding.Folded, summary: xr.Dataset) -> None:
    place = {"rtt": 50.0, "streams": 4}
    summary["status"].loc[place] = STATUS.index("not_measured")
    summary["throughput"].loc[place] = np.nan
    page = page_content(
        summary.assign_attrs(excluded=np.array([15, 16, 17])), folded.samples, folded.transfers
    )
    assert page["about"]["state"].startswith(
        "5 settings × 3 repetitions = 15 cells, all measured: 15 without warnings"
    )
    assert page["data"]["points"]["state"] == [1, 1, 1, 1, 1, 3]
    assert not any("were not measured" in found["text"] for found in (*page["findings"], *page["doubts"]))
