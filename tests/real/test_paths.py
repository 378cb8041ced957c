# SPDX-License-Identifier: Apache-2.0
"""Paths between real namespaces, with the kernel that is there, and as agents in pods look at them. Needs root."""

import multiprocessing
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest
from tpcsweep.common.processes import Commands
from tpcsweep.deploying.linux.namespaces import socket_inside
from tpcsweep.deploying.paths import network_path, udp_looks
from tpcsweep.deploying.paths.delayline import DelayLine
from tpcsweep.deploying.paths.link import Link, calibrate_line, connect, netem_works
from tpcsweep.deploying.paths.network_path import ETHERNET, HEADERS, INTERFACE, NetworkPath, PathError
from tpcsweep.deploying.paths.udp_looks import measure_bandwidth, verify_link
from tpcsweep.deploying.paths.verification import FoundPath
from tpcsweep.deploying.xrootd.server_config import USUAL
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.testbeds.kubernetes import tcp_looks
from tpcsweep.testbeds.kubernetes.tcp_looks import verify_pods

from tests.support.agents import TCP_BUFFER, NamedEnds, played, two_namespaces
from tests.support.workflow import gone, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

Patch = pytest.MonkeyPatch
Joined = Callable[[NetworkPath], Link]
Delayed = Callable[..., Link]
SO_RCVBUFFORCE = 33  # asm-generic/socket.h


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path / "commands.log")


@pytest.fixture
def ends(commands: Commands) -> Iterator[NamedEnds]:
    with two_namespaces(commands) as found:
        yield found


@pytest.fixture
def joined(ends: NamedEnds, commands: Commands, tmp_path: Path) -> Joined:
    return lambda path: connect(path, *ends, commands, tmp_path)


@pytest.fixture
def delayed(ends: NamedEnds, commands: Commands, tmp_path: Path) -> Delayed:
    """A path by the delay line, also where the kernel has netem; with a prefix of the line's command."""

    def make(*prefix: str) -> Link:
        link = Link(NetworkPath(10, 1), "delayline", *ends, commands)
        link.line = DelayLine(link.path, 0, ends[0][0], ends[1][0], commands, tmp_path, prefix)
        for namespace, address in ends:
            lines = [f"address add {address} dev {INTERFACE}", f"link set dev {INTERFACE} up"]
            commands.batch(["ip", "-n", namespace], lines)
        calibrate_line(link)
        return link

    return make


def interfaces(namespace: str) -> str:
    return subprocess.check_output(["ip", "-n", namespace, "-o", "link"], text=True)


def datagrams(namespace: str) -> socket.socket:
    return socket_inside(namespace, socket.AF_INET, socket.SOCK_DGRAM)


@pytest.mark.parametrize("rtt", [0, 0.5, 1, 10, 80])
def test_the_rtt_is_as_asked(rtt: float, joined: Joined) -> None:
    with joined(NetworkPath(rtt, bandwidth=0.5)) as link:
        measured = verify_link(link.path, link)
        assert link.emulator == ("none" if rtt == 0 else "netem" if netem_works() else "delayline")
    assert abs(measured.rtt.median - rtt) <= max(0.02 * rtt, 0.3)


@pytest.mark.parametrize("rtt", [0, 5])
@pytest.mark.parametrize("bandwidth", [0.1, 1, 2])
def test_the_rate_is_as_asked_and_described_in_both_directions(
    rtt: float, bandwidth: float, joined: Joined
) -> None:
    with joined(NetworkPath(rtt, bandwidth, mtu=9000)) as link:
        measured, described = verify_link(link.path, link), link.describe()
    assert described["queue_bytes"] == network_path.queue_bytes(link.path)
    if link.line:
        rates = [described["delayline"]["rate_bit_per_s"] / 8] * 2
    else:
        rates = [qdiscs[-1]["options"]["rate"] for qdiscs in described["qdiscs"].values()]
    assert rates == [bandwidth * 125e6] * 2  # bytes per second
    assert tuple(rate.found for rate in measured.rates) == pytest.approx((bandwidth, bandwidth), rel=0.05)


def test_the_rate_is_as_asked_in_packets_of_the_mtu_on_a_long_path(joined: Joined) -> None:
    # With loss there are no super-packets: 83 packets in a tick.
    with joined(NetworkPath(50, 1, loss=0.001)) as link:
        verify_link(link.path, link)


