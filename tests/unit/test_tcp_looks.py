# SPDX-License-Identifier: Apache-2.0
"""How agents measure a path between pods, and the port for it: open to them alone, and only meanwhile."""

import asyncio
import contextlib
import math
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep.deploying.paths import tcp_rates as rates
from tpcsweep.deploying.paths.network_path import PathError
from tpcsweep.deploying.paths.tcp_probes import Probes, under_way
from tpcsweep.deploying.paths.verification import CALM_LOOKS, FoundRate, too_slow
from tpcsweep.deploying.xrootd.server_config import Server
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.testbeds.kubernetes import tcp_looks

from tests.support.workflow import free_port

MSS, HEADER = 8948, 66
SEGMENT = MSS + HEADER
STEP = 0.01
WARM_UP = 0.3
WANTED = DeploymentParameters(rtt=20, bandwidth=1, mtu=9000)
FITS = FoundRate(1.0, known=True, windows=10, full=10)


def flow(
    capacity: float, rtt: float, offered: Callable[[float], float], seconds: float = 2.0, late: float = 0.0
) -> rates.Flow:
    """What ends see of a path of `capacity` Gbit/s and `rtt` ms that holds `offered` of its RTT times capacity.

    Super-packets of ten segments: the interface counts one header for each. For `late` s from 1.02 s on nobody looks.
    """
    times = [i * STEP for i in range(round(seconds / STEP) + 1)]
    held = capacity * 125e6 * rtt / 1000
    segments = [math.floor(offered(time) * held / SEGMENT + 2 * rates.CONNECTIONS[0]) for time in times]
    arrived = [0.0]
    for time in times[1:]:
        arrived.append(arrived[-1] + min(1.0, offered(time)) * capacity * 125e6 * STEP / SEGMENT)
    looks = [look for look in zip(times, segments, strict=True) if not 1.025 < look[0] < 1.015 + late]
    counts = [
        (at, round(n * MSS + n / 10 * HEADER), round(n / 10)) for at, n in zip(times, arrived, strict=True)
    ]
    return rates.Flow(looks, counts, rates.CONNECTIONS[0], MSS, HEADER)


capacities, rtts = st.floats(0.05, 10), st.floats(5, 200)


# Where a fifth of what the path holds is two segments at least: what is under way comes in whole ones.
@settings(max_examples=15)
@given(st.floats(0.2, 10), rtts, st.floats(1.2, 5))
def test_the_rate_of_a_full_path_is_its_own(capacity: float, rtt: float, offered: float) -> None:
    seen = rates.windows([flow(capacity, rtt, lambda _: offered)], rtt, WARM_UP)
    assert len(seen) >= tcp_looks.WINDOWS
    assert all(window.full for window in seen)
    about, count = pytest.approx(capacity, rel=0.01), len(seen)
    assert rates.path_rate(seen, asked=2 * capacity) == FoundRate(about, True, count, count)


@settings(max_examples=15)
@given(capacities, rtts, st.floats(0.05, 0.95))
def test_small_windows_say_nothing_of_a_path(capacity: float, rtt: float, offered: float) -> None:
    seen = rates.windows([flow(capacity, rtt, lambda _: offered)], rtt, WARM_UP)
    assert not any(window.full for window in seen)
    rate = rates.path_rate(seen, asked=capacity)
    assert rate.found == pytest.approx(offered * capacity, rel=0.02)
    # Only where it brings what was asked is it known to have that.
    assert rate.known == (rate.found >= 0.95 * capacity)
    assert not rates.path_rate(seen, asked=10 * capacity).known


@settings(max_examples=15)
@given(rtts, st.floats(0.4, 1.9), st.floats(0.03, 0.3))
def test_windows_of_an_idle_sender_are_left_out(rtt: float, begin: float, length: float) -> None:
    offered = lambda time: 0.0 if begin <= time < begin + length else 2.0  # noqa: E731
    seen = rates.windows([flow(1, rtt, offered, seconds=3)], rtt, WARM_UP)
    rate = rates.path_rate(seen, asked=1)
    assert rate.found == pytest.approx(1, rel=0.01)
    first = max(WARM_UP, rtt / 1000)
    for i, window in enumerate(seen):
        opens = first + i * rates.WINDOW
        touched = opens - rtt / 1000 - STEP < begin + length and begin < opens + rates.WINDOW + STEP
        assert window.full or touched


