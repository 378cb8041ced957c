# SPDX-License-Identifier: Apache-2.0
"""What comes from the pods of a deployment: in this machine's time, in order, never too much, and of one moment."""

import asyncio
import contextlib
import dataclasses
import json
import math
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep.common.errors import FaultError
from tpcsweep.data.flags import BROKEN
from tpcsweep.deploying.xrootd import server_config
from tpcsweep.measuring.readings import MOST
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.kubernetes import site, testbed
from tpcsweep.testbeds.kubernetes.checks import CELL_MARGIN
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT, Hub
from tpcsweep.testbeds.kubernetes.pod.messages import encoded
from tpcsweep.testbeds.kubernetes.pod.pod_files import Sample
from tpcsweep.testbeds.kubernetes.site import Inbox, KubernetesSite, combine


def inbox(fault: str | None = None, own: bool = False) -> Inbox:
    made = Inbox(lambda: fault, lambda: own)
    made.ahead = {"dst1": 900.0, CLIENT: 1000.0}
    return made


def test_times_of_the_client_and_of_agents_become_those_of_this_machine() -> None:
    heard = inbox()
    heard.receive({"client": {"event": "end", "start": 1.0, "end": 2.0, "arrival": ["dst1", 1.5, 7]}})
    heard.receive({"client": {"event": "exhausted"}})
    heard.receive({"copy": ["c.0.0", 1.25, 1.75, 1, 7, 0, "pull"], "of": "dst1"})
    heard.receive({"sample": [0.5, 3], "of": "dst1"})
    lines = heard.lines()
    event, other = json.loads(next(lines)), json.loads(next(lines))
    assert (event["start"], event["end"], other) == (1001.0, 1002.0, {"event": "exhausted"})
    assert heard.arrival(*event["arrival"]) == (901.5, 7)
    assert heard.arrival("dst1", None, 9) == (None, 9)  # nobody saw its first byte
    assert heard.samples() == {"dst1": [[900.5, 3]]}
    found = [[(copy.begin, copy.end, copy.name) for copy in heard.copies()] for _ in range(2)]
    assert found == [[(901.25, 901.75, "c.0.0")], []]


