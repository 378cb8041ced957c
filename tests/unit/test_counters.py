# SPDX-License-Identifier: Apache-2.0
"""Counters of the kernel, of a node's programs and threads, and of connections, which come and go."""

import math
import os
import socket
import struct
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from tpcsweep.data.variables import QUANTITIES, Quantity, quantities
from tpcsweep.deploying.linux.cgroups import CpuCounters
from tpcsweep.deploying.linux.kernel_counters import (
    Process,
    machine_times,
    parse_stat,
    protocol_counter,
    with_descendants,
)
from tpcsweep.deploying.linux.sockets import SocketDiagnostics, tcp_info
from tpcsweep.measuring import machine
from tpcsweep.measuring.machine import Busiest, Threads, process_ids
from tpcsweep.measuring.transfer_files import ReceivedBytes
from tpcsweep.testbeds.node import program_counters as counters
from tpcsweep.testbeds.node.program_counters import ConnectionTotals, Network, Programs

from tests.support.readings import connection
from tests.support.workflow import background, wait_until

STAT = b"cpu  100 0 50 800 40 5 5 20 7 0\ncpu0 100 0 50 800 40 5 5 20 7 0\n"
SNMP = b"Tcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 17 0\nUdp: A\nUdp: 1\n"


def test_the_kernels_counters_are_read() -> None:
    """Of iowait as idle, of steal apart, of processes without interrupts; and of protocols by their names."""
    busy, tasks, steal, total = machine_times(STAT)
    assert (busy / total, tasks / busy, steal / total) == pytest.approx((160 / 1020, 150 / 160, 20 / 1020))
    assert protocol_counter(SNMP, "Tcp", "RetransSegs") == 17
    with pytest.raises(ValueError, match="not in"):
        protocol_counter(SNMP, "Tcp", "Unheard")


def test_slow_counters_of_a_path_are_read_once_in_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now = mock.Mock(return_value=10.0)
    monkeypatch.setattr(counters.time, "monotonic", now)
    counted = mock.Mock(side_effect=[{"drops": n, "queue_drops": 0} for n in range(9)])
    drops = counters.PathDrops(counted, 1.0)
    found = []
    for now.return_value in (10.0, 10.1, 10.9, 11.0, 12.5, 13.0):
        found.append(drops.read()["path_drops"])
    assert found == [0, 0, 0, 1, 2, 2]


class Counted(dict[str, float]):
    def copy(self, keys: Any) -> dict[str, float]:
        return {key: self[key] for key in keys}


