# SPDX-License-Identifier: Apache-2.0
"""A container whose CPU is measured: it waits for credentials and passes its CPU counters on as open files.

The reader of the counters then shares neither the container's cgroup nor its processes.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from tpcsweep.deploying.linux.cgroups import Cgroup, hierarchy
from tpcsweep.testbeds.kubernetes.pod import pod_files

POLL = 0.05


def end_on_term() -> None:
    """Have SIGTERM end this process; the kernel's default does not hold for a container's first process."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def credentials() -> Path:
    """Wait for the credentials, and return a folder with them as servers and tools need them."""
    while not pod_files.PRIVATE.exists():
        if pod_files.ENDED.exists():
            raise SystemExit("nobody has come to use this pod")
        time.sleep(POLL)
    return pod_files.PRIVATE


def taken(connections: int = 1) -> list[socket.socket]:
    """Wait for the agent or hub, pass CPU counters and /proc on by its first connection, and return all of them."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(pod_files.SERVER_CONTAINER_SOCKET))
        listener.listen(connections)
        accepted = [listener.accept()[0] for _ in range(connections)]
    tree = hierarchy()
    counted = Cgroup(tree, ".").counter_files()  # a container sees its own group as the root
    files = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (*counted.values(), Path("/proc"))]
    socket.send_fds(accepted[0], [json.dumps(list(counted)).encode()], files)
    for file in files:
        os.close(file)
    return accepted


def fail(message: str) -> None:
    """End the container, from any thread, with a reason that its pod's status shows."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201, a container's log is its standard error
    os._exit(1)