def test_samples_are_thinned_alike_and_forgotten_with_their_cell() -> None:
    heard = inbox()
    for number in range(MOST + 1):
        for name in ("src1", "dst1"):
            heard.receive({"sample": [float(number)], "of": name})
    assert heard.stride == 2
    assert {len(kept) for kept in heard.samples().values()} == {MOST // 2 + 1}
    heard.forget()
    assert heard.stride == 1


def test_events_keep_their_order_though_a_file_takes_long_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pass_on() -> None:
        hub = Hub()
        fast = asyncio.Event()
        monkeypatch.setattr(hub.outbox, "say", lambda **message: said.append(message))

        async def tell(_to: list[str], _verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
            if arguments["name"] == "slow":
                await fast.wait()
            else:
                fast.set()
            return {"dst1": [None, 0], "dst2": [5.0, 10]}

        monkeypatch.setattr(hub, "tell", tell)
        ends = [{"event": "end", "name": name, "failure": None} for name in ("slow", "fast")]
        client, hub_end = socket.socketpair()
        hub._client = mock.Mock(connections=[None, hub_end])
        with client:
            for event in (*ends, {"event": "stopped"}):
                client.sendall(encoded(**event))
        await hub._listen_to_client()

    said: list[dict[str, Any]] = []
    asyncio.run(pass_on())
    assert [message["client"].get("name") for message in said[:-1]] == ["slow", "fast", None]
    assert said[0]["client"]["arrival"] == ["dst2", 5.0, 10]  # of the origin that has the file
    assert said[-1] == {"gone": CLIENT}


EVICTED, CRASHED = "pod src1: Evicted: low on memory", "pod src1: Error: container servers ended"


def test_a_refusal_before_the_word_of_its_cause_is_explained_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if not heard.taken_away():
            heard.receive({"gone": "src1"})

    monkeypatch.setattr(site, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    heard = Inbox(lambda: EVICTED if now > site.GONE_SECONDS / 2 else None, lambda: False)
    refused = FaultError("src1: the server container: it is gone")
    assert heard.explain(refused) == f"{EVICTED} ({refused})"


@pytest.mark.parametrize(
    ("fault", "own", "said", "taken_away"),
    [
        (None, False, {}, False),
        (EVICTED, False, {}, True),
        (CRASHED, True, {}, False),
        (CRASHED, True, {"gone": "dst1"}, False),
        (None, False, {"gone": "dst1"}, True),
        (None, False, {"lost": "tpc-0a1b2c is out of reach"}, True),
        (None, False, {"stopped": "counters: gone", "of": "dst1"}, True),
    ],
)
def test_what_the_cluster_takes_away_costs_no_cell(
    monkeypatch: pytest.MonkeyPatch, fault: str | None, own: bool, said: dict[str, str], taken_away: bool
) -> None:
    heard = inbox(fault, own)
    if said:
        heard.receive(said)
    site: Any = SimpleNamespace(inbox=heard, until=math.inf, deployment_labels=None)
    broken = {"status": "failed", "message": "why", "flags": [BROKEN]}
    monkeypatch.setattr(testbed.cell, "measure", lambda *_: broken)
    with pytest.raises(FaultError, match="why") if taken_away else contextlib.nullcontext():
        assert testbed.measure(site, Parameters(), Measurement()) == broken


def test_a_whole_cell_is_kept_and_none_begun_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    how = Measurement()
    whole = {"status": "ok", "message": "", "flags": ["wide_interval"]}
    monkeypatch.setattr(testbed.cell, "measure", lambda *_: whole)
    monkeypatch.setattr(testbed.time, "monotonic", lambda: 1000.0)
    until = 1000.0 + how.bounds[1] + CELL_MARGIN
    site: Any = SimpleNamespace(inbox=inbox(EVICTED), until=until, deployment_labels=None)
    assert testbed.measure(site, Parameters(), how) == whole
    site.until -= 1.0
    with pytest.raises(FaultError, match="time_limit of the testbed"):
        testbed.measure(site, Parameters(), how)


@pytest.mark.parametrize("ends", [True, False])
def test_files_of_a_cell_go_when_no_server_can_make_another(ends: bool) -> None:
    """While one stays busy all are restarted, which drops their requests, and must answer again before."""
    looks, said = iter([True]), list[tuple[str, list[str]]]()

    def tell(names: list[str], verb: str, **_: Any) -> dict[str, bool]:
        said.append((verb, names))
        return {name: verb == "busy" and name == "dst1" and next(looks, not ends) for name in names}

    session = mock.Mock(tell=tell, ask=lambda verb, **_: said.append((verb, [])))
    sides = {side: server_config.side_servers(side, "a", ["a"], Path(), Path()) for side in ("src", "dst")}
    others = {field.name: mock.Mock() for field in dataclasses.fields(KubernetesSite) if field.init}
    KubernetesSite(**others | {"session": session, "sides": sides}).settle()
    origins = ["src1", "dst1"]
    restarted = [] if ends else [("stop", origins), ("resume", origins), ("ready", []), ("ready", [])]
    assert [each for each in said if each[0] != "busy"] == [*restarted, ("clear", ["dst1"])]


MACHINES = {"src1": "a", "dst1": "a", "client": "b"}
NETWORKS = {"src1": "a", "dst1": "b"}
PARTS = (["src1"], ["dst1"], MACHINES, NETWORKS)


def counting(times: list[float], rate: float = 1.0, connections: int = 0) -> list[list[float | None]]:
    """An agent whose counters all grow by `rate` a second since 0."""
    state = {"rtt_loaded": 5.0, "cwnd": 10.0, "connections": connections} if connections else {}
    counters = ("rx_bytes", "tx_bytes", "cpu", "machine_busy", "payload", "busy", "periods", "throttled")
    machine = {"machine_steal": 0, "machine_pressure": None, "machine_work": 0.2, "machine_slowed": 0.1}
    same = {**machine, "waiting": 1.0, **state}

    def sample(t: float) -> list[float | None]:
        thread = math.nan if t == times[0] else 0.5
        grown = {"machine_total": 2 * rate * t, **dict.fromkeys(counters, rate * t)}
        return list(Sample(t, thread=thread, **grown, **same))

    return [sample(t) for t in times]


@settings(max_examples=25)
@given(st.lists(st.floats(0, 0.09), min_size=3, max_size=3), st.floats(1, 1e9), st.integers(5, 30))
def test_steady_counters_are_found(offsets: list[float], rate: float, count: int) -> None:
    samples = {
        name: counting([offset + 0.1 * i for i in range(count)], rate)
        for name, offset in zip(MACHINES, offsets, strict=True)
    }
    combined = combine(samples, *PARTS, 0.1)
    assert len(combined) >= count - 1
    for one in combined:
        assert np.allclose([one.payload, one.source_bytes, one.destination_cpu[0], one.busy], rate * one.time)
    assert np.allclose(np.diff([reading.time for reading in combined]), 0.1)


def test_pods_of_one_machine_count_it_once_and_threads_are_known_when_all_have_looked_twice() -> None:
    samples = {name: counting([0.0, 0.1, 0.2]) for name in MACHINES}
    first, *_, last = combine(samples, *PARTS, 0.1)
    assert np.isclose(last.machine_busy, 2 * 0.2)  # a and b, not three pods
    assert np.isclose(last.machine_total, 4 * 0.2)
    assert math.isnan(first.source_thread)
    assert (last.source_thread, last.client_thread, last.destination_waiting) == (0.5, 0.5, 1)
    assert combine(samples | {"dst1": []}, *PARTS, 0.1) == []


def test_states_are_means_over_connections_and_nan_without_any() -> None:
    samples = {name: counting([0.0, 0.1]) for name in MACHINES}
    assert math.isnan(combine(samples, *PARTS, 0.1)[-1].rtt_loaded)
    samples["src1"] = counting([0.0, 0.1], connections=2)
    combined = combine(samples, *PARTS, 0.1)[-1]
    assert (combined.rtt_loaded, combined.cwnd, combined.connections) == (5.0, 10.0, 2)


def test_origins_of_one_network_count_its_interface_and_connections_once() -> None:
    machines = {"src1": "a", "src2": "a", "dst1": "b", "dst2": "b", "client": "c"}
    samples = {name: counting([0.0, 0.1, 0.2], connections=2) for name in machines}
    sides = ["src1", "src2"], ["dst1", "dst2"]
    each = {name: name for name in machines}
    shared, apart = (combine(samples, *sides, machines, of, 0.1)[-1] for of in (machines, each))
    for field in ("source_bytes", "wire_bytes", "connections", "busy"):
        assert np.isclose(getattr(apart, field), 2 * getattr(shared, field)), field
    assert np.isclose(shared.payload, 2 * 0.2)  # files are each origin's own
    assert len(shared.source_cpu) == 2
    assert shared.rtt_loaded == apart.rtt_loaded == 5.0
