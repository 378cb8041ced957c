# SPDX-License-Identifier: Apache-2.0
"""Readings, their series, whether these are steady, and whether the machine was as at other times."""

import itertools
import math
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from tpcsweep.common.errors import BrokenError
from tpcsweep.data import similar_cells
from tpcsweep.measuring.limits import means
from tpcsweep.measuring.machine import TRIES, WINDOW, Machine, Speed, pressure
from tpcsweep.measuring.readings import goodput, sampled_series
from tpcsweep.measuring.sampler import LocalTargets, Readings, Record, Sampler, Table
from tpcsweep.measuring.steady import Course, Steady, analyse, bounded, narrow

from tests.support.readings import readings
from tests.support.workflow import wait_until


def test_rates_come_of_differences_and_are_unknown_as_those_are() -> None:
    start: dict[str, Any] = {"source_cpu": (0.0, 0.0)}
    later = {"time": 0.5, "goodput": 62_500_000, "retransmits": 3, "resent": 62_500, "rwnd_limited": 1.0}
    later |= {"source_cpu": (0.25, 0.5), "source_thread": 0.75, "machine_cpu": 2.0, "machine_total": 4.0}
    later |= {"machine_others": 1.0, "machine_pressure": 0.25, "machine_work": 2e-4}
    found = sampled_series(readings([start, later]), 0.5)
    # 62.5 MB in half a second is 1 Gbit/s; two connections are limited all the time.
    expected = {"time": 0.5, "goodput": 1.0, "source_cpu": 1.5, "machine_cpu": 0.5, "retransmits": 3}
    expected |= {"rwnd_limited": 2, "resent": 0.001, "source_thread": 0.75}
    expected |= {"machine_others": 0.25, "machine_pressure": 0.5}  # of all CPUs, and of the time
    expected |= {"machine_work": 0.2}  # ms
    assert {name: found[name].item() for name in expected} == pytest.approx(expected)
    assert found["source_origin_cpu"].tolist() == [[0.5], [1.0]]
    unknown = sampled_series(Readings({"client": Table(("time",), [(0.0,), (0.5,)])}), 0.5)
    assert unknown.keys() == found.keys()
    assert all(np.isnan(values).all() for name, values in unknown.items() if name != "time")
    assert all(values.size == 0 for values in sampled_series(readings([{}]), 0.5).values())


def test_an_interval_in_which_the_machines_clock_has_hardly_ticked_counts_as_little() -> None:
    # Others' CPU was what the deployment used, taken from nothing, over nothing: minus seven million.
    ticks = {0.0: (0.0, 0.0, 0.0), 0.02: (0.0, 0.0, -0.007), 0.04: (0.04, 0.04, 0.026)}
    names = "machine_total", "machine_cpu", "machine_others"
    read = readings({"time": time, **dict(zip(names, values, strict=True))} for time, values in ticks.items())
    found = means(sampled_series(read, 0.02), np.full(2, 0.5))
    assert [found[f"machine_{name}"] for name in ("others", "cpu")] == pytest.approx([0.026 / 0.04, 1.0])


@given(st.lists(st.tuples(st.floats(0.001, 2), st.integers(0, 10**9)), min_size=1, max_size=40))
def test_nothing_is_lost_or_made_up_between_readings(steps: list[tuple[float, int]]) -> None:
    lengths, counts = zip(*steps, strict=True)
    times, sizes = np.cumsum([0, *lengths]).tolist(), np.cumsum([0, *counts]).tolist()
    read = readings({"time": time, "goodput": size} for time, size in zip(times, sizes, strict=True))
    found = sampled_series(read, 0.1)
    arrived, sent = found["goodput"].sum() * 0.1 / 8e-9, sizes[-1]
    largest = max(payload / length for length, payload in steps)
    assert sent - 0.1 * largest - 1 <= arrived <= sent * (1 + 1e-9) + 1
    assert (found["goodput"] <= largest * 8e-9 * (1 + 1e-6) + 1e-9).all()
    assert goodput(read, 0.1) == pytest.approx(found["goodput"])


def sampler_of(read: Callable[[], Record], interval: float, **what: Any) -> Sampler:
    return Sampler([LocalTargets({"dst1": read})], interval, **what)


def times_of(sampler: Sampler) -> list[float]:
    table = sampler.readings().tables["dst1"]
    return table.column("time") if table.rows else []


def test_a_sampler_keeps_its_interval_though_reading_takes_time() -> None:
    taken = threading.Semaphore(0)

    def read() -> Record:
        time.sleep(0.03)
        taken.release()
        return {"time": time.monotonic()}

    with sampler_of(read, 0.05) as sampler:
        assert all(taken.acquire(timeout=60) for _ in range(10))
    steps = np.diff(times_of(sampler))
    # Eighty milliseconds if the reading came on top; a busy machine delays some, and none comes before its time.
    assert np.quantile(steps, 0.25) < 0.07
    assert np.mean(steps) > 0.045


