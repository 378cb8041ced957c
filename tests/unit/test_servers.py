# SPDX-License-Identifier: Apache-2.0
"""What is said of a process that has died, and which connections a server has still to do with."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tpcsweep.linux.sockets import SocketDiagnostics, tcp_sockets
from tpcsweep.testbeds.netns.servers import Process

from tests.support.workflow import wait_until


@pytest.mark.parametrize(
    ("command", "how"),
    [("kill -SEGV $$", "was killed by SIGSEGV"), ("exit 3", "ended with exit code 3")],
)
def test_how_a_process_has_ended_with_its_last_words(tmp_path: Path, command: str, how: str) -> None:
    own, stderr = tmp_path / "own.log", tmp_path / "stderr.log"
    with subprocess.Popen(["sh", "-c", f"read go; {command}"], stdin=subprocess.PIPE) as child:
        process = Process("dst1: xrootd", child, (own, stderr))
        assert process.end() is None
        assert child.stdin
        child.stdin.close()
        child.wait()
    assert process.end() == f"dst1: xrootd {how}"
    stderr.write_text("cannot be configured\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: cannot be configured"
    own.write_text("started\nCOPY with Bearer MDAxsecret\n\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: COPY with Bearer [removed]"


def test_a_connection_is_unfinished_until_its_server_has_closed_it() -> None:
    diagnostics = SocketDiagnostics()
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = _unfinished(diagnostics, server)
        before = found()  # sockets of other tests that are not connected
        client = socket.create_connection(server.getsockname())
        assert found() > before  # though nobody has accepted it
        client.close()
        accepted, _ = server.accept()
        assert found() == before + 1  # though the client has gone
        accepted.close()
        wait_until(lambda: found() == before, "the server has closed it")
    diagnostics.close()


def test_a_connection_that_was_reset_is_unfinished_as_its_request_can_still_be_read() -> None:
    diagnostics = SocketDiagnostics()
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = _unfinished(diagnostics, server)
        before = found()
        client = socket.create_connection(server.getsockname())
        client.sendall(b"COPY")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert found() > before  # though nobody has accepted it
        accepted, _ = server.accept()
        assert found() == before + 1
        assert accepted.recv(4) == b"COPY"
        assert found() == before + 1  # it may be carried out now
        accepted.close()
        assert found() == before
    diagnostics.close()


def _unfinished(diagnostics: SocketDiagnostics, server: socket.socket) -> Callable[[], int]:
    """Counts the unfinished connections of a server of this process."""
    return lambda: diagnostics.unfinished(
        server.getsockname()[1], tcp_sockets("/proc", [os.getpid(), 2**22 + 1])
    )
