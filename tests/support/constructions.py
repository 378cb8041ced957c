# SPDX-License-Identifier: Apache-2.0
"""Cells that are built so that one known thing binds them; `benchmarks.limits` makes a table of what is found in all.

Tests measure those whose limit is found by code, or by a way of using the kernel, that no other has.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tpcsweep.deploying.linux import cgroups
from tpcsweep.deploying.paths.network_path import LARGEST_BANDWIDTH, queue_bytes
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import MIB, cell, site_of

KIB = 1 << 10


Arranged = Callable[[NetnsSite], AbstractContextManager[None]]
"""What is done to a deployment for a cell, and undone after it."""


class Built(NamedTuple):
    """A cell with a known limit."""

    limit: str
    streams: int
    arranged: Arranged = lambda _: contextlib.nullcontext()
    file_size: int = 256 * MIB
    tool: str = "curl"
    copy_mode: str = "pull"

    @property
    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if name not in ("limit", "arranged")}


pushed = partial(Built, copy_mode="push")


class Group(NamedTuple):
    deployment: Mapping[str, Any]
    cells: Sequence[Built]
    alike: Sequence[Built] = ()  # more of the same kinds, for the benchmark


def arranged(arrange: Callable[..., Iterator[None]]) -> Callable[..., Arranged]:
    """Make the arguments of a generator, but for the site, those of a function that returns what is arranged."""
    managed = contextlib.contextmanager(arrange)
    return lambda *args, **kwargs: lambda site: managed(site, *args, **kwargs)


@arranged
def quota(site: NetnsSite, side: str, cores: float) -> Iterator[None]:
    """A CPU quota for `src`, `dst` or `client`, where the deployment has none."""
    group = site.groups["client" if side == "client" else f"{side}1"]
    group.limit(cgroups.quota(cores))
    try:
        yield
    finally:
        group.limit(None)


@contextlib.contextmanager
def burning(site: NetnsSite) -> Iterator[None]:
    """A process for each CPU, those too that this one may not use, that leaves others a sixth of it.

    Their group is beside those of servers, because a group's share depends on the groups beside it alone.
    """
    cpus = os.cpu_count() or 1
    tree = cgroups.hierarchy()
    group = tree.group(f"{site.prefix}-burners").create()
    name, usual, most = ("cpu.weight", 100, 10_000) if tree.version == 2 else ("cpu.shares", 1024, 1 << 18)
    (tree.cpu / group.name / name).write_text(str(min(5 * usual * cpus, most)))
    # With the test, however it ends.
    burner = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"]
    burners = [
        subprocess.Popen([*group.entry(), "taskset", "--cpu-list", str(cpu), *burner]) for cpu in range(cpus)
    ]
    try:
        yield
    finally:
        for running in burners:
            running.kill()
            running.wait()
        group.remove()


@contextlib.contextmanager
def resting(site: NetnsSite) -> Iterator[None]:
    """A client that is stopped nine tenths of the time, so that streams wait for their next file at no one's cost."""
    over = threading.Event()

    def rest() -> None:
        while not over.wait(0.1):
            _signal(site.groups["client"].pids(), signal.SIGSTOP)
            over.wait(0.9)
            _signal(site.groups["client"].pids(), signal.SIGCONT)

    resting = threading.Thread(target=rest)
    resting.start()
    try:
        yield
    finally:
        over.set()
        resting.join()


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@arranged
def queue(site: NetnsSite, packets: int) -> Iterator[None]:
    """Queues before the path's rate that hold some packets alone."""
    path = site.link.path
    site.link.resize_queues(packets * path.mtu - queue_bytes(path))
    try:
        yield
    finally:
        site.link.resize_queues(0)


@arranged
def disk(site: NetnsSite, rate: int) -> Iterator[None]:
    """The destination's files on a disk that writes so many bytes a second, each write before it returns."""
    side = site.sides["dst"]
    image, group = side.files.parent / "image", BLKIO / f"{site.prefix}-disk"
    owner = side.files.stat()
    image.touch()
    os.truncate(image, DISK)
    site.commands.run(["mkfs.ext4", "-q", "-O", "^has_journal", str(image)])
    site.commands.run(["mount", "-o", "loop,sync", str(image), str(side.files)])
    try:
        # The servers have mounts of their own, which follow the machine's only where these are shared.
        device = side.files.stat().st_dev
        loop = f"/dev/loop{os.minor(device)}"
        for pid in site.groups["dst1"].pids():
            if Path(f"/proc/{pid}/root{side.files}").stat().st_dev != device:
                site.commands.run(["nsenter", f"--mount=/proc/{pid}/ns/mnt", "mount", loop, str(side.files)])
        (side.files / "lost+found").rmdir()
        os.chown(side.files, owner.st_uid, owner.st_gid)
        group.mkdir()
        limit = f"{os.major(device)}:{os.minor(device)} {rate}"
        (group / "blkio.throttle.write_bps_device").write_text(limit)
        _move(site.groups["dst1"].pids(), group)
        try:
            yield
        finally:
            _move(site.groups["dst1"].pids(), BLKIO)
            group.rmdir()
    finally:
        site.commands.run(["umount", "--lazy", str(side.files)])
        image.unlink()


