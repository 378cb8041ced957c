# SPDX-License-Identifier: Apache-2.0
"""Samples of agents that look at different times become readings of one moment."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep.testbeds.kubernetes.pod.places import Sample
from tpcsweep.testbeds.kubernetes.site import combine

MACHINES = {"src1": "a", "dst1": "a", "client": "b"}
NETWORKS = {"src1": "a", "dst1": "b"}
PARTS = (["src1"], ["dst1"], MACHINES, NETWORKS)


def counting(times: list[float], rate: float, connections: int = 0) -> list[list[float | None]]:
    """An agent whose counters all grow by `rate` a second since 0."""
    state = {"rtt": 5.0, "cwnd": 10.0, "connections": connections} if connections else {}
    counters = ("received", "sent", "cpu", "busy", "payload", "data_busy")
    same = {"steal": 0, "pressure": None, "work": 0.2, "slowed": 0.1, "waiting": 1.0, **state}
    return [
        list(
            Sample(
                t,
                total=2 * rate * t,
                thread=None if t == times[0] else 0.5,
                **dict.fromkeys(counters, rate * t),
                **same,
            )
        )
        for t in times
    ]


@settings(max_examples=25)
@given(st.floats(0, 0.09), st.floats(0, 0.09), st.floats(0, 0.09), st.floats(1, 1e9), st.integers(5, 30))
def test_counters_that_grow_evenly_are_found_whenever_they_were_looked_at(
    source: float, destination: float, client: float, rate: float, count: int
) -> None:
    samples = {
        name: counting([offset + 0.1 * i for i in range(count)], rate)
        for name, offset in (("src1", source), ("dst1", destination), ("client", client))
    }
    combined = combine(samples, *PARTS, 0.1)
    assert len(combined) >= count - 1
    for reading in combined:
        assert np.isclose(reading.payload, rate * reading.time)
        assert np.isclose(reading.source_bytes, rate * reading.time)
        assert np.isclose(reading.destination_cpu[0], rate * reading.time)
        assert np.isclose(reading.busy, rate * reading.time)
    assert np.allclose(np.diff([reading.time for reading in combined]), 0.1)


def test_pods_of_one_machine_count_it_once() -> None:
    times = [0.0, 0.1, 0.2]
    samples = {name: counting(times, 1.0) for name in MACHINES}
    last = combine(samples, *PARTS, 0.1)[-1]
    assert np.isclose(last.machine_busy, 2 * 0.2)  # a and b, not three pods
    assert np.isclose(last.machine_total, 4 * 0.2)


def test_origins_of_one_network_count_its_interface_and_connections_once() -> None:
    times = [0.0, 0.1, 0.2]
    machines = {"src1": "a", "src2": "a", "dst1": "b", "dst2": "b", "client": "c"}
    samples = {name: counting(times, 1.0, connections=2) for name in machines}
    sides = ["src1", "src2"], ["dst1", "dst2"]
    shared, apart = (
        combine(samples, *sides, machines, networks, 0.1)[-1]
        for networks in ({name: name[:3] for name in machines}, {name: name for name in machines})
    )
    for field in ("source_bytes", "wire_bytes", "connections", "busy"):
        assert np.isclose(getattr(apart, field), 2 * getattr(shared, field)), field
    assert np.isclose(shared.payload, 2 * 0.2)  # files are each origin's own
    assert len(shared.source_cpu) == 2
    assert shared.rtt_loaded == apart.rtt_loaded == 5.0


def test_states_are_means_over_connections_and_nan_without_any() -> None:
    times = [0.0, 0.1]
    samples = {name: counting(times, 1.0) for name in MACHINES}
    assert math.isnan(combine(samples, *PARTS, 0.1)[-1].rtt_loaded)
    samples["src1"] = counting(times, 1.0, connections=2)
    combined = combine(samples, *PARTS, 0.1)[-1]
    assert (combined.rtt_loaded, combined.cwnd, combined.connections) == (5.0, 10.0, 2)


def test_the_busiest_thread_is_known_when_all_have_looked_twice() -> None:
    samples = {name: counting([0.0, 0.1, 0.2], 1.0) for name in MACHINES}
    first, *_, last = combine(samples, *PARTS, 0.1)
    assert math.isnan(first.source_thread)
    assert (last.source_thread, last.client_thread, last.destination_waiting) == (0.5, 0.5, 1)


def test_nothing_is_known_before_everybody_has_looked() -> None:
    samples = {"src1": counting([0.0], 1.0), "dst1": [], "client": counting([0.0], 1.0)}
    assert combine(samples, *PARTS, 0.1) == []
