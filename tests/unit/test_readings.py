# SPDX-License-Identifier: Apache-2.0
import math
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.measure.limits import means
from tpcsweep.measure.readings import Reading, Sampler, goodput, sampled_series

from tests.support.readings import ZERO
from tests.support.workflow import wait_until


def test_rates_come_of_differences() -> None:
    later = ZERO._replace(time=0.5, payload=62_500_000, retransmits=3, resent=62_500, rwnd_limited=1.0)
    later = later._replace(source_cpu=(0.25, 0.5), source_thread=0.75, machine_busy=0.5, machine_total=1.0)
    found = sampled_series([ZERO, later], 0.5)
    # 62.5 MB in half a second is 1 Gbit/s; two connections are limited all the time.
    expected = {"time": 0.5, "goodput": 1.0, "source_cpu": 1.5, "machine_cpu": 0.5, "retransmits": 3}
    expected |= {"rwnd_limited": 2, "resent": 0.001, "source_thread": 0.75}
    assert {name: found[name].item() for name in expected} == pytest.approx(expected)
    assert found["source_origin_cpu"].tolist() == [[0.5], [1.0]]
    assert math.isnan(found["rtt_loaded"][0])
    assert all(values.size == 0 for values in sampled_series([ZERO], 0.5).values())


def test_an_interval_in_which_the_machines_clock_has_hardly_ticked_counts_as_little() -> None:
    # Others' CPU was what the deployment used, taken from nothing, over nothing: minus seven million.
    ticks = {0.0: (0.0, 0.0, 0.0), 0.02: (0.0, 0.0, -0.007), 0.04: (0.04, 0.04, 0.026)}
    readings = [
        ZERO._replace(time=time, machine_total=total, machine_busy=busy, machine_others=others)
        for time, (total, busy, others) in ticks.items()
    ]
    found = means(sampled_series(readings, 0.02), 0)
    assert [found[f"machine_{name}"] for name in ("others", "cpu")] == pytest.approx([0.026 / 0.04, 1.0])


def test_a_rate_between_late_readings_counts_by_its_length() -> None:
    # A tenth of a second late, then two within a hundredth of one: 1 Gbit/s all the time but for that instant.
    at = {0.0: 0, 0.1: 12_500_000, 0.29: 36_250_000, 0.3: 62_500_000, 0.4: 75_000_000}
    readings = [ZERO._replace(time=time, payload=payload) for time, payload in at.items()]
    found = sampled_series(readings, 0.1)
    assert found["time"] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert found["goodput"].mean() == pytest.approx(75_000_000 * 8e-9 / 0.4)
    assert found["goodput"][:2] == pytest.approx(1.0)
    assert goodput(readings, 0.1) == pytest.approx(found["goodput"])


@given(st.lists(st.tuples(st.floats(0.001, 2), st.integers(0, 10**9)), min_size=1, max_size=40))
def test_nothing_is_lost_or_made_up_between_readings(steps: list[tuple[float, int]]) -> None:
    readings = [ZERO]
    for length, payload in steps:
        last = readings[-1]
        readings.append(last._replace(time=last.time + length, payload=last.payload + payload))
    found = sampled_series(readings, 0.1)
    arrived, sent = found["goodput"].sum() * 0.1 / 8e-9, readings[-1].payload
    largest = max(payload / length for length, payload in steps)
    assert sent - 0.1 * largest - 1 <= arrived <= sent * (1 + 1e-9) + 1
    assert (found["goodput"] <= largest * 8e-9 * (1 + 1e-6) + 1e-9).all()


def test_a_sampler_keeps_its_interval_though_reading_takes_time() -> None:
    taken = threading.Semaphore(0)

    def read() -> Reading:
        time.sleep(0.03)
        taken.release()
        return ZERO._replace(time=time.monotonic())

    with Sampler(read, 0.05) as sampler:
        assert all(taken.acquire(timeout=60) for _ in range(10))
    steps = np.diff([reading.time for reading in sampler.readings()])
    # Eighty milliseconds if the reading came on top; a busy machine delays some, and none comes before its time.
    assert np.quantile(steps, 0.25) < 0.07
    assert np.mean(steps) > 0.045


def test_what_a_reading_meets_is_raised_where_readings_are_asked_for() -> None:
    answers = iter([ZERO._replace(time=time.monotonic())])

    with pytest.raises(StopIteration), Sampler(lambda: next(answers), 0.01) as sampler:
        wait_until(lambda: len(sampler.readings()) > 1, "it is met")
