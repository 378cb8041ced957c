# SPDX-License-Identifier: Apache-2.0
"""The outside of a cluster: starts its world, relays to its API server, and cleans up after it.

One keeper a cluster, a process of its own: it ends the world when the one that asked for it has gone, in whatever
way, which it sees as the end of its standard input. Killed itself, it takes the world along (PR_SET_PDEATHSIG), and
only empty cgroups stay, for the next one to sweep.
"""

import asyncio
import contextlib
import ctypes
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.local import build, groups
from tests.cluster.local.settings import PORT, Settings

PR_SET_PDEATHSIG, CLONE_NEWNET = 1, 0x40000000  # linux/prctl.h, linux/sched.h
ROOT = Path(__file__).resolve().parents[3]

_libc = ctypes.CDLL(None, use_errno=True)


class Keeper:
    def __init__(self, folder: Path, settled: Settings) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.settings = dataclasses.replace(settled, port=self.listener.getsockname()[1])
        (self.state / "settings.json").write_text(self.settings.dump())
        for used in (settled.programs, settled.images):
            if used:
                build.hold(Path(used))
        self.channel, theirs = socket.socketpair()
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.network = -1
        self.relays: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()
        with theirs, (folder / "logs" / "world.log").open("ab") as log:
            self.world = subprocess.Popen(
                [
                    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
                    *(sys.executable, "-m", "tests.cluster.local.world", str(folder), str(theirs.fileno())),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )

    async def run(self) -> None:
        """Until the world has ended, or whoever wanted it has gone."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.ended.set)
        process = os.pidfd_open(self.world.pid)
        loop.add_reader(process, self.ended.set)
        loop.add_reader(0, self.hear)
        loop.add_reader(self.channel, self.told)
        server = await asyncio.start_server(self.relay, sock=self.listener)
        await self.ended.wait()
        server.close()
        for task in self.relays:
            task.cancel()

    def hear(self) -> None:
        """Standard input: nothing is ever said there, it only ends."""
        if not os.read(0, 4096):
            self.ended.set()

    def told(self) -> None:
        text, descriptors, _, _ = socket.recv_fds(self.channel, 8192, 1)
        if descriptors:
            self.network = descriptors[0]
        for line in text.decode().splitlines():
            if line == "ready":
                (self.state / "kubeconfig").rename(self.folder / "kubeconfig")
                (self.state / "first.pid").write_text(str(self.first()))
                say(ready=str(self.folder / "kubeconfig"))
            elif line != "network":
                say(failed=text.decode())
                break
        if not text:
            asyncio.get_running_loop().remove_reader(self.channel)

    def first(self) -> int:
        children = Path(f"/proc/{self.world.pid}/task/{self.world.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection to the API server, opened in the world's network."""
        task = asyncio.current_task()
        assert task is not None
        self.relays.add(task)
        task.add_done_callback(self.relays.discard)
        there = None
        try:
            with self.entered():
                inner = socket.socket()
            inner.setblocking(False)
            with contextlib.closing(inner):
                await asyncio.get_running_loop().sock_connect(inner, ("127.0.0.1", PORT))
                back, there = await asyncio.open_connection(sock=inner)
                await asyncio.gather(pump(reader, there), pump(back, writer))
        except (OSError, asyncio.CancelledError):
            pass  # the API server is away, or either side is
        finally:
            for each in (writer, there):
                if each is not None:
                    each.transport.abort() if self.ended.is_set() else each.close()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Put the calling thread into the world's network, for a moment."""
        if self.network < 0 or _libc.setns(self.network, CLONE_NEWNET) != 0:
            raise ConnectionRefusedError
        try:
            yield
        finally:
            if _libc.setns(self.home, CLONE_NEWNET) != 0:
                os._exit(1)  # anything else would go on in the wrong network

    def close(self) -> None:
        first = self.first() if self.world.poll() is None else 0
        if first:
            os.kill(first, signal.SIGKILL)  # it ends when all of its namespace has, and `unshare` then
        elif self.world.poll() is None:
            self.world.kill()
        self.world.wait()
        try:
            groups.sweep(self.settings.group)
        finally:
            (self.folder / "kubeconfig").unlink(missing_ok=True)
            shutil.rmtree(self.state, ignore_errors=True)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, and then that nothing more will."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def say(**what: str) -> None:
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


async def main(folder: Path) -> None:
    keeper = Keeper(folder, Settings.load((folder / "state" / "settings.json").read_text()))
    try:
        await keeper.run()
    finally:
        keeper.close()


if __name__ == "__main__":
    groups.sweep()
    asyncio.run(main(Path(sys.argv[1])))
