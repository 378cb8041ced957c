# SPDX-License-Identifier: Apache-2.0
"""Decisions from effects: what they may never do, and how often they err."""

import math

import numpy as np
import pytest
from tpcsweep.claims import effects
from tpcsweep.claims.effects import exact_share, largest, mean_ratio, peak


def test_a_mean_ratio_of_enough_pairs_covers_the_truth_as_often_as_it_says() -> None:
    assert mean_ratio([2.0] * (effects.FEWEST_PAIRS - 1), [0.01] * (effects.FEWEST_PAIRS - 1)) is None
    worlds = 1.3 * np.exp(0.2 * np.random.default_rng(3).normal(size=(400, 5)))
    found = [mean_ratio(ratios, np.full(5, 0.05)) for ratios in worlds]
    assert 0.93 <= np.mean([one is not None and one.low <= 1.3 <= one.high for one in found]) <= 0.98


def test_levels_of_unknown_error_can_be_anything_and_shares_of_counts_are_exact() -> None:
    found = largest([1.0, 2.0], [0.1, math.nan])
    assert found is not None and found.high == math.inf
    assert effects.REGIONS["more"].decide(found) is None
    # 0 of 10: 1 - 0.025^(1/10)
    assert exact_share(0, 10).high == pytest.approx(0.3085, abs=1e-4)


@pytest.mark.parametrize(
    ("levels", "error", "decisions"),
    [
        ([1, 2, 4, 3, 2], 0.005, {True}),
        ([1, 2, 3, 4, 5], 0.005, {False}),
        ([5, 4, 3, 2, 1], 0.005, {False}),
        ([1, 1, 1, 1, 1], 0.005, {False}),
        ([3, 1, 1, 3, 3], 0.005, {False, None}),  # a valley: it falls, and rises after
        ([1, 2, 4, 3.8, 3.9], 0.02, {None}),
    ],
)
def test_a_peak_is_a_rise_and_a_fall(levels: list[float], error: float, decisions: set[bool | None]) -> None:
    found = peak(levels, [error] * 5)
    assert found is not None and found.decision in decisions


def test_few_points_have_no_peak_and_the_largest_of_noise_is_none() -> None:
    assert peak([1.0, 2.0], [0.1, 0.1]) is None
    worlds = np.exp(0.1 * np.random.default_rng(5).normal(size=(200, 8)))
    found = [peak(levels.tolist(), [0.1] * 8) for levels in worlds]
    assert sum(one is not None and one.decision is True for one in found) <= 6