@pytest.mark.parametrize(("late", "full"), [(0.0, 10), (0.02, 10), (0.05, 9)])
def test_windows_that_nobody_has_seen_all_of_are_left_out(late: float, full: int) -> None:
    seen = rates.windows([flow(1, 5, lambda _: 2.0, seconds=1.31, late=late)], 5, WARM_UP)
    assert sum(window.full for window in seen) == full


def test_pairs_that_share_a_path_are_added_up_and_each_must_fill_it() -> None:
    both = [flow(0.5, 20, lambda _: 2.0), flow(0.25, 20, lambda _: 2.0)]
    seen = rates.windows(both, 20, WARM_UP)
    assert rates.path_rate(seen, asked=1).found == pytest.approx(0.75, rel=0.01)
    assert all(window.full for window in seen)
    idle = rates.windows([both[0], flow(0.25, 20, lambda _: 0.5)], 20, WARM_UP)
    assert not any(window.full for window in idle)
    assert rates.windows([rates.Flow([], [(0.0, 0, 0)], 4, MSS, HEADER)], 20, WARM_UP) == []
    assert rates.path_rate([], asked=1) == FoundRate(0.0, known=False, windows=0, full=0)


@given(st.lists(st.builds(rates.Window, st.floats(0, 2), st.booleans()), min_size=1, max_size=30))
def test_only_full_windows_make_a_path_slow(seen: list[rates.Window]) -> None:
    rate = rates.path_rate(seen, asked=1)
    slow = too_slow(WANTED, rate)
    if slow:
        full = [window.rate for window in seen if window.full]
        assert len(full) >= rates.ENOUGH
        assert min(full) <= rate.found <= max(full)
    assert not (slow and rate.found >= 0.95)


@given(st.floats(0.01, 100), st.floats(0, 500), st.integers(4096, 2**28), st.integers(1, 8))
def test_enough_connections_are_opened(bandwidth: float, rtt: float, buffer: int, sources: int) -> None:
    wanted = DeploymentParameters(rtt=rtt, bandwidth=bandwidth, tcp_buffer=buffer)
    number = rates.probe_connections(wanted, sources)
    assert rates.CONNECTIONS[0] <= number <= rates.CONNECTIONS[1]
    most = sources * number * buffer / 2  # bytes under way, a window being half of a buffer
    assert rates.fillable(wanted, sources) == (most > bandwidth * 125e6 * rtt / 1000)
    assert rates.fillable(wanted, sources) or number == rates.CONNECTIONS[1]


def test_what_is_under_way_is_neither_acknowledged_nor_lost() -> None:
    information = struct.pack("=24xIIII", 100, 20, 5, 3).ljust(256, b"\0")
    assert under_way(information) == 78


CLOCKS = {"src1": 100.0, "dst1": -100.0}


class Played:
    """A session whose agents answer at once, and remember what they were asked."""

    def __init__(self, rtt: float) -> None:
        self.asked: list[str] = []
        self._rtt = rtt
        self._flow = flow(1, rtt, lambda _: 2.0)

    def ask(self, verb: str) -> dict[str, float]:
        self.asked.append(verb)
        return CLOCKS

    def start(self, _: str, *, to: list[str], verb: str, **__: Any) -> Callable[[], dict[str, Any]]:
        self.asked.append(verb)
        [name] = to
        behind = CLOCKS[name]
        looks = [[at - behind, count] for at, count in self._flow.looks]
        counts = [[at - behind, *rest] for at, *rest in self._flow.counts]
        answers = {
            "round_trips": ([self._rtt] * 5, 9000),
            "pour": {"looks": looks, "mss": MSS, "header": HEADER},
            "arriving": {"counts": counts, "interface": name},
            "emptied": True,
        }
        return lambda: {name: answers[verb]}

    def tell(self, to: list[str], verb: str, **_: Any) -> dict[str, Any]:
        if verb in ("open_probes", "close_probes"):
            self.asked.append(verb)
            return dict.fromkeys(to)
        return self.start("tell", to=to, verb=verb)()


SOURCE, DESTINATION = (Server(name, "10.0.0.1", "server", None, Path(), Path()) for name in CLOCKS)
ENDS = [(SOURCE, DESTINATION)]


