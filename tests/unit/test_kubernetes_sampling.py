# SPDX-License-Identifier: Apache-2.0
"""Samples of all pods reach the end of a cell, or the cell ends with the name of the agent whose samples stopped."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import pytest
from tpcsweep.common.errors import FaultError
from tpcsweep.deploying.xrootd.server_config import Ports
from tpcsweep.measuring.sampler import Record, Sampler
from tpcsweep.testbeds.kubernetes import site
from tpcsweep.testbeds.kubernetes.pod import agent, messages
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT, Hub, client_agent
from tpcsweep.testbeds.kubernetes.session import SessionError

from tests.support.workflow import wait_until

GAP = 1.0  # seconds; a full machine may stop a test's threads for half of it
GONE = OSError("gone")


class Pods:
    """Real agents of pods with a real hub, and a conversation with them as that of a job."""

    longest = 60.0

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.agents = ["src1", "dst1", "dst2", CLIENT]
        self.inbox = site.Inbox(lambda: None, lambda: False)
        self.wrong: dict[str, Any] = {}  # the error of the next look of an agent, and of how many looks
        self.lost = ""  # the agent whose messages get lost
        self.quantities = ["sent", "cwnd"]
        self._run(self._begin())

    async def _begin(self) -> None:
        self._hub = Hub()
        self._hub.outbox.say = self._receive  # type: ignore[method-assign]
        for name in set(self.agents) - {CLIENT}:
            ours, theirs = [await asyncio.open_unix_connection(sock=end) for end in socket.socketpair()]
            messages.detach(agent.serve(mock.Mock(), mock.Mock(), Ports(0, 0, 0, 0, 0), *theirs))
            ask = messages.Channel(name, *ours, partial(self._hub.outbox.say, of=name)).ask
            target = mock.Mock(read=partial(self._look, name))
            with mock.patch.object(agent, "OriginPod", lambda *_, target=target: mock.Mock(target=target)):
                await ask("describe", target="source", peers=[], sysctls=[])
            self._hub.agents[name] = ask
        client = mock.Mock(read=partial(self._look, CLIENT))
        self._hub.agents[CLIENT] = client_agent(client, self._hub.outbox.say)

    def _look(self, name: str) -> Record:
        error, times = self.wrong.get(name, (None, 0))
        if times > 0:
            self.wrong[name] = error, times - 1
            raise error
        return {"time": time.monotonic(), **dict.fromkeys(self.quantities, 0.0)}

    def _receive(self, **message: Any) -> None:
        if message.get("of") != self.lost:
            self.inbox.receive(message)

    def _run(self, doing: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result(60)

    def sampler(self, interval: float, longest: float = 60.0) -> Sampler:
        targets = site.RemoteTargets(self, self.inbox, self.agents, longest)  # type: ignore[arg-type]
        return Sampler([targets], interval)

    def ask(self, verb: str, /, **arguments: Any) -> Any:
        request = {"id": 0, "do": verb, "with": arguments}
        answer = self._run(messages.answer_request(self._hub._verbs, request))
        if "error" in answer:
            raise SessionError(answer["error"])
        return answer["ok"]

    def tell(self, to: list[str], verb: str, /, **arguments: Any) -> Any:
        return self.ask("tell", to=to, verb=verb, arguments=arguments)


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for patience in ("NOTICE_SECONDS", "GONE_SECONDS"):
        monkeypatch.setattr(site, patience, 0.0)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield Pods(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    with contextlib.suppress(RuntimeError):
        loop.close()


@pytest.mark.parametrize("name", ["dst2", CLIENT])
@pytest.mark.parametrize("first", [True, False])
def test_a_look_that_fails_is_a_missing_sample(pods: Any, name: str, first: bool) -> None:
    if first:
        pods.wrong[name] = GONE, 2
    with pods.sampler(0.01) as sampler:
        pods.wrong[name] = GONE, 2
        wait_until(lambda: not pods.wrong[name][1], "both have failed")
        before = sampler.readings().ended
        wait_until(lambda: sampler.readings().ended > before + 0.1, "others go well")
        end = time.monotonic()
    assert sampler.readings().ended > end - 0.02


def test_a_cell_begins_when_all_agents_have_begun(pods: Any) -> None:
    """An agent's first look fails, and others do not look again for a while."""
    pods.wrong["dst2"] = GONE, 2
    with pods.sampler(0.3) as sampler:
        assert sampler.readings()


def test_a_cell_ends_in_time_though_its_job_comes_long_after(
    pods: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpcsweep.measuring.looks.LONGEST_GAP", GAP)
    with pods.sampler(0.01, longest=0.3) as sampler:
        began = sampler.readings().began
        time.sleep(2 * GAP)
    assert sampler.readings().ended - began < GAP


GONE_WORDS = r"counters: gone \(no reading from \d+\.\d s to \d+\.\d s of the cell\)"


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("dst2", GONE, GONE_WORDS),
        (CLIENT, GONE, GONE_WORDS),
        ("src1", KeyError("eth0"), "counters: KeyError: 'eth0' "),
        ("dst1", TypeError("no number"), r"TypeError\('no number'\)"),
        # Its samples get lost on the way.
        ("dst2", None, r"no sample since \d+\.\d s of the cell"),
    ],
)
def test_an_agent_whose_samples_stop_is_named(
    pods: Any, monkeypatch: pytest.MonkeyPatch, name: str, error: Any, words: str, noticed: bool
) -> None:
    """Within the cell, and when nobody has looked until its end."""
    monkeypatch.setattr("tpcsweep.measuring.looks.LONGEST_GAP", GAP)
    monkeypatch.setattr(site, "SILENT_SECONDS", GAP)
    with pytest.raises(FaultError, match=f"^{name}: {words}"), pods.sampler(0.01) as sampler:
        if error is None:
            pods.lost = name
        else:
            pods.wrong[name] = error, 10**9
        last = pods.inbox.newest()[name]
        wait_until(lambda: time.monotonic() > last + 3 * GAP, "it is silent for long")
        if noticed:
            wait_until(lambda: pods.inbox.check() or not sampler.readings(), "it is noticed")
    assert pods.inbox.taken_away()


def test_a_quantity_that_a_pod_stops_to_send_is_a_fault_that_names_both(pods: Any) -> None:
    with (
        pytest.raises(FaultError, match=r"^(src1|dst\d|client): cwnd not sampled any more"),
        pods.sampler(0.01),
    ):
        pods.quantities.remove("cwnd")
        wait_until(lambda: pods.inbox.check() or False, "it is noticed")
    assert pods.inbox.taken_away()


def test_a_pod_without_a_first_sample_is_named(pods: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "FIRST_SECONDS", 0.1)
    pods.lost = "dst2"
    with (
        pytest.raises(FaultError, match=r"^dst2: no sample has come within 0 s"),
        pods.sampler(0.01),
    ):
        pytest.fail("it has begun")
