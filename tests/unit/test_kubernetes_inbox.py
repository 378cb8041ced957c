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
from tpcsweep.measuring.readings import quantity_at, sampled_series
from tpcsweep.measuring.sampler import Readings, Table
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.kubernetes import site, testbed
from tpcsweep.testbeds.kubernetes.checks import CELL_MARGIN
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT, Hub
from tpcsweep.testbeds.kubernetes.pod.messages import encoded
from tpcsweep.testbeds.kubernetes.site import Inbox, KubernetesSite

from tests.support import synthetic


def inbox(fault: str | None = None, own: bool = False) -> Inbox:
    made = Inbox(lambda: fault, lambda: own)
    made.begin({"dst1": 900.0, CLIENT: 1000.0}, lambda *_: None)
    return made


def test_times_of_the_client_and_of_agents_become_those_of_this_machine() -> None:
    site_inbox, samples = inbox(), list[tuple[str, Any]]()
    site_inbox.begin(site_inbox.ahead, lambda agent, record: samples.append((agent, record)))
    site_inbox.receive({"client": {"event": "end", "start": 1.0, "end": 2.0, "arrival": ["dst1", 1.5, 7]}})
    site_inbox.receive({"client": {"event": "exhausted"}})
    site_inbox.receive({"copy": ["c.0.0", 1.25, 1.75, 1, 7, 0, "pull"], "of": "dst1"})
    site_inbox.receive({"sample": {"time": 0.5, "goodput": 3}, "of": "dst1"})
    lines = site_inbox.lines()
    event, other = json.loads(next(lines)), json.loads(next(lines))
    assert (event["start"], event["end"], other) == (1001.0, 1002.0, {"event": "exhausted"})
    assert site_inbox.arrival(*event["arrival"]) == (901.5, 7)
    assert site_inbox.arrival("dst1", None, 9) == (None, 9)  # nobody saw its first byte
    assert samples == [("dst1", {"time": 900.5, "goodput": 3})]
    found = [[(copy.begin, copy.end, copy.name) for copy in site_inbox.copies()] for _ in range(2)]
    assert found == [[(901.25, 901.75, "c.0.0")], []]


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
            for event in (*ends, {"event": "exhausted"}):
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
        if not site_inbox.taken_away():
            site_inbox.receive({"gone": "src1"})

    monkeypatch.setattr(site, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    site_inbox = Inbox(lambda: EVICTED if now > site.GONE_SECONDS / 2 else None, lambda: False)
    refused = FaultError("src1: the server container: it is gone")
    assert site_inbox.explain(refused) == f"{EVICTED} ({refused})"


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
    site_inbox = inbox(fault, own)
    if said:
        site_inbox.receive(said)
    site: Any = SimpleNamespace(inbox=site_inbox, until=math.inf, session=mock.Mock())
    broken = synthetic.result(status="failed", message="why", flags=[BROKEN])
    monkeypatch.setattr(testbed.cell, "measure", lambda *_: broken)
    with pytest.raises(FaultError, match="why") if taken_away else contextlib.nullcontext():
        assert testbed.measure(site, Parameters(), Measurement()) == broken


def test_a_whole_cell_is_kept_and_none_begun_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    how = Measurement()
    whole = synthetic.result(flags=["wide_interval"])
    monkeypatch.setattr(testbed.cell, "measure", lambda *_: whole)
    monkeypatch.setattr(testbed.time, "monotonic", lambda: 1000.0)
    until = 1000.0 + how.bounds[1] + CELL_MARGIN
    site: Any = SimpleNamespace(inbox=inbox(EVICTED), until=until, session=mock.Mock())
    assert testbed.measure(site, Parameters(), how) == whole
    begins, ends = (call.args[0] for call in site.session.log.call_args_list)
    assert begins.endswith("begins") and ends == "ok wide_interval"
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
QUANTITIES = {
    "src1": ("source_throughput", "source_cpu", "busy"),
    "dst1": ("goodput", "wire_throughput", "destination_cpu"),
    "client": ("client_cpu",),
}


def counting(target: str, times: list[float], rate: float = 1.0, connections: int = 0) -> Table:
    """An agent whose counters all grow by `rate` a second since 0."""
    state = {"rtt_loaded": 5e-3, "cwnd": 10.0, "connections": connections} if target == "src1" else {}
    side = {"src1": "source", "dst1": "destination"}.get(target, target)
    same = {"machine_work": 2e-4, "machine_slowed": 0.1, f"{side}_waiting": 1.0, **state}
    names = "time", "machine_cpu", "machine_total", f"{side}_thread", *QUANTITIES[target], *same

    def row(t: float) -> tuple[float, ...]:
        grown = [rate * t] * len(QUANTITIES[target])
        return t, rate * t, 2 * rate * t, math.nan if t == times[0] else 0.5, *grown, *same.values()

    return Table(names, [row(t) for t in times])


def agents(times: list[float], connections: int = 0) -> Readings:
    tables = {name: counting(name, times, connections=connections) for name in MACHINES}
    return Readings(tables, {"machine": MACHINES})


@settings(max_examples=25)
@given(st.lists(st.floats(0, 0.09), min_size=3, max_size=3), st.floats(1, 1e9), st.integers(5, 30))
def test_steady_counters_are_found(offsets: list[float], rate: float, count: int) -> None:
    """Though each agent has a timer of its own."""
    tables = {
        name: counting(name, [offset + 0.1 * i for i in range(count)], rate)
        for name, offset in zip(MACHINES, offsets, strict=True)
    }
    found = sampled_series(Readings(tables), 0.1)
    assert found["time"].size >= count - 2
    for name in ("goodput", "source_throughput", "wire_throughput"):
        assert np.allclose(found[name], rate * 8e-9)
    for name in ("busy", "source_cpu", "client_cpu"):
        assert np.allclose(found[name], rate)
    assert np.isnan(found["path_cpu"]).all() and np.isnan(found["machine_others"]).all()  # no pod has them


def test_pods_of_one_machine_count_it_once_and_threads_are_known_when_all_have_looked_twice() -> None:
    read = agents([0.0, 0.1, 0.2])
    times = np.array([0.0, 0.2])
    assert quantity_at(read, times, "machine_cpu")[-1] == pytest.approx(2 * 0.2)  # a and b, not three pods
    assert quantity_at(read, times, "machine_total")[-1] == pytest.approx(4 * 0.2)
    assert quantity_at(read, times, "source_thread").tolist() == pytest.approx([math.nan, 0.5], nan_ok=True)
    found = sampled_series(read, 0.1)
    assert (found["client_thread"][-1], found["destination_waiting"][-1]) == (0.5, 1)
    assert not Readings(read.tables | {"dst1": Table((), [])})  # one has not begun


def test_states_are_means_over_connections_and_nan_without_any() -> None:
    assert np.isnan(sampled_series(agents([0.0, 0.1]), 0.1)["rtt_loaded"]).all()
    found = sampled_series(agents([0.0, 0.1], connections=2), 0.1)
    assert [found[name].item() for name in ("rtt_loaded", "cwnd", "connections")] == pytest.approx([5, 10, 2])
    tables = {"src1": counting("src1", [0.0, 0.1], connections=3), "src2": counting("src1", [0.0, 0.1])}
    tables["src2"] = tables["src2"]._replace(
        rows=[(*row[:-3], math.nan, math.nan, 0) for row in tables["src2"].rows]
    )
    assert (
        sampled_series(Readings(tables), 0.1)["cwnd"].item() == 10
    )  # one that has no connections does not count
