# SPDX-License-Identifier: Apache-2.0
"""A container whose CPU is measured: it waits for the credentials and passes its CPU counters on as open files.

So the reader of the counters needs to share neither the container's cgroup nor its processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

from tpcsweep.linux.cgroups import Cgroup, hierarchy
from tpcsweep.testbeds.kubernetes.pod import places

POLL = 0.05
WHOLE = "..data"
"""A link in a kubelet's mounts that appears with all files at once; the files' own names come later, one by one and in
any order (kubernetes, pkg/volume/util/atomic_writer.go)."""


def end_on_term() -> None:
    """Have SIGTERM end this process: a container's first process lacks the kernel's default for it."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def credentials() -> Path:
    """Wait for the credentials and lay them out as servers and tools need them; returns their folder."""
    while not all(
        (folder / WHOLE / places.COMPLETE).exists() for folder in (places.CREDENTIALS, places.CONFIGURATION)
    ):
        if places.ENDED.exists():
            raise SystemExit("nobody has come to use this pod")
        time.sleep(POLL)
    if places.PRIVATE.exists():
        return places.PRIVATE
    beside = Path(tempfile.mkdtemp(dir=places.STATE))
    for path in (places.CREDENTIALS / WHOLE).iterdir():
        if path.is_file():
            target = beside / path.name.replace(places.SLASH, "/")
            target.parent.mkdir(mode=0o700, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o400)
    with contextlib.suppress(OSError):  # the other container of the pod was first
        beside.rename(places.PRIVATE)
    return places.PRIVATE


def taken(connections: int = 1) -> list[socket.socket]:
    """Wait for the agent or hub beside this container, and pass CPU counters and /proc on; returns its connections.

    These files go over the first connection.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(places.CONTAINED))
        listener.listen(connections)
        accepted = [listener.accept()[0] for _ in range(connections)]
    tree = hierarchy()
    usage, unit = Cgroup(tree, ".").usage_file()  # a container sees its own group as the root
    files = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (usage, tree.cpu / "cpu.stat", "/proc")]
    socket.send_fds(accepted[0], [f"{unit}\n".encode()], files)
    for file in files:
        os.close(file)
    return accepted


def fail(message: str) -> None:
    """End the container with a reason, which its pod's status then shows. Callable from any thread."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201, a container's log is its standard error
    os._exit(1)
