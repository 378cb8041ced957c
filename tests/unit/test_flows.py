# SPDX-License-Identifier: Apache-2.0
"""Connections come and go; what they did together only grows, and threads are looked at where they are."""

import math
import os
import sys
import time
from unittest.mock import Mock

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.linux.sockets import Connection, Followed, rtt_and_cwnd
from tpcsweep.measure import machine
from tpcsweep.measure.machine import Busiest, Threads, numbered, together

from tests.support.workflow import background, wait_until


def connection(cookie: int, seconds: float, count: int, rtt: float = 1.0) -> Connection:
    return Connection(cookie, "10.0.0.1", rtt, 10, 0, 4 * seconds, 2 * seconds, seconds, count, count // 2)


ADDED = st.lists(st.integers(0, 1000), min_size=5, max_size=5)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), ADDED)))
def test_counters_are_the_sums_over_all_connections(lives: list[tuple[int, int, list[int]]]) -> None:
    """lives: for each connection the look that first sees it, how many do, and what it adds before each."""
    followed, seen = Followed(), 0
    before = followed.look([])
    for look in range(12):
        there = []
        for cookie, (begins, looks, added) in enumerate(lives):
            if begins <= look < begins + looks:
                seen += added[look - begins]
                there.append(connection(cookie, 0.5, sum(added[: look - begins + 1])))
        found = followed.look(there)
        assert found["sent"] == seen
        assert all(new >= old for new, old in zip(found.values(), before.values(), strict=True))
        before = found
    assert (before["busy"], before["rwnd_limited"]) == pytest.approx((2.0 * len(lives), 1.0 * len(lives)))


def test_means_are_over_connections() -> None:
    assert rtt_and_cwnd([connection(1, 0, 0, rtt=1.0), connection(2, 0, 0, rtt=4.0)]) == (2.5, 10)
    assert all(math.isnan(value) for value in rtt_and_cwnd([]))


def test_the_busiest_thread_is_found_among_processes_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LOOK", 0.0)
    monkeypatch.setattr(machine, "SHARE", math.inf)
    proc = os.open("/proc", os.O_RDONLY)
    assert os.getpid() in numbered(proc)
    python, sleeping = [sys.executable, "-c"], "import time; time.sleep(60)"
    with background([*python, sleeping]) as idle, background([*python, "while True: pass"]) as busy:
        watched = Threads(proc, lambda: [idle.pid, busy.pid, 2**22 + 1])  # no process has that number
        began = time.monotonic()
        assert math.isnan(watched.look().cores)
        time_of_busy = psutil.Process(busy.pid).cpu_times
        wait_until(lambda: time_of_busy().user > 0.2, "the busy one has used a fifth of a second")
        used, took = watched.look().cores, time.monotonic() - began
        # However little of a CPU it gets: what it used of that time, and the kernel counts by hundredths of a second.
        assert 0.15 / took < used < 1.1
    assert watched.look() == Busiest(0.0, 0)
    os.close(proc)


def test_looks_that_take_long_are_far_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LOOK", 0.0)
    monkeypatch.setattr(machine, "SHARE", 1e-9)
    proc = os.open("/proc", os.O_RDONLY)
    pids = Mock(return_value=[os.getpid()])
    watched = Threads(proc, pids)
    assert watched.look() is watched.look()
    pids.assert_called_once()
    os.close(proc)


def test_servers_together_have_the_busiest_thread_of_any_and_all_that_wait() -> None:
    assert together([Busiest(0.5, 1), Busiest(0.25, 2)]) == Busiest(0.5, 3)
    assert math.isnan(together([Busiest(0.5, 1), Busiest(math.nan, 0)]).cores)