@pytest.mark.parametrize("rtt", [0, 5])
def test_a_path_is_empty_after_a_look_at_its_rate(rtt: float, joined: Joined) -> None:
    with joined(NetworkPath(rtt, 0.2)) as link:
        measure_bandwidth(link, window=0.4)
        counted = link.counters()
    assert (counted["queued_bytes"], counted["delayed_bytes"]) == (0, 0)


@pytest.mark.parametrize("rtt", [0, 5])
def test_a_sender_that_wakes_up_late_is_not_the_path(rtt: float, joined: Joined, monkeypatch: Patch) -> None:
    # Six times what the path's queue lasts.
    monkeypatch.setattr(udp_looks, "NAP", 0.03)
    with joined(NetworkPath(rtt, 0.2)) as link:
        before = queues(link)
        measured = verify_link(link.path, link)
        assert queues(link) == before  # the room that the queue was given meanwhile is gone
    assert tuple(rate.found for rate in measured.rates) == pytest.approx((0.2, 0.2), rel=0.05)


@pytest.mark.skipif(netem_works(), reason="netem's own cost is not taken off")
def test_what_was_taken_off_while_the_machine_was_busy_is_measured_again(joined: Joined) -> None:
    with joined(NetworkPath(10, 0.2)) as link:
        link.line.delay -= 500_000  # ns: the line's two wake-ups took a millisecond of others' time
        assert abs(verify_link(link.path, link).rtt.median - 10) <= 0.3


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_the_mtu_is_as_asked(mtu: int, joined: Joined) -> None:
    with joined(NetworkPath(1, 1, mtu=mtu)) as link:
        verify_link(link.path, link)
        link.path = NetworkPath(1, 1, mtu=mtu + 1)
        with pytest.raises(PathError, match=f"packets of {mtu + 1} bytes.*[Mm]essage too long"):
            verify_link(link.path, link)


def test_a_queue_limit_caps_the_rate_and_is_no_wrong_path(joined: Joined) -> None:
    with joined(NetworkPath(40, 0.02, queue_limit=20)) as link:
        measured = verify_link(link.path, link)
        cap = link.describe()["queue_cap_gbit_per_s"]["packets_of_the_mtu"]
        counted = link.counters()
    assert cap == pytest.approx(0.012)
    # What is offered comes in packets of the MTU; how near it comes is a matter of when its sender wakes up.
    assert all(0 < rate.found < 1.2 * cap for rate in measured.rates)
    assert counted["dropped_queue"] > 0
    assert counted["dropped_random"] == 0


def test_random_loss_is_per_packet_and_in_each_direction(ends: NamedEnds, joined: Joined) -> None:
    count = 20_000
    with joined(NetworkPath(4, 1, loss=0.05)) as link:
        verify_link(link.path, link)
        before = link.directions()
        for (namespace, _), (_, address) in (ends, ends[::-1]):
            send(namespace, address.partition("/")[0], count)
        time.sleep(0.1)
        after = link.directions()
    for direction, counted in after.items():
        lost = counted["dropped_random"] - before[direction]["dropped_random"]
        assert abs(lost - 0.05 * count) < 5 * (0.05 * 0.95 * count) ** 0.5, direction
        assert counted["dropped_queue"] == before[direction]["dropped_queue"]


@pytest.mark.parametrize("rtt", [0, 5])
def test_counters_show_a_full_queue(rtt: float, ends: NamedEnds, joined: Joined) -> None:
    path, size, count = NetworkPath(rtt, 0.01), 1400, 1000
    on_the_wire = size + HEADERS + (0 if rtt else ETHERNET)
    with joined(path) as link:
        dropped = link.counters()["dropped_queue"]
        begun = time.monotonic()
        for _ in range(count):
            send(ends[0][0], "10.88.0.2", 1, size=size)
        time.sleep(0.01)  # for the last of them to be read
        counted = link.counters()
        seconds = time.monotonic() - begun
    assert counted["drops"] == counted["dropped_queue"]
    assert counted["dropped_random"] == 0
    taken = (count - counted["dropped_queue"] + dropped) * on_the_wire
    least = (
        min(network_path.burst(path) + network_path.queue_bytes(path), count * on_the_wire) - 2 * on_the_wire
    )
    assert least <= taken <= least + network_path.bytes_in(path, seconds * 1e3) + 4 * on_the_wire


