# SPDX-License-Identifier: Apache-2.0
"""Bytes counted by connections instead of files."""

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.linux.sockets import Connection, SocketDiagnostics
from tpcsweep.measure.files import ReceivedBytes


def connection(cookie: int, received: int, remote: str = "10.0.0.1") -> Connection:
    counters = dict.fromkeys(Connection._fields, 0)
    return Connection(**{**counters, "remote": remote, "received": received, "cookie": cookie})


@given(st.lists(st.dictionaries(st.integers(0, 2), st.integers(0, 99), max_size=3), min_size=1, max_size=4))
def test_the_count_never_falls_and_forgets_no_connection(looks: list[dict[int, int]]) -> None:
    seen = mock.Mock(spec=SocketDiagnostics)
    counted = ReceivedBytes(seen, ["10.0.0.1"])
    totals: dict[int, int] = {}
    before = 0
    for grown in looks:
        for cookie, more in grown.items():
            totals[cookie] = totals.get(cookie, 0) + more
        others = connection(9, 100, remote="10.0.0.9")  # does not count
        ours = [connection(cookie, totals[cookie]) for cookie in grown]
        seen.connections.return_value = [*ours, others]
        assert counted.arrived() == sum(totals.values()) >= before
        before = counted.arrived()