def _move(pids: set[int], group: Path) -> None:
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))


BLKIO = Path("/sys/fs/cgroup/blkio")  # where version 1 has the controller that a slow disk is made with
DISK = 1 << 30
GROUPS = {
    "bandwidth": Group(
        {"rtt": 5, "bandwidth": 0.2},
        # One stream fills the path, but for the pauses between its files.
        [Built("bandwidth", 2), Built("bandwidth", 1, file_size=16 * MIB)],
        [Built("bandwidth", 8), pushed("bandwidth", 4)],
    ),
    "long path": Group(
        {"rtt": 100, "bandwidth": 1, "tcp_buffer": MIB},
        # Who pushes polls for room in its buffer, which the kernel counts as something else.
        [Built("window", 1), pushed("window", 2), Built("between_files", 2, file_size=256 * KIB)],
        [
            Built("window", 4),
            Built("between_files", 1, file_size=64 * KIB),
            Built("between_files", 4, file_size=256 * KIB),
        ],
    ),
    "loss": Group(
        {"rtt": 40, "bandwidth": 0.5, "loss": 0.01, "mtu": 1500},
        [Built("loss", 2)],
        [Built("loss", 1), Built("loss", 4)],
    ),
    "queue": Group(
        {"rtt": 20, "bandwidth": 1},
        [Built("path_queue", 1, queue(10)), pushed("path_queue", 2, queue(10))],
        [Built("path_queue", 2, queue(8))],
    ),
    "short path": Group(
        {"rtt": 2, "bandwidth": 1},
        [
            Built("cpu_source", 4, quota("src", 0.03)),
            pushed("cpu_source", 4, quota("src", 0.05)),
            Built("cpu_destination", 4, quota("dst", 0.05)),
            pushed("cpu_destination", 4, quota("dst", 0.1)),
            Built("client", 1, quota("client", 0.1), 4 * MIB, "gfal-copy"),
            Built("client", 4, quota("client", 0.02), MIB),
            Built("between_files", 1, resting, 4 * MIB),
            pushed("between_files", 2, resting, MIB),
        ],
        [
            Built("cpu_source", 1, quota("src", 0.03)),
            Built("cpu_destination", 1, quota("dst", 0.05)),
            Built("client", 4, quota("client", 0.2), 4 * MIB, "gfal-copy"),
            Built("between_files", 2, resting, 4 * MIB),
        ],
    ),
    "machine": Group(
        {"rtt": 0, "bandwidth": LARGEST_BANDWIDTH["none"]},
        [Built("machine", 1, burning)],
        [Built("machine", 2, burning), pushed("machine", 2, burning)],
    ),
}

if BLKIO.is_dir():
    slow = disk(10_000_000)
    GROUPS["disk"] = Group(
        {"rtt": 2, "bandwidth": 1},
        [Built("disk", 1, slow, 64 * MIB)],
        [Built("disk", 4, slow, 64 * MIB), pushed("disk", 2, slow, 64 * MIB)],
    )


def measured(
    group: Group, cells: Sequence[Built], seconds: float, folder: Path, tries: int = 1
) -> Iterator[tuple[Built, dict[str, Any]]]:
    """Each of some cells of a deployment with what was found in so many seconds.

    In four times as many where nothing arrived: who is bound by a small quota takes long to start on a busy machine.
    tries: how often at most a cell is measured until its limit is the one that it was built for; what else the
    machine does binds cells too, or makes connections send again what was late.
    """
    with site_of(folder, **group.deployment) as site:
        for one in cells:
            with one.arranged(site):
                for _ in range(tries):
                    for length in (seconds, 4 * seconds):
                        how = Measurement(min_time=length, max_time=length)
                        found = cell(site, how, **group.deployment, **one.parameters)
                        if not found["message"].startswith("no byte arrived"):
                            break
                    if found["limit"] == one.limit:
                        break
                yield one, found