@pytest.mark.parametrize("rtt", [0, 5])
def test_the_queue_is_counted_while_it_is_full(rtt: float, ends: NamedEnds, joined: Joined) -> None:
    path = NetworkPath(rtt, 0.01)
    with joined(path) as link, ExitStack() as flows:
        for _ in range(4):  # their buffers hold more than the queue does
            flows.enter_context(flowing(ends, 2 * path.bandwidth))
        wait_until(lambda: link.counters()["dropped_queue"], "a packet finds the queue full")
        wait_until(
            lambda: 0 < link.counters()["queued_bytes"] <= network_path.queue_bytes(path), "bytes wait"
        )


def test_no_packet_overtakes_another(ends: NamedEnds, joined: Joined) -> None:
    count = 3000
    with joined(NetworkPath(5, 0.5)), datagrams(ends[1][0]) as receiver, datagrams(ends[0][0]) as sender:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        receiver.settimeout(2)
        receiver.bind(("10.88.0.2", 0))
        sender.connect(receiver.getsockname())
        for number in range(count):
            sender.send(number.to_bytes(4, "big") + bytes(number % 1300))
            if number % 100 == 99:
                time.sleep(0.003)
        numbers = [int.from_bytes(receiver.recv(2048)[:4], "big") for _ in range(count)]
    assert numbers == list(range(count))


def test_flows_share_the_rate_and_directions_do_not(ends: NamedEnds, joined: Joined) -> None:
    with joined(NetworkPath(5, 0.2)) as link:
        for pair, rate in ((ends, 0.1), (ends[::-1], 0.2)):  # both flows together, and the one alone
            with flowing(pair, rate):
                assert until_calm(link) == pytest.approx(0.2, rel=0.05)


def test_an_idle_delay_line_sleeps_where_the_prefix_places_it(delayed: Delayed) -> None:
    with delayed("nice", "-n", "7") as link:
        nice = min(os.getpriority(os.PRIO_PROCESS, 0) + 7, 19)
        assert os.getpriority(os.PRIO_PROCESS, link.line.pid) == nice
        time.sleep(0.1)  # what calibration sent has arrived
        switches = psutil.Process(link.line.pid).num_ctx_switches
        before = switches().voluntary  # to wait
        time.sleep(0.5)
        assert switches().voluntary == before


def test_close_leaves_nothing_and_can_be_repeated(ends: NamedEnds, tmp_path: Path, joined: Joined) -> None:
    for path in (NetworkPath(0, 1), NetworkPath(10, 1)):
        link = joined(path)
        pid = link.line.pid if link.line else None
        assert INTERFACE in interfaces(ends[0][0])
        link.close()
        link.close()
        assert all(INTERFACE not in interfaces(namespace) for namespace, _ in ends)
        assert pid is None or gone(pid)
        assert [file.name for file in tmp_path.iterdir()] == ["commands.log"]


def test_a_second_path_between_the_same_ends_is_refused(delayed: Delayed) -> None:
    with delayed() as first:
        with pytest.raises(PathError, match="without an interface tpc-path"):
            delayed()
        assert first.line is not None and first.line.fault() is None
        assert first.line.delay > 0  # its statistics file is untouched


def started(pids: Connection, near: str, far: str, folder: Path) -> None:
    """Have a thread start a delay line, tell its pid, and do nothing more."""
    given = NetworkPath(10, 1), 5_000_000, near, far, Commands(folder / "log"), folder, []
    with ThreadPoolExecutor() as threads:
        pids.send(threads.submit(lambda: DelayLine(*given).pid).result())
    time.sleep(600)


def test_the_delay_line_dies_with_its_starter_but_not_with_a_thread(ends: NamedEnds, tmp_path: Path) -> None:
    fork, (pids, told) = multiprocessing.get_context("fork"), multiprocessing.Pipe()
    starter = fork.Process(target=started, args=(told, ends[0][0], ends[1][0], tmp_path), daemon=True)
    starter.start()
    told.close()  # or a starter that ends would not be noticed
    pid = pids.recv()
    time.sleep(0.3)  # the thread that asked for it has ended long ago
    assert not gone(pid)
    assert INTERFACE in interfaces(ends[0][0])
    starter.kill()
    starter.join()
    wait_until(lambda: gone(pid), "the delay line has ended")
    # The kernel takes devices away a moment after their last descriptor.
    wait_until(lambda: INTERFACE not in interfaces(ends[0][0]), "the device is gone")


def test_the_delay_line_ends_when_its_device_is_deleted(delayed: Delayed, commands: Commands) -> None:
    with delayed() as link:
        commands.run(["ip", "-n", link.near, "link", "delete", INTERFACE])
        wait_until(link.line.fault, "it has ended and was reaped")
        with pytest.raises(PathError, match="has ended; the path is down"):
            link.line.statistics()


