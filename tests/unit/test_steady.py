# SPDX-License-Identifier: Apache-2.0
"""The warm-up cut, the interval and its signs, on series whose truth is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from tpcsweep.measure.steady import Steady, analyse, narrow

INTERVAL = 0.1


def analysed(samples: np.ndarray | list[float], **what: float) -> Steady:
    return analyse(samples, INTERVAL, 0.95, **what)


def white(count: int, spread: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(1, spread, count)


def autoregressive(generator: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    noise: np.ndarray = lfilter([1], [1, -correlation], generator.normal(size=count + 500))[500:]
    return 1 + 0.1 * math.sqrt(1 - correlation**2) * noise


series = st.lists(st.floats(0, 100, allow_subnormal=False), min_size=1, max_size=400)


@given(series, st.floats(0, 60))
def test_bounds(samples: list[float], settled: float) -> None:
    found = analysed(samples, settled=settled)
    rounding = 1e-9 * max(samples)
    assert min(samples) - rounding <= found.mean <= max(samples) + rounding
    assert (found.mean == 0) == (not any(samples))
    assert 0 <= found.warmup_samples <= len(samples) / 4
    assert found.warmup == pytest.approx(found.warmup_samples * INTERVAL)
    if len(samples) >= 100:
        assert math.isfinite(found.half_width)
    if math.isfinite(found.low):
        assert found.low <= found.mean <= found.high
        assert found.freedom == 7
        assert 0 <= found.length <= 2 * len(samples)
    else:
        assert found.too_short and math.isnan(found.high) and math.isnan(found.freedom)


@given(series, st.integers(-20, 20))
def test_scaling_the_samples_scales_the_result(samples: list[float], power: int) -> None:
    factor = 2.0**power  # exact in floating point
    one, other = analysed(samples), analysed(np.array(samples) * factor)
    for name in ("warmup_samples", "steady", "too_short", "freedom", "length"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), nan_ok=True), name
    assert other.mean == pytest.approx(one.mean * factor)
    assert other.half_width == pytest.approx(one.half_width * factor, nan_ok=True)


@given(st.integers(0, 2**32), st.integers(1, 1000))
def test_shifting_the_samples_shifts_the_result(seed: int, shift: int) -> None:
    samples = np.random.default_rng(seed).integers(1, 1000, 200).astype(float)
    one, other = analysed(samples), analysed(samples + shift)
    assert (one.warmup_samples, one.steady) == (other.warmup_samples, other.steady)
    assert other.mean == pytest.approx(one.mean + shift)
    assert other.half_width == pytest.approx(one.half_width)


@given(st.integers(0, 2**32), st.integers(20, 175), st.integers(1, 20))
def test_pauses_stay_in_the_mean(seed: int, begin: int, length: int) -> None:
    samples = white(200, 0.05, seed)
    samples[begin : begin + length] = 0
    found = analysed(samples)
    assert found.warmup_samples == 20
    assert found.mean == pytest.approx(samples[20:].mean())


def test_the_warmup_ends_when_all_has_settled_or_after_a_quarter() -> None:
    settled = {(20, 0): 2, (20, 3.5): 3.5, (20, 17): 5, (20, math.inf): 5, (20, math.nan): 2}
    for (seconds, at), warmup in {**settled, (6, 0): 1.5, (1e-9, 0): 0}.items():
        found = analysed(white(round(10 * seconds), 0.1), settled=at)
        assert found.warmup == pytest.approx(warmup), (seconds, at)


@pytest.mark.parametrize("count", [100, 200, 600])
def test_a_trend_is_flagged_and_keeps_its_interval(count: int) -> None:
    generator = np.random.default_rng(count)
    trend = np.linspace(0.85, 1.15, count)
    found = [analysed(trend + generator.normal(0, 0.05, count)) for _ in range(60)]
    assert np.mean([one.steady for one in found]) <= 0.1
    assert all(math.isfinite(one.half_width) for one in found)
    assert np.mean([analysed(generator.normal(1, 0.05, count)).steady for _ in range(60)]) >= 0.9


@pytest.mark.parametrize(
    ("samples", "rtt", "too_short"),
    [
        (white(200, 0.1), 0.5, False),
        (white(200, 0.1), 2.0, True),
        (white(100, 0.1), 0.0, False),
        (white(90, 0.1), 0.0, True),
        (autoregressive(np.random.default_rng(0), 150, 0.99), 0.0, True),
    ],
)
def test_cells_of_few_independent_samples_are_short(samples: np.ndarray, rtt: float, too_short: bool) -> None:
    found = analysed(samples, rtt=rtt)
    assert found.too_short == too_short
    assert math.isfinite(found.half_width)
    assert found.length <= (samples.size * INTERVAL - found.warmup) / (rtt or INTERVAL / 2)


@pytest.mark.parametrize("level", [0.1, 7.7])
def test_constant(level: float) -> None:
    found = analysed([level] * 100)
    assert (found.mean, found.half_width) == (pytest.approx(level), pytest.approx(0, abs=1e-12))
    assert (found.steady, found.too_short) == (True, False)
    assert narrow(found, 0.01)


def test_series_without_bytes_or_samples_and_bytes_that_all_arrived_in_the_warmup() -> None:
    found = analysed([1.0] * 10 + [0.0] * 90)
    assert (found.mean, found.warmup, found.steady) == (pytest.approx(0.1), 0, False)
    assert not narrow(found, 0.5)
    zeros, short = analysed([0.0] * 100), analysed([1.0] * 7)
    assert (zeros.mean, zeros.low, zeros.high, zeros.steady) == (0, 0, 0, True)
    assert (short.mean, short.too_short, math.isnan(short.half_width)) == (1, True, True)
    assert not narrow(zeros, 0.05) and not narrow(short, 0.5)
    assert math.isnan(analysed([]).mean)
    with pytest.raises(ValueError, match="2 of 3 samples are not finite"):
        analysed([1.0, math.nan, math.inf])


def stalled(generator: np.random.Generator, count: int) -> np.ndarray:
    begun = generator.random(count + 2) < 0.01
    stalls = begun[2:] | begun[1:-1] | begun[:-2]
    return generator.normal(1, 0.1, count) * ~stalls


# `python -m benchmarks.steadiness` has more of these; the bounds are a little below what it finds.
@pytest.mark.parametrize(
    ("draw", "count", "truth", "least"),
    [
        (lambda generator, count: generator.normal(1, 0.1, count), 100, 1, 0.93),
        (lambda generator, count: autoregressive(generator, count, 0.5), 180, 1, 0.93),
        (lambda generator, count: autoregressive(generator, count, 0.9), 300, 1, 0.90),
        (stalled, 300, 0.99**3, 0.89),
        (stalled, 600, 0.99**3, 0.91),
    ],
)
def test_intervals_hold_the_truth(draw, count: int, truth: float, least: float) -> None:  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(1)
    found = [analysed(draw(generator, count)) for _ in range(400)]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= least
    assert np.mean([one.mean for one in found]) == pytest.approx(truth, rel=0.005)