def test_an_error_that_cannot_pass_is_raised_where_readings_are_asked_for() -> None:
    answers = iter([{"time": time.monotonic()}])

    with pytest.raises(StopIteration), sampler_of(lambda: next(answers), 0.01) as sampler:
        wait_until(lambda: len(times_of(sampler)) > 1, "it is met")


def test_a_quantity_that_is_not_read_any_more_breaks_the_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{LOOKS}.LONGEST_GAP", 0.1)
    answers = itertools.chain([{"cwnd": 10.0, "sent": 0.0}], itertools.repeat({"sent": 1.0}))
    read = lambda: {"time": time.monotonic(), **next(answers)}  # noqa: E731
    with (
        pytest.raises(BrokenError, match="LookupError: cwnd not sampled any more"),
        sampler_of(read, 0.01) as it,
    ):
        wait_until(lambda: not it.readings(), "it is noticed")


GONE = OSError("dst1 is gone")
LOOKS = "tpcsweep.measuring.looks"
STOPPED = "(their reader was stopped, or the clock jumped|a look at them does not end)"


class Counters:
    """Counters by a clock that runs when they are read; some looks at them fail, or take long."""

    def __init__(self, patch: pytest.MonkeyPatch, failures: dict[int, Any], ever_since: Any = None) -> None:
        """`failures` are errors and delays in s by the number of their look, and `ever_since` that of later ones."""
        patch.setattr(f"{LOOKS}.time", SimpleNamespace(monotonic=lambda: self.now))
        self.now, self.seen = 0.0, 0
        self._failures, self._ever_since = failures, ever_since

    def read(self) -> Record:
        self.seen += 1
        found = self._failures.get(self.seen, self._ever_since if self.seen > max(self._failures) else None)
        self.now += found if isinstance(found, float) else 1.0
        if isinstance(found, Exception):
            raise found
        return {"time": time.monotonic()}


@pytest.mark.parametrize("error", [GONE, ValueError("cut"), KeyError("eth0"), struct.error("short")])
@pytest.mark.parametrize("first", [1, 3])
def test_a_look_that_fails_is_a_missing_reading(
    monkeypatch: pytest.MonkeyPatch, error: Exception, first: int
) -> None:
    counters = Counters(monkeypatch, {first: error, first + 1: error})
    with sampler_of(counters.read, 0.001) as sampler:
        wait_until(lambda: counters.seen > 9, "others go well")
        before = time.monotonic()
    assert len(times_of(sampler)) == counters.seen - 2
    assert sampler.readings().ended >= before  # the last look is after the cell's end


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize(
    ("failures", "ever_since", "words"),
    [
        ({2: GONE}, GONE, r"dst1 is gone \(no reading from 1\.0 s to 7\.0 s of the cell\)"),
        ({2: KeyError("eth0")}, KeyError("eth0"), "KeyError: 'eth0' .no reading from 1"),
        ({1: GONE}, GONE, r"dst1 is gone \(no reading from 0\.0 s to 6\.0 s"),
        ({3: 9.0}, None, rf"{STOPPED} \(no reading from 2\.0 s to 11\.0 s"),
        ({3: -1.5}, None, r"the clock went back by 1\.5 s, 2\.0 s into the cell"),
    ],
)
def test_readings_that_stop_break_the_deployment_and_leave_those_before(
    monkeypatch: pytest.MonkeyPatch, failures: Any, ever_since: Any, words: str, noticed: bool
) -> None:
    """Whether or not somebody asks for readings before the cell ends."""
    counters = Counters(monkeypatch, failures, ever_since)
    sampler = sampler_of(counters.read, 0.001)
    with pytest.raises(BrokenError, match=f"^counters: {words}"), sampler:
        wait_until(
            lambda: len(times_of(sampler)) > 9 if noticed else counters.seen >= min(failures),
            "it is noticed",
        )
    at, found = min(failures.items())
    assert len(times_of(sampler)) == (at if isinstance(found, float) else at - 1)


def test_a_look_that_does_not_end_breaks_the_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{LOOKS}.LONGEST_GAP", 0.2)
    hung, over = threading.Event(), threading.Event()

    def read() -> Record:
        if hung.is_set():
            over.wait(60)
        return {"time": time.monotonic()}

    for noticed in (True, False):
        hung.clear()
        with pytest.raises(BrokenError, match=STOPPED), sampler_of(read, 0.01) as it:
            hung.set()
            if noticed:
                wait_until(lambda: not it.readings(), "it is noticed")
    over.set()