def queues(link: Link) -> list[object]:
    if link.line:
        return [link.line.queue]
    return [qdisc["options"] for end in link.describe()["qdiscs"].values() for qdisc in end]


def until_calm(link: Link) -> float:
    """The rate near to far in Gbit/s, of a look that the machine did not disturb, or the last of ten."""
    for _ in range(10):
        rate = measure_bandwidth(link)
        if rate.full:
            break
    return rate.found


@contextmanager
def flowing(ends: NamedEnds, rate: float) -> Iterator[None]:
    """Datagrams of the MTU of 1500 from the first end to the second, at a rate in Gbit/s."""
    (source, _), (target, address) = ends
    over = threading.Event()

    def flow(sender: socket.socket) -> None:
        begun, sent = time.monotonic(), 0
        while not over.wait(0.001):
            while sent < (time.monotonic() - begun) * rate * 125e6 and not over.is_set():
                sender.send(bytes(1500 - HEADERS))
                sent += 1500

    with datagrams(target) as sink, datagrams(source) as sender:
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        sink.bind((address.partition("/")[0], 0))
        sender.connect(sink.getsockname())
        flowing = threading.Thread(target=flow, args=(sender,))
        flowing.start()
        try:
            yield
        finally:
            over.set()
            flowing.join()


def send(namespace: str, address: str, count: int, size: int = 1) -> None:
    """Datagrams, slowly enough for no queue to fill when they are small."""
    with datagrams(namespace) as sender:
        for i in range(count):
            sender.sendto(bytes(size), (address, 9))
            if i % 100 == 99:
                time.sleep(0.001)


def look(asked: NetworkPath, real: NetworkPath, folder: Path, *, strict: bool = False) -> FoundPath:
    shape: dict[str, Any] = {"rtt": asked.rtt, "bandwidth": asked.bandwidth, "mtu": asked.mtu}
    wanted = DeploymentParameters(**shape, tcp_buffer=TCP_BUFFER)
    with played(real, folder) as (session, ends, _):
        return verify_pods(session, wanted, ends, strict=strict)


@pytest.mark.parametrize(
    ("asked", "rtt", "mtu"),
    [(0.2, 0, 1500), (0.2, 20, 9000), (0.25, 0, 9000), (0.25, 20, 1500)],
)
def test_a_path_is_found_as_it_is_or_not_known(asked: float, rtt: float, mtu: int, tmp_path: Path) -> None:
    found = look(NetworkPath(rtt, asked, mtu=mtu), NetworkPath(rtt, 0.2, mtu=mtu), tmp_path)
    for rate in found.rates:
        # Less than was asked may be this machine, busy with other things: then nobody saw all of it.
        assert abs(rate.found / 0.2 - 1) < 0.05 if rate.known else asked > 0.2
    assert found.slow == (asked > 0.2 and any(rate.known for rate in found.rates))


def test_a_path_of_another_rtt_is_refused_with_its_own_however_often_it_is_looked_at(tmp_path: Path) -> None:
    said = r"measured (?!1 )\d+ times, .*rtt asked 5 ms, found 0\.[0-2]\d* ms"
    with pytest.raises(PathError, match=said):
        look(NetworkPath(5, 0.2), NetworkPath(0, 0.2), tmp_path)


def test_what_windows_are_too_small_for_is_not_held_against_the_path(tmp_path: Path) -> None:
    """Four windows of some KiB bring less than 0.2 Gbit/s over 20 ms, and no queue forms."""
    # The session opens no more connections than for the usual buffers.
    wanted = DeploymentParameters(rtt=20, bandwidth=0.2, mtu=1500)
    with played(NetworkPath(20, 0.2), tmp_path, tcp_buffer=1 << 16) as (session, ends, _):
        found = verify_pods(session, wanted, ends, strict=True)
    assert not found.slow
    assert found.bandwidth is None
    assert all(0 < rate.found < 0.19 for rate in found.rates)


def test_a_path_is_left_empty(tmp_path: Path) -> None:
    path = NetworkPath(20, 0.05)
    wanted = DeploymentParameters(rtt=20, bandwidth=0.05)
    with played(path, tmp_path) as (session, ends, _), tcp_looks.probed(session, ends):
        tcp_looks._rate(session, wanted, ends, 20.0)
        there = {"address": ends[0][1].address, "port": USUAL.probe}
        [(found, _mtu)] = session.tell(["src1"], "round_trips", **there, count=5).values()
        assert min(found) < 21
