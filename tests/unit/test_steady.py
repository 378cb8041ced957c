# SPDX-License-Identifier: Apache-2.0
"""The warm-up cut, the interval and the stopping rule, on series whose truth is known."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from tpcsweep.measure.steady import Steady, analyse, enough, narrow

INTERVAL = 0.1


def autoregressive(
    generator: np.random.Generator, count: int, correlation: float, spread: float, ramp: float = 20.0
) -> np.ndarray:
    """Give AR(1) samples around 1 with relative standard deviation `spread`, rising over `ramp` samples."""
    noise: np.ndarray = lfilter([1], [1, -correlation], generator.normal(size=count + 500))[500:]
    noise *= math.sqrt(1 - correlation**2)
    return (1 + spread * noise) * (1 - np.exp(-np.arange(count) / ramp))


def analysed(samples: np.ndarray | list[float]) -> Steady:
    return analyse(samples, INTERVAL, 0.95)


def white(count: int, spread: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(1, spread, count)


def share_finite(found: list[Steady]) -> float:
    return float(np.mean([math.isfinite(one.low) for one in found]))


series = st.lists(st.floats(0, 100, allow_subnormal=False), min_size=1, max_size=400)


@given(series)
def test_bounds(samples: list[float]) -> None:
    result = analysed(samples)
    rounding = 1e-9 * max(samples)
    assert min(samples) - rounding <= result.mean <= max(samples) + rounding
    assert 0 <= result.warmup_samples <= len(samples) / 2
    assert result.warmup == pytest.approx(result.warmup_samples * INTERVAL)
    assert math.isfinite(result.low) == (result.steady and not result.too_short)
    if math.isfinite(result.low):
        assert result.low <= result.mean <= result.high
        assert 4 <= result.freedom <= 16
        assert 15 <= result.length <= 2 * len(samples)
    if len(samples) < 50:
        assert not result.steady


@given(series, st.integers(-20, 20))
def test_scaling_the_samples_scales_the_result(samples: list[float], power: int) -> None:
    factor = 2.0**power  # exact in floating point, so that no tie is broken the other way
    one, other = analysed(samples), analysed(np.array(samples) * factor)
    for name in ("warmup_samples", "steady", "too_short", "freedom", "length"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), nan_ok=True), name
    assert other.mean == pytest.approx(one.mean * factor)
    assert other.half_width == pytest.approx(one.half_width * factor, nan_ok=True)


@given(st.integers(0, 2**32), st.integers(-1000, 1000))
def test_shifting_the_samples_shifts_the_result(seed: int, shift: int) -> None:
    samples = np.random.default_rng(seed).integers(0, 1000, 200).astype(float)
    one, other = analysed(samples), analysed(samples + shift)
    assert one.warmup_samples == other.warmup_samples
    assert other.mean == pytest.approx(one.mean + shift)
    assert other.half_width == pytest.approx(one.half_width, nan_ok=True)


@given(st.integers(0, 2**32), st.integers(5, 90), st.floats(0.0, 0.5))
def test_a_step_is_cut(seed: int, step: int, level: float) -> None:
    samples = white(300, 0.02, seed)
    samples[:step] *= level
    result = analysed(samples)
    # Batches of five: the one that holds the step goes as a whole. More may go by chance, less may not.
    assert result.warmup_samples >= step - step % 5
    assert result.mean == pytest.approx(1, abs=0.02)
    samples[:200] *= 0.5  # in the second half
    assert not analysed(samples).steady


@pytest.mark.parametrize("count", [100, 200, 600])
def test_a_trend_that_the_cut_leaves_is_not_steady(count: int) -> None:
    """The rule for the warm-up alone lets it pass in half of such cells."""
    generator = np.random.default_rng(count)
    trend = np.linspace(0.85, 1.15, count)
    assert share_finite([analysed(trend + generator.normal(0, 0.05, count)) for _ in range(60)]) <= 0.2


def test_a_cell_of_few_correlation_times_is_too_short() -> None:
    generator = np.random.default_rng(0)
    found = [analysed(autoregressive(generator, 60, 0.97, 0.1, ramp=1e-9)) for _ in range(100)]
    assert share_finite(found) <= 0.05
    assert all(one.too_short for one in found if one.length < 15)


def test_a_cell_of_few_round_trips_is_too_short() -> None:
    short, long = (analyse(white(200, 0.1), INTERVAL, 0.95, rtt) for rtt in (2.0, 0.5))
    assert (short.too_short, long.too_short) == (True, False)
    assert short.length == pytest.approx((20 - short.warmup) / 2)
    assert math.isnan(short.low)


def test_the_correlation_time_is_that_of_the_noise() -> None:
    """Of AR(1) of correlation r it is (1 + r) / (1 − r) / 2 samples."""
    result = analysed(autoregressive(np.random.default_rng(3), 20_000, 0.9, 0.1, ramp=1e-9))
    assert (20_000 - result.warmup_samples) / result.length == pytest.approx(9.5, rel=0.5)


@pytest.mark.parametrize("level", [0.1, 7.7])
def test_constant(level: float) -> None:
    result = analysed([level] * 100)
    assert (result.mean, result.half_width) == (pytest.approx(level), pytest.approx(0, abs=1e-12))
    assert (result.warmup, result.steady, result.too_short) == (0, True, False)
    assert narrow(result, 0.01)


def test_zeros_are_steady_but_never_enough_and_short_series_have_no_interval() -> None:
    zeros, short = analysed([0.0] * 100), analysed([1.0] * 9)
    assert (zeros.mean, zeros.low, zeros.high, zeros.steady, zeros.too_short) == (0, 0, 0, True, False)
    assert (short.mean, short.steady, math.isnan(short.half_width)) == (1, False, True)
    assert not narrow(zeros, 0.05) and not narrow(short, 0.5)
    assert math.isnan(analysed([]).mean)
    with pytest.raises(ValueError, match="2 of 3 samples are not finite"):
        analysed([1.0, math.nan, math.inf])


def test_enough_wants_three_narrow_looks_in_a_row() -> None:
    good, poor = analysed(white(300, 0.02)), analysed([1.0] * 9)
    assert not enough([good, good], 0.05)
    assert enough([poor, good, good, good], 0.05)
    assert not enough([good, good, poor, good], 0.05)


def test_an_hour_is_analysed_in_no_time() -> None:
    samples = white(36_000, 0.1)
    analysed(samples)
    begin = time.process_time()
    analysed(samples)
    # It takes milliseconds of CPU; what grew with the square of the samples would take seconds on any machine.
    assert time.process_time() - begin < 0.25


def covers(result: Steady) -> bool:
    return result.low <= 1 <= result.high


# `python -m benchmarks.steadiness` has more of these; the bounds are a little below what it finds.
@pytest.mark.parametrize(("correlation", "count"), [(0.0, 90), (0.5, 300), (0.9, 600), (0.97, 2000)])
def test_intervals_of_steady_cells_hold_the_truth(correlation: float, count: int) -> None:
    generator = np.random.default_rng(1)
    found = [analysed(autoregressive(generator, count, correlation, 0.1, ramp=5.0)) for _ in range(300)]
    held = [covers(one) for one in found if math.isfinite(one.low)]
    assert len(held) > 100
    assert np.mean(held) >= 0.92


@pytest.mark.parametrize("count", [60, 90])
def test_short_cells_that_still_open_hardly_pass_and_miss(count: int) -> None:
    """Cells of 6 and 9 s whose rate rises as 1 − exp(−t/2 s)."""
    generator = np.random.default_rng(2)
    found = [analysed(autoregressive(generator, count, 0.5, 0.05)) for _ in range(300)]
    assert np.mean([math.isfinite(one.low) and not covers(one) for one in found]) <= 0.04


@pytest.mark.parametrize(
    ("correlation", "spread", "least"), [(0.0, 0.3, 0.90), (0.5, 0.2, 0.90), (0.9, 0.1, 0.86)]
)
def test_coverage_of_cells_that_stopped_when_narrow(correlation: float, spread: float, least: float) -> None:
    generator = np.random.default_rng(7)
    covered, near = [], []
    for _ in range(40):
        samples = autoregressive(generator, 2400, correlation, spread)
        looks: list[Steady] = []
        for count in range(100, 2401, 20):
            looks.append(analysed(samples[:count]))
            if enough(looks, 0.05):
                covered.append(covers(looks[-1]))
                near.append(abs(looks[-1].mean - 1) <= 0.05)
                break
    assert np.mean(covered) >= least
    assert np.mean(near) >= least