PRESSURE = b"some avg10=61.74 avg60=64.12 avg300=41.50 total=202700643\nfull avg10=0.00 total=5\n"
INSTANT = 1e-9
"""Seconds of a piece of work after which the next look is due at once."""


def speed(pieces: Iterator[float]) -> Speed:
    return Speed(lambda: next(pieces) * INSTANT)


def looks(*found: float) -> Iterator[float]:
    """Pieces of work: those of a look are all the same."""
    return (value for value in found for _ in range(TRIES))


def test_this_machine_has_a_condition_and_pressure_is_the_time_in_which_something_waited() -> None:
    watched = Machine()
    before, after = watched.condition(), watched.condition()
    record = watched.read()
    watched.close()
    assert record["machine_total"] >= after.total and record["machine_work"] > 0
    assert (
        "machine_others" not in record
    )  # unknown where it is not known which processes are the deployment's
    assert 0 < before.tasks <= before.busy <= before.total
    assert after.busy >= before.busy and after.work > 0
    assert before.pressure is None or after.pressure >= before.pressure
    assert pressure(PRESSURE) == pytest.approx(202.700643)


@given(st.floats(0.1, 100))
def test_a_machine_is_as_much_slower_as_its_work_takes_longer(factor: float) -> None:
    found = speed(looks(*[1.0] * WINDOW, factor))
    for _ in range(WINDOW - 1):
        assert found.read()[1] is None  # nothing to compare with
    assert found.read() == (pytest.approx(INSTANT), pytest.approx(0))
    assert found.read() == (pytest.approx(factor * INSTANT), pytest.approx(max(factor - 1, 0)))


@given(st.integers(0, WINDOW - 1))
def test_a_single_piece_that_is_fast_makes_no_others_slow(place: int) -> None:
    found = speed(looks(*(0.5 if at == place else 1.0 for at in range(WINDOW)), 1.0))
    *_, (_, last) = (found.read() for _ in range(WINDOW + 1))
    assert last is not None and 0 <= last <= 1 / WINDOW


def test_the_fastest_piece_of_a_look_counts_and_looks_take_no_more_than_their_share_of_a_core() -> None:
    coarse = speed(looks(*[0.0] * WINDOW))  # a clock that knows no speed
    assert {coarse.read() for _ in range(WINDOW)} == {(0.0, None)}
    pieces = iter([3.0, 1.0, 2.0][:TRIES])
    assert speed(pieces).read()[0] == pytest.approx(INSTANT)
    found = Speed(iter([3600.0] * TRIES).__next__)
    first = found.read()
    assert found.read() == first  # another would raise StopIteration


INTERVAL = 0.1


def analysed(samples: np.ndarray | list[float], **what: Any) -> Steady:
    return analyse(samples, INTERVAL, 0.95, **what)


