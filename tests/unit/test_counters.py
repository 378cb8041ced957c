# SPDX-License-Identifier: Apache-2.0
"""Counters of the kernel and of a node's programs, and the connections of an origin."""

import os
import socket
import struct
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.linux.counters import Process, machine_times, parse_stat, retransmits, with_descendants
from tpcsweep.testbeds.node.counters import OriginCounters, throttling

from tests.support.workflow import wait_until

STAT = b"cpu  100 0 50 800 40 5 5 20 7 0\ncpu0 100 0 50 800 40 5 5 20 7 0\n"
SNMP = b"Tcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 17 0\nUdp: A\nUdp: 1\n"


def test_the_kernels_counters_are_read_and_throttling_is_summed_over_the_origins_of_a_side() -> None:
    """Of iowait as idle, of steal apart, of processes without interrupts; and of retransmits by their name."""
    busy, tasks, steal, total = machine_times(STAT)
    assert (busy / total, tasks / busy, steal / total) == pytest.approx((160 / 1020, 150 / 160, 20 / 1020))
    assert retransmits(SNMP) == 17
    summed = {"source_periods": 30, "source_throttled": 3, "client_periods": 5, "client_throttled": 0}
    assert throttling({"source": [(10, 1), (20, 2)], "client": [(5, 0)]}) == summed


def test_a_stat_is_read_whatever_the_process_calls_itself() -> None:
    fields = [b"D", b"7", *[b"0"] * 9, b"100", b"50", b"20", b"30", *[b"0"] * 20]
    tick = 1 / os.sysconf("SC_CLK_TCK")
    found = parse_stat(b"42 (a) R (b) " + b" ".join(fields) + b"\n")
    assert found == (7, True, pytest.approx(150 * tick), pytest.approx(200 * tick))


@given(st.dictionaries(st.integers(1, 30), st.integers(0, 30)), st.sets(st.integers(1, 30)))
def test_descendants_have_a_root_above(parents: dict[int, int], roots: set[int]) -> None:
    processes = {pid: Process(parent, False, 0, 0) for pid, parent in parents.items()}

    def descends(pid: int, seen: frozenset[int] = frozenset()) -> bool:
        if pid not in processes or pid in seen:
            return False
        return pid in roots or descends(processes[pid].parent, seen | {pid})

    assert with_descendants(roots, processes) == {pid for pid in processes if descends(pid)}


@pytest.mark.parametrize(("listening", "asked"), [("127.0.0.1",) * 2, ("::", "127.0.0.1"), ("::1",) * 2])
def test_connections_are_known_by_the_other_ends_address(listening: str, asked: str) -> None:
    """Also those of IPv6, and those of IPv4 to a server that listens on IPv6."""
    family = socket.AF_INET6 if ":" in listening else socket.AF_INET
    server = socket.create_server((listening, 0), family=family, dualstack_ipv6=listening == "::")
    counters = OriginCounters(mock.Mock(), 1, (asked,))
    others = OriginCounters(mock.Mock(), 1, ("192.0.2.1",))
    port = server.getsockname()[1]
    before = {connection.cookie for connection in counters.connections()}
    with server, socket.create_connection((asked, port)) as client, server.accept()[0] as served:
        client.sendall(b"PUT")
        assert served.recv(3) == b"PUT"
        found = [each for each in counters.connections() if each.cookie not in before]
        assert {each.remote for each in found} == {asked}
        assert 3 in {each.received for each in found}
        assert others.connections() == []
    counters.close()
    others.close()


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_is_unfinished_until_its_server_has_closed_it(reset: bool) -> None:
    """Also one that was reset: its request can still be read and carried out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = [server]
        programs: Any = mock.Mock(tcp_sockets=lambda: {os.fstat(each.fileno()).st_ino for each in held})
        counters = OriginCounters(programs, server.getsockname()[1], ())
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
