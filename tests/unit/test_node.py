# SPDX-License-Identifier: Apache-2.0
"""The start of servers and how they end, the probes of a side, and the counters of an origin."""

import os
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tpcsweep.testbeds.netns.servers import DeploymentProcess
from tpcsweep.testbeds.node import starting
from tpcsweep.testbeds.node.counters import OriginCounters, throttling
from tpcsweep.xrootd import servers as xrootd

from tests.support.workflow import wait_until

ORIGINS = "src1 cmsd, src2 cmsd, src1 ready, src1 xrootd, src2 ready, src2 xrootd"


@pytest.mark.parametrize(
    ("origins", "expected"), [(1, "src1 xrootd"), (2, f"srcm cmsd, srcm ready, srcm xrootd, {ORIGINS}")]
)
def test_redirectors_start_before_origins_and_cmsd_before_xrootd(origins: int, expected: str) -> None:
    side = xrootd.side("src", "a", ["b", "c"][:origins], Path(), Path())
    seen: list[str] = []
    start = lambda server, program: seen.append(f"{server.name} {program}")  # noqa: E731
    starting.start_servers(side.servers, start, lambda server: start(server, "ready"))
    assert ", ".join(seen) == expected


def test_a_side_is_ready_when_its_redirector_has_sent_to_each_origin() -> None:
    get = mock.Mock(side_effect=[(0, ""), (200, ""), (200, ""), (307, "b:1"), (307, "b:1"), (307, "c:1")])
    for probe in starting.probes("a:1", ["b:1", "c:1"], get):
        while not probe.ready():
            pass
    assert [call.args for call in get.call_args_list] == [(f"{name}:1",) for name in "bbcaaa"]


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
        held.pop().close()
        wait_until(lambda: counters.unfinished() == 0, "the server has closed it")
    counters.close()


def test_throttling_is_summed_over_the_origins_of_a_side() -> None:
    summed = {"source_periods": 30, "source_throttled": 3, "client_periods": 5, "client_throttled": 0}
    assert throttling({"source": [(10, 1), (20, 2)], "client": [(5, 0)]}) == summed


@pytest.mark.parametrize(
    ("command", "how"), [("kill -SEGV $$", "was killed by SIGSEGV"), ("exit 3", "ended with exit code 3")]
)
def test_how_a_process_has_ended_with_its_last_words(tmp_path: Path, command: str, how: str) -> None:
    own, stderr = tmp_path / "own.log", tmp_path / "stderr.log"
    with subprocess.Popen(["sh", "-c", f"read go; {command}"], stdin=subprocess.PIPE) as child:
        process = DeploymentProcess("dst1: xrootd", child, (own, stderr))
        assert process.end() is None
        assert child.stdin
        child.stdin.close()
        child.wait()
    assert process.end() == f"dst1: xrootd {how}"
    stderr.write_text("cannot be configured\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: cannot be configured"
    own.write_text("started\nCOPY with Bearer MDAxsecret\n\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: COPY with Bearer [removed]"