def white(count: int, spread: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(1, spread, count)


def autoregressive(generator: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    noise: np.ndarray = lfilter([1], [1, -correlation], generator.normal(size=count + 500))[500:]
    return 1 + 0.1 * math.sqrt(1 - correlation**2) * noise


series = st.lists(st.floats(0, 100, allow_subnormal=False), min_size=1, max_size=400)


@given(series, st.floats(0, 60), st.floats(0.01, 60) | st.just(math.nan))
def test_bounds(samples: list[float], ramp: float, cycle: float) -> None:
    found = analysed(samples, course=Course(ramp, cycle, samples))
    rounding = 1e-9 * max(samples)
    assert min(samples) - rounding <= found.mean <= max(samples) + rounding
    assert found.weights.sum() == pytest.approx(1) and found.weights.min() >= 0
    assert not found.weights[: found.warmup_samples].any()
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


@pytest.mark.parametrize(
    ("seconds", "course", "warmup", "steady"),
    [
        (20, Course(), 2, True),
        (20, Course(ramp=3.5), 3.5, True),
        (20, Course(ramp=math.nan), 2, True),
        (20, Course(ramp=6), 5, False),  # slow start lasts longer than a quarter
        (20, Course(ramp=6, cycle=7), 5, True),  # as in each of the following files
        (20, Course(ramp=6, cycle=4), 5, False),  # a whole file takes less than this start
        (6, Course(), 1.5, True),
    ],
)
def test_a_warmup_lasts_for_slow_start_or_a_quarter(
    seconds: int, course: Course, warmup: float, steady: bool
) -> None:
    found = analysed(white(10 * seconds, 0.1), course=course)
    assert (found.warmup, found.steady) == (pytest.approx(warmup), steady)


@given(st.floats(0.3, 8), st.floats(0.02, 0.5), st.floats(0, 1), st.integers(180, 400))
def test_pauses_between_files_count_as_often_as_they_occur(
    cycle: float, pause: float, phase: float, count: int
) -> None:
    edges = INTERVAL * np.arange(count + 1) / cycle + phase
    moved = np.floor(edges) * (1 - pause) + np.clip(edges % 1 - pause, 0, None)
    samples = np.diff(moved) * cycle / INTERVAL
    found = analysed(samples, course=Course(cycle=cycle))
    assert found.mean == pytest.approx(1 - pause, rel=0.01)


@pytest.mark.parametrize(
    ("reached", "bound", "warmup", "steady"),
    [(3, False, 3, True), (9, False, 5, False), (9, True, 5, True)],
)
def test_windows_that_grow_prolong_the_warmup_and_raise_a_flag_if_goodput_follows(
    reached: float, bound: bool, warmup: float, steady: bool
) -> None:
    windows = np.minimum(0.3 + 0.7 * np.arange(200) / (10 * reached), 1)
    samples = white(200, 0.02) * (1 if bound else windows)  # something else bounds it, or the windows
    found = analysed(samples, course=Course(windows=windows))
    assert found.warmup == pytest.approx(warmup, abs=0.5)
    assert found.steady == steady


def test_a_mean_is_at_most_the_rate_on_the_wire() -> None:
    cell = analysed(white(200, 0.1))
    assert bounded(cell, math.nan) == bounded(cell, 2.0) == cell
    less = bounded(cell, 0.9)
    assert (less.mean, less.half_width) == (0.9, pytest.approx(cell.half_width * 0.9 / cell.mean))


def test_similar_cells_show_which_are_too_short() -> None:
    shape, axis = (2, 2, 2, 3), np.ones((2, 2, 2, 3))
    generator = np.random.default_rng(3)

    def unflagged(draw: Callable[[], np.ndarray], truth: float) -> tuple[float, float, float]:
        """The share of cells whose interval holds the truth: of all, of unflagged ones; and the share of these."""
        held, long = [], []
        for _ in range(12):
            cells = [analysed(draw()) for _ in range(24)]
            known = np.array([(cell.correlation, cell.half_width / cell.mean) for cell in cells]).T
            correlations, widths = known.reshape(2, *shape)
            short = similar_cells.too_short(correlations, 99 * axis, widths)
            held += [cell.low <= truth <= cell.high for cell in cells]
            long += (~short).ravel().tolist()
        trusted = [hold for hold, enough in zip(held, long, strict=True) if enough]
        return sum(held) / len(held), sum(trusted) / max(len(trusted), 1), sum(long) / len(long)

    every, clean, share = unflagged(lambda: stalled(generator, 110), 0.99**3)
    assert clean >= 0.91 > every and share > 0.6
    every, clean, share = unflagged(lambda: generator.normal(1, 0.1, 110), 1)
    assert clean >= 0.93 and share > 0.9
    assert unflagged(lambda: autoregressive(generator, 110, 0.9), 1)[2] < 0.05
    # Slow noise under fast noise, which a cell's own correlation time does not show.
    mixed = unflagged(lambda: autoregressive(generator, 110, 0.97) + generator.normal(0, 0.2, 110), 1)
    assert mixed[2] < 0.3
    # A cell counts by its own values where neighbours have none, and unknown ones say nothing.
    lonely = np.where(np.arange(24).reshape(shape) == 5, 0.01, math.nan)
    assert similar_cells.too_short(lonely, 99 * axis, lonely).sum() == 1
    assert not similar_cells.too_short(-lonely, 99 * axis, lonely).any()
    assert similar_cells.too_short(-lonely, 14 * axis, lonely).all()


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


def test_series_without_change_bytes_or_samples_and_bytes_that_all_arrived_in_the_warmup() -> None:
    constant = analysed([7.7] * 100)
    assert (constant.mean, constant.half_width) == (pytest.approx(7.7), pytest.approx(0, abs=1e-12))
    assert (constant.steady, constant.too_short, narrow(constant, 0.01)) == (True, False, True)
    found = analysed([1.0] * 10 + [0.0] * 90)
    assert (found.mean, found.warmup, found.steady) == (pytest.approx(0.1), 0, False)
    assert not narrow(found, 0.5)
    zeros, short = analysed([0.0] * 100), analysed([1.0] * 7)
    assert (zeros.mean, zeros.low, zeros.high, zeros.steady) == (0, 0, 0, True)
    assert (short.mean, short.too_short, math.isnan(short.half_width)) == (1, True, True)
    assert not narrow(zeros, 0.05) and not narrow(short, 0.5)
    assert math.isnan(analysed([]).mean) and analysed([]).warmup == 0


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
def test_intervals_hold_the_truth(draw, count: int, truth: float, least: float) -> None:
    generator = np.random.default_rng(1)
    found = [analysed(draw(generator, count)) for _ in range(400)]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= least
    assert np.mean([one.mean for one in found]) == pytest.approx(truth, rel=0.005)