def test_an_entry_is_all_that_a_counter_of_the_network_or_of_a_cgroup_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each kind is read where its entry says."""
    entries = {
        "min_rtt": ("ms", "source", "tcp_info min_rtt", "state", "min"),
        "timeouts": ("1", "destination", "netstat TcpExt TCPTimeouts", "count", "sum"),
        "client_bursts": ("1", "client", "cgroup nr_bursts", "count", "sum"),
        "client_system": ("cores", "client", "cgroup system_usec", "rate", "sum"),
    }
    for name, (units, target, place, kind, aggregation) in entries.items():
        monkeypatch.setitem(
            QUANTITIES, name, Quantity(name, units, target, tuple(place.split()), kind, aggregation, "")
        )
    with closing(Network("source", mock.Mock(), 1, ["127.0.0.1"])) as source:
        assert "min_rtt" in source.read()
    with closing(Network("destination", mock.Mock(), 1, [])) as destination:
        assert destination.read().keys() == {"timeouts"}
    used = {"usage_usec": 2.0, "system_usec": 0.5, "nr_bursts": 3, "nr_periods": 9, "nr_throttled": 0}
    client = Programs("client", Counted(used).copy, os.open("/proc", os.O_RDONLY), list)
    assert {"client_cpu": 2.0, "client_system": 0.5, "client_bursts": 3}.items() <= client.read().items()


@pytest.mark.parametrize(
    "texts",
    [
        {"cpu.stat": "usage_usec 2500000\nuser_usec 1\nnr_periods 10\nthrottled_usec 500000\n"},
        {
            "cpuacct.usage": "2500000000\n",
            "cpu.stat": "nr_periods 10\nnr_throttled 0\nthrottled_time 500000000\n",
        },
    ],
)
def test_a_groups_counters_have_the_names_of_version_2_and_are_0_if_the_kernel_has_none(texts: Any) -> None:
    files = {name: mock.Mock(read=text.encode) for name, text in texts.items()}
    found = CpuCounters(files).read(["usage_usec", "nr_periods", "throttled_usec", "nr_bursts"])
    assert found == pytest.approx(
        {"usage_usec": 2.5, "nr_periods": 10, "throttled_usec": 0.5, "nr_bursts": 0}
    )


def test_each_place_of_the_table_is_one_that_is_read() -> None:
    known = {"files", "interface", "cgroup", "threads", "connections", "tcp_info", "snmp", "netstat", "path"}
    for quantity in QUANTITIES.values():
        assert quantity.place[0] in known | {"machine"}
        assert quantity.target in ("source", "destination", "client", "path", "machine")
        assert quantity.kind in ("state", "rate", "count", "share", "base")
        assert quantity.aggregation in counters.AGGREGATES


def test_a_stat_is_read_whatever_the_process_calls_itself() -> None:
    fields = [b"D", b"7", *[b"0"] * 9, b"100", b"50", b"20", b"30", *[b"0"] * 20]
    tick = 1 / os.sysconf("SC_CLK_TCK")
    found = parse_stat(b"42 (a) R (b) " + b" ".join(fields) + b"\n")
    assert found == (7, True, pytest.approx(150 * tick), pytest.approx(200 * tick))


def test_descendants_have_a_root_above() -> None:
    parents = {2: 1, 3: 2, 4: 3, 5: 1, 6: 9, 7: 8, 8: 7}  # the last two are each other's
    processes = {pid: Process(parent, False, 0, 0) for pid, parent in parents.items()}
    assert with_descendants({2, 9}, processes) == {2, 3, 4}  # 9 has ended
    assert with_descendants({8}, processes) == {7, 8}


def test_a_program_that_xrootd_runs_for_a_copy_counts_until_it_ends(tmp_path: Path) -> None:
    """It counts without a connection, too. The server itself does not count."""
    server = tmp_path / "xrootd"
    server.symlink_to("/bin/bash")  # a process is named by its file
    proc, (taken, given) = os.open("/proc", os.O_RDONLY), os.pipe()
    with background([server, "-c", "read; sleep 60 & read; kill $!; wait; read"], stdin=taken) as process:
        tree = psutil.Process(process.pid)
        pids = lambda: [each.pid for each in (tree, *tree.children())]  # noqa: E731
        counters = Network("source", Programs("source", mock.Mock(), proc, pids), 1, [])
        for expected in (0, 1, 0):
            wait_until(lambda expected=expected: counters.unfinished() == expected, f"{expected} copies")
            os.write(given, b"\n")
        counters.close()
    for each in (proc, taken, given):
        os.close(each)


@pytest.mark.parametrize(("listening", "asked"), [("127.0.0.1",) * 2, ("::", "127.0.0.1"), ("::1",) * 2])
def test_connections_are_known_by_the_other_ends_address(listening: str, asked: str) -> None:
    """Also those of IPv6, and those of IPv4 to a server that listens on IPv6."""
    family = socket.AF_INET6 if ":" in listening else socket.AF_INET
    server = socket.create_server((listening, 0), family=family, dualstack_ipv6=listening == "::")
    counters = Network("source", mock.Mock(), 1, (asked,))
    others = Network("source", mock.Mock(), 1, ("192.0.2.1",))
    port = server.getsockname()[1]
    before = {connection.cookie for connection in counters.connections()}
    with server, socket.create_connection((asked, port)) as client, server.accept()[0] as served:
        client.sendall(b"PUT")
        assert served.recv(3) == b"PUT"
        found = [each for each in counters.connections() if each.cookie not in before]
        assert {each.remote for each in found} == {asked}
        assert (3,) in set(map(tcp_info(["bytes_received"]), found))
        assert counters.read()["connections"] >= len(found)
        assert others.connections() == []
    counters.close()
    others.close()


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_is_unfinished_until_its_server_has_closed_it(reset: bool) -> None:
    """Also one that was reset: its request can still be read and carried out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = [server]
        programs: Any = mock.Mock(copies=list)
        programs.tcp_sockets = lambda: {os.fstat(each.fileno()).st_ino for each in held}
        counters = Network("source", programs, server.getsockname()[1], ())
        assert counters.unfinished() == 0
        client = socket.create_connection(server.getsockname())
        client.sendall(b"COPY")
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert counters.unfinished() > 0  # though nobody has accepted it
        held.append(server.accept()[0])
        assert counters.unfinished() == 1
        assert held[1].recv(4) == b"COPY"
        assert counters.unfinished() == 1
        # One that the server never closes can be forgotten, but none that is open.
        counters.forget_reset()
        assert counters.unfinished() == (not reset)
        held.pop().close()
        wait_until(lambda: counters.unfinished() == 0, "the server has closed it")
    counters.close()


