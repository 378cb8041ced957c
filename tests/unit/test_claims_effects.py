# SPDX-License-Identifier: Apache-2.0
"""Decisions from effects: what they may never do, and how often they err."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.claims import effects
from tpcsweep.claims.effects import Interval, Region, both, exact_share, largest, mean_ratio, most, peak

finite = st.floats(-100, 100)
decisions = st.lists(st.sampled_from([True, False, None]))
ratios = st.lists(st.floats(0.1, 10), min_size=effects.FEWEST_PAIRS, max_size=12)


@given(st.tuples(finite, finite).map(sorted), st.tuples(finite, finite).map(sorted))
def test_a_region_decides_only_what_lies_wholly_on_one_side(ends: list[float], span: list[float]) -> None:
    interval = Interval(sum(ends) / 2, *ends)
    inside = {span[0] <= end <= span[1] for end in ends}
    allowed = {True: [{True}], False: [{False}], None: [{False}, {True, False}]}
    assert inside in allowed[Region(*span).decide(interval)]


@given(decisions)
def test_both_needs_every_yes_and_most_a_majority_of_at_least_half(found: list[bool | None]) -> None:
    decision = both(found)
    assert (decision is False) == (False in found)
    assert (decision is True) == (bool(found) and all(found))
    decision = most(found)
    yes, no = found.count(True), found.count(False)
    if decision is not None:
        assert (yes > no) is decision
        assert yes + no >= len(found) / 2
    opposite = {True: False, False: True, None: None}
    assert most([opposite[one] for one in found]) is opposite[decision]


@given(ratios, st.floats(0.001, 0.5))
def test_a_mean_ratio_is_never_surer_than_its_cells(found: list[float], error: float) -> None:
    interval = mean_ratio(found, [error] * len(found))
    reverse = mean_ratio([1 / one for one in found], [error] * len(found))
    assert interval is not None and reverse is not None
    assert math.log(interval.high / interval.low) >= 2 * 1.95 * error / math.sqrt(len(found))
    assert (1 / reverse.high, 1 / reverse.low) == pytest.approx((interval.low, interval.high))


def test_a_mean_ratio_of_enough_pairs_covers_the_truth_as_often_as_it_says() -> None:
    assert mean_ratio([2.0] * (effects.FEWEST_PAIRS - 1), [0.01] * (effects.FEWEST_PAIRS - 1)) is None
    worlds = 1.3 * np.exp(0.2 * np.random.default_rng(3).normal(size=(400, 5)))
    found = [mean_ratio(ratios, np.full(5, 0.05)) for ratios in worlds]
    assert 0.93 <= np.mean([one is not None and one.low <= 1.3 <= one.high for one in found]) <= 0.98


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=9), st.floats(0.001, 1))
def test_the_largest_has_bounds_no_narrower_than_any_one_level(levels: list[float], error: float) -> None:
    found = largest(levels, [error] * len(levels))
    assert found is not None and found.value == max(levels)
    assert found.low <= max(levels) - 1.95 * error
    assert found.high >= max(levels) + 1.95 * error


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