def test_clocks_of_agents_need_not_agree_and_their_port_is_open_only_meanwhile() -> None:
    session: Any = Played(20)
    seen = tcp_looks.verify_pods(session, WANTED, ENDS, strict=True)
    assert seen.bandwidth == pytest.approx(1, rel=0.01)
    assert seen.near_to_far.full == seen.near_to_far.windows >= rates.ENOUGH
    assert (session.asked[0], session.asked[-1]) == ("open_probes", "close_probes")
    assert len([verb for verb in session.asked if "probes" in verb]) == 2


def test_a_path_is_empty_again_before_its_rtt_is_looked_at_again() -> None:
    session: Any = Played(1)
    with pytest.raises(PathError, match=rf"measured {CALM_LOOKS} times, .* asked 20 ms, found 1 ms"):
        tcp_looks.verify_pods(session, WANTED, ENDS, strict=True)
    loaded = [verb for verb in session.asked if verb in ("round_trips", "pour", "emptied")]
    assert loaded == ["round_trips", "pour", "emptied", "pour", "emptied"] * CALM_LOOKS
    assert session.asked[-1] == "close_probes"


HOST = "127.0.0.1"
WORD = "0123456789abcdef" * 2


@pytest.fixture
def port() -> int:
    return free_port()


@contextlib.asynccontextmanager
async def opened(port: int) -> AsyncIterator[Probes]:
    made = Probes(port)
    await made.verbs["open_probes"](word=WORD)
    yield made
    await made.verbs["close_probes"]()


def test_agents_with_the_secret_verify_a_path(port: int) -> None:
    async def look() -> None:
        async with opened(port) as made:
            ask, where = made.verbs, {"address": HOST, "port": port}
            rtts, mtu = await ask["round_trips"](**where, count=3)
            assert [0 <= rtt < 1000 for rtt in rtts] == [True] * 3
            assert mtu > 1000
            assert (await ask["pour"](**where, connections=2, seconds=0.3))["looks"]
            assert await ask["emptied"](**where, rtt=1e4, seconds=60.0)

    asyncio.run(look())


@pytest.mark.parametrize(
    ("pieces", "known"),
    [
        *((pieces, True) for pieces in ([WORD], [WORD[:7], WORD[7:]], [WORD, "more"], [""])),
        *(([word], False) for word in ("x" * len(WORD), "x" * 5000, WORD[:-1] + "x")),
    ],
)
def test_only_clients_with_the_secret_are_served(port: int, pieces: list[str], known: bool) -> None:
    async def tell() -> None:
        async with opened(port):
            reader, writer = await asyncio.open_connection(HOST, port)
            for piece in pieces:
                writer.write(piece.encode())
                await writer.drain()
                await asyncio.sleep(0.05)  # so that it comes by itself
            if known:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(), 0.1)
                writer.write_eof()
            with contextlib.suppress(ConnectionResetError):  # though it has not been told all
                assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()

    asyncio.run(tell())


def test_the_port_is_open_while_a_path_is_looked_at_and_no_longer(port: int) -> None:
    async def connect() -> None:
        _, writer = await asyncio.open_connection(HOST, port)
        writer.close()

    async def before_and_after() -> None:
        with pytest.raises(ConnectionRefusedError):
            await connect()
        async with opened(port):
            await connect()
        with pytest.raises(ConnectionRefusedError):
            await connect()

    asyncio.run(before_and_after())


@pytest.mark.parametrize("mtus", [[9000, 1500], [8000, 9000]])
def test_the_mtu_of_a_path_is_that_of_the_pair_that_differs_most(
    monkeypatch: pytest.MonkeyPatch, mtus: list[int]
) -> None:
    session: Any = SimpleNamespace(tell=lambda names, *_, **__: {names[0]: ([20.0], mtus[names[0]])})
    monkeypatch.setattr(tcp_looks, "_rate", lambda *_: FITS)
    monkeypatch.setattr(tcp_looks, "_place", lambda _: {})
    ends: Any = [(SimpleNamespace(name=number), None) for number in range(len(mtus))]
    for wanted, found in ((9000, min(mtus)), (min(mtus), 9000)):
        path = tcp_looks._measure(session, WANTED.model_copy(update={"mtu": wanted}), ends)
        assert path.mtu == found