def test_a_look_that_failed_halfway_leaves_nothing_to_later_ones() -> None:
    """Its answers are still to be read: a look after it may be refused, and none gets what is old."""
    diagnostics = SocketDiagnostics()
    real = diagnostics._socket
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("needs IPv6")
    with closing(diagnostics), server:
        diagnostics._socket = mock.Mock(send=real.send, recv=mock.Mock(side_effect=TimeoutError))
        with pytest.raises(TimeoutError):
            diagnostics.connections()
        diagnostics._socket = real
        for _ in range(2):
            with suppress(OSError):
                diagnostics.connections()
        with socket.create_connection(server.getsockname()[:2]) as ours:
            theirs = server.accept()[0]
            assert "::1" in {each.remote for each in diagnostics.connections()}, (ours, theirs)


def test_counters_are_the_sums_over_all_connections() -> None:
    followed = ConnectionTotals(quantities("tcp_info", "source"))
    looks = ([], [(1, 10)], [(1, 15), (2, 4)], [(2, 6)], [], [(3, 1)])
    found = [
        followed.update([connection(cookie, bytes_sent=sent, busy_time=2 * 10**6) for cookie, sent in look])
        for look in looks
    ]
    assert [totals["sent"] for totals in found] == [0, 10, 19, 21, 21, 22]
    assert found[-1]["busy"] == pytest.approx(2.0 * 3)


def test_states_are_over_the_connections_that_know_theirs() -> None:
    smallest = Quantity("min_rtt", "ms", "source", ("tcp_info", "min_rtt"), "state", "min", "")
    largest = Quantity("rtt_largest", "ms", "source", ("tcp_info", "rtt"), "state", "max", "")
    totals = ConnectionTotals([*quantities("tcp_info", "source"), smallest, largest])
    made = [
        connection(1, rtt=1000, snd_cwnd=10, min_rtt=2**32 - 1),
        connection(2, rtt=4000, snd_cwnd=10, min_rtt=900),
    ]
    found = totals.update(made)
    assert (found["rtt_loaded"], found["cwnd"], found["min_rtt"]) == pytest.approx((2.5e-3, 10, 0.9e-3))
    assert found["rtt_largest"] == pytest.approx(4e-3), "two quantities of one field"
    without = totals.update([])
    assert all(math.isnan(without[name]) for name in ("rtt_loaded", "cwnd", "min_rtt"))


def test_the_busiest_thread_is_found_among_processes_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "THREAD_INTERVAL", 0.0)
    monkeypatch.setattr(machine, "SHARE", math.inf)
    proc = os.open("/proc", os.O_RDONLY)
    assert os.getpid() in process_ids(proc)
    python, sleeping = [sys.executable, "-c"], "import time; time.sleep(60)"
    with background([*python, sleeping]) as idle, background([*python, "while True: pass"]) as busy:
        watched = Threads(proc, lambda: [idle.pid, busy.pid, 2**22 + 1])  # no process has that number
        began = time.monotonic()
        assert math.isnan(watched.read().cores)
        time_of_busy = psutil.Process(busy.pid).cpu_times
        wait_until(lambda: time_of_busy().user > 0.2, "the busy one has used a fifth of a second")
        used, took = watched.read().cores, time.monotonic() - began
        # However little of a CPU it gets: what it used of that time, and the kernel counts by hundredths of a second.
        assert 0.15 / took < used < 1.1
    assert watched.read() == Busiest(0.0, 0)
    os.close(proc)


def test_looks_that_take_long_are_far_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "THREAD_INTERVAL", 0.0)
    monkeypatch.setattr(machine, "SHARE", 1e-9)
    proc = os.open("/proc", os.O_RDONLY)
    pids = mock.Mock(return_value=[os.getpid()])
    watched = Threads(proc, pids)
    assert watched.read() is watched.read()
    pids.assert_called_once()
    os.close(proc)


def test_bytes_of_connections_that_ended_count_and_those_of_other_remotes_do_not() -> None:
    seen = mock.Mock(spec=SocketDiagnostics)
    counted = ReceivedBytes(seen, ["10.0.0.1"])
    other = connection(9, "10.0.0.9", bytes_received=100)
    arrived = []
    for look in ({1: 5}, {1: 7, 2: 1}, {2: 3}, {}):
        ours = [connection(cookie, bytes_received=count) for cookie, count in look.items()]
        seen.connections.return_value = [*ours, other]
        arrived.append(counted.arrived())
    assert arrived == [5, 8, 10, 10]
