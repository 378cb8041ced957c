# SPDX-License-Identifier: Apache-2.0
"""Real XRootD servers that share a network: ports apart, and a redirector that sends to each origin's own address."""

import asyncio
import contextlib
import os
import pwd
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tpcsweep.testbeds.kubernetes.pod import places
from tpcsweep.testbeds.kubernetes.pod.network import introduce
from tpcsweep.testbeds.netns.servers import user_prefix
from tpcsweep.testbeds.node import starting
from tpcsweep.xrootd import credentials
from tpcsweep.xrootd import servers as xrootd

from tests.support.workflow import HANGS, background, wait_until

ENTRY = "127.0.0.1"
ADDRESSES = ["127.0.0.2", "127.0.0.3"]
FIRST = 21_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that the servers' user may look into."""
    for above in (tmp_path, *tmp_path.parents[:3]):
        if above != Path("/tmp"):
            above.chmod(0o755)
    return tmp_path


@contextlib.contextmanager
def introducing(origins: tuple[xrootd.Server, ...]) -> Iterator[None]:
    """What agents do for these origins, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    for origin in origins:
        assert origin.manager
        doing = introduce(origin.ports.cmsd, origin.address, origin.manager)
        asyncio.run_coroutine_threadsafe(doing, loop).result(HANGS)
    yield
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def test_a_redirector_sends_to_the_addresses_that_origins_of_one_node_have_each(folder: Path) -> None:
    user = pwd.getpwnam("xrootd")
    own = folder / "credentials"
    credentials.create_credentials(own, [ENTRY, *ADDRESSES], (user.pw_uid, user.pw_gid))
    files = folder / "files" / xrootd.EXPORT.strip("/")
    files.mkdir(parents=True)
    (files / xrootd.READY_FILE).write_bytes(b"\n")
    ports = [places.block(FIRST + 10 * number) for number in range(3)]
    redirector, origins = xrootd.side("src", ENTRY, ADDRESSES, folder, files.parent, ports)
    assert redirector
    started = contextlib.ExitStack()

    def start(server: xrootd.Server, program: str) -> Path:
        server.folder.mkdir(exist_ok=True)
        os.chown(server.folder, user.pw_uid, user.pw_gid)
        manager = f"{xrootd.LOOPBACK}:{server.ports.cmsd}" if server.role == "server" else server.manager
        file = server.folder / "xrootd.cfg"
        file.write_text(xrootd.configuration(replace(server, manager=manager), own))
        log = server.folder / f"{program}.log"
        command = [*user_prefix(), program, "-c", str(file), "-l", str(log)]
        started.enter_context(background(command, cwd=server.folder, stderr=subprocess.DEVNULL))
        return log

    def accepts() -> bool:
        with socket.socket() as plain:
            return plain.connect_ex((ENTRY, redirector.ports.cmsd)) == 0

    missing = {origin.place for origin in origins}
    tls = starting.user_context(own)

    def sent_to_each() -> bool:
        missing.discard(starting.get(redirector.place, tls, socket.socket())[1])
        return not missing

    def logged_in() -> bool:
        texts = (log.read_text(errors="replace") if log.exists() else "" for log in logs)
        return all(xrootd.CMSD_LOGGED_IN in text for text in texts)

    with introducing(origins), started:
        start(redirector, "cmsd")
        wait_until(accepts, "the redirector's cmsd answers")
        start(redirector, "xrootd")
        logs = [start(origin, "cmsd") for origin in origins]
        wait_until(logged_in, "cmsds of origins are ready")
        for origin in origins:
            start(origin, "xrootd")
        wait_until(sent_to_each, f"the redirector sends to each of {sorted(missing)}")
