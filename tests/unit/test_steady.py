# SPDX-License-Identifier: Apache-2.0
"""The warm-up cut, the interval and the stopping rule, on series whose truth is known."""

from __future__ import annotations

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


series = st.lists(st.floats(0, 100, allow_subnormal=False), min_size=1, max_size=400)


@given(series)
def test_bounds(samples: list[float]) -> None:
    result = analyse(samples, INTERVAL, 0.95)
    rounding = 1e-9 * max(samples)
    assert min(samples) - rounding <= result.mean <= max(samples) + rounding
    assert 0 <= result.warmup_samples <= len(samples) / 2
    assert result.warmup == pytest.approx(result.warmup_samples * INTERVAL)
    if len(samples) < 10:
        assert math.isnan(result.low)
        assert math.isnan(result.high)
    else:
        assert result.low <= result.mean <= result.high
        assert result.batches >= 5
    if len(samples) < 50:
        assert not result.steady


@given(series, st.integers(-20, 20))
def test_scaling_the_samples_scales_the_result(samples: list[float], power: int) -> None:
    factor = 2.0**power  # exact in floating point, so that no tie is broken the other way
    one, other = analyse(samples, INTERVAL, 0.95), analyse(np.array(samples) * factor, INTERVAL, 0.95)
    assert (one.warmup_samples, one.batches, one.steady) == (
        other.warmup_samples,
        other.batches,
        other.steady,
    )
    assert other.mean == pytest.approx(one.mean * factor)
    assert other.half_width == pytest.approx(one.half_width * factor, nan_ok=True)


@given(st.integers(0, 2**32), st.integers(-1000, 1000))
def test_shifting_the_samples_shifts_the_result(seed: int, shift: int) -> None:
    samples = np.random.default_rng(seed).integers(0, 1000, 200).astype(float)
    one, other = analyse(samples, INTERVAL, 0.95), analyse(samples + shift, INTERVAL, 0.95)
    assert one.warmup_samples == other.warmup_samples
    assert other.mean == pytest.approx(one.mean + shift)
    assert other.half_width == pytest.approx(one.half_width)


@given(st.integers(0, 2**32), st.integers(5, 90), st.floats(0.0, 0.5))
def test_a_step_is_cut(seed: int, step: int, level: float) -> None:
    samples = np.random.default_rng(seed).normal(1, 0.02, 300)
    samples[:step] *= level
    result = analyse(samples, INTERVAL, 0.95)
    # Batches of five: the one that holds the step goes as a whole. More may go by chance, less may not.
    assert result.warmup_samples >= step - step % 5
    assert result.mean == pytest.approx(1, abs=0.02)


def test_a_step_in_the_second_half_is_not_steady() -> None:
    samples = np.random.default_rng(0).normal(1, 0.02, 300)
    samples[:200] *= 0.5
    assert not analyse(samples, INTERVAL, 0.95).steady


def test_a_ramp_is_not_steady() -> None:
    assert not analyse(np.linspace(0, 1, 300), INTERVAL, 0.95).steady


@pytest.mark.parametrize("level", [0.1, 1 / 3, 7.7])
def test_constant(level: float) -> None:
    result = analyse([level] * 100, INTERVAL, 0.95)
    assert result.mean == pytest.approx(level)
    assert result.half_width == pytest.approx(0, abs=1e-12)
    assert result.warmup == 0
    assert result.steady
    assert not result.autocorrelated
    assert narrow(result, 0.01)


def test_zeros_are_steady_but_never_enough() -> None:
    result = analyse([0.0] * 100, INTERVAL, 0.95)
    assert (result.mean, result.low, result.high, result.steady) == (0, 0, 0, True)
    assert not narrow(result, 0.05)


def test_short_series_have_no_interval() -> None:
    assert math.isnan(analyse([], INTERVAL, 0.95).mean)
    result = analyse([1.0] * 9, INTERVAL, 0.95)
    assert result.mean == 1
    assert math.isnan(result.half_width)
    assert not result.steady
    assert not narrow(result, 0.5)


def test_samples_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="2 of 3 samples are not finite"):
        analyse([1.0, math.nan, math.inf], INTERVAL, 0.95)


def test_enough_wants_three_narrow_looks_in_a_row() -> None:
    good = analyse(np.random.default_rng(0).normal(1, 0.02, 300), INTERVAL, 0.95)
    poor = analyse([1.0] * 9, INTERVAL, 0.95)
    assert narrow(good, 0.05)
    assert not enough([good, good], 0.05)
    assert enough([poor, good, good, good], 0.05)
    assert not enough([good, good, poor, good], 0.05)


def test_an_hour_is_analysed_in_no_time() -> None:
    samples = np.random.default_rng(0).normal(1, 0.1, 36_000)
    analyse(samples, INTERVAL, 0.95)
    begin = time.process_time()
    for _ in range(10):
        analyse(samples, INTERVAL, 0.95)
    # It takes milliseconds of CPU; what grew with the square of the samples would take seconds on any machine.
    assert (time.process_time() - begin) / 10 < 0.25


def covers(result: Steady) -> bool:
    return result.low <= 1 <= result.high


# The numbers in docs/measuring.md come from these; the bounds are a little below what was found.
@pytest.mark.parametrize(
    ("correlation", "count", "least"),
    [
        (0.0, 300, 0.92),
        (0.0, 1000, 0.93),
        (0.5, 300, 0.92),
        (0.5, 1000, 0.93),
        (0.9, 300, 0.84),
        (0.9, 1000, 0.91),
        (0.97, 1000, 0.80),
    ],
)
def test_coverage_of_cells_of_fixed_length(correlation: float, count: int, least: float) -> None:
    generator = np.random.default_rng(1)
    found = np.mean(
        [
            covers(analyse(autoregressive(generator, count, correlation, 0.1), INTERVAL, 0.95))
            for _ in range(400)
        ]
    )
    assert found >= least


@pytest.mark.parametrize(
    ("correlation", "spread", "least"), [(0.0, 0.3, 0.88), (0.5, 0.2, 0.88), (0.9, 0.1, 0.82)]
)
def test_coverage_of_cells_that_stopped_when_narrow(correlation: float, spread: float, least: float) -> None:
    generator = np.random.default_rng(7)
    covered, near = [], []
    for _ in range(100):
        samples = autoregressive(generator, 2400, correlation, spread)
        looks: list[Steady] = []
        for count in range(100, 2401, 10):
            looks.append(analyse(samples[:count], INTERVAL, 0.95))
            if enough(looks, 0.05):
                covered.append(covers(looks[-1]))
                near.append(abs(looks[-1].mean - 1) <= 0.05)
                break
    assert np.mean(covered) >= least
    assert np.mean(near) >= least
