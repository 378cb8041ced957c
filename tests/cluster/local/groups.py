# SPDX-License-Identifier: Apache-2.0
"""The cgroups of clusters: one group at the top of every hierarchy, removed by whoever finds it empty.

A group's name cannot say whether its cluster still runs, but its processes can: from its making on, there is one in
it. Making and sweeping exclude each other by a lock on the hierarchy's own folder, which leaves no file anywhere.
"""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "k8s-tpcsweep-"
WORLD = "world"  # the group of the cluster's own programs, apart from those of its nodes' pods
# With the `cpu` controller of version 1, nothing in a new group may be real-time, which the delay line wants to be.
UNJOINED = {"cpu", "cpuset"}
CONTROLLERS = {"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}
"""Those of version 2 that a kubelet asks for."""


def hierarchies() -> list[Path]:
    """Every cgroup file system below /sys/fs/cgroup, named hierarchies too; version 2 alone is one."""
    rows = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    kinds = ("cgroup", "cgroup2")
    return sorted({Path(row[1]) for row in rows if row[2] in kinds and row[1].startswith("/sys/fs/cgroup")})


def create(name: str, nodes: list[str]) -> None:
    """Make the groups of a cluster and move this process into them, so that they are known to be in use."""
    roots = hierarchies()
    with _locked(roots):
        for root in roots:
            for each in (name, f"{name}/{WORLD}", *(f"{name}/{node}" for node in nodes)):
                _make(root, root / each)
            if UNJOINED.isdisjoint(root.name.split(",")):
                (root / name / WORLD / "cgroup.procs").write_text("0")


def sweep(name: str = f"{PREFIX}*") -> None:
    """Remove the groups that match and have no process in any hierarchy."""
    roots = hierarchies()
    with _locked(roots):
        for each in {group.name for root in roots for group in root.glob(name)}:
            for root in roots if not pids(each) else ():
                _remove(root / each)


def pids(name: str) -> set[int]:
    """Processes in a group and in those below it, in any hierarchy: "<cluster>/n2" has all the pods of a node."""
    found: set[int] = set()
    for root in hierarchies():
        for folder, _, _ in os.walk(root / name):  # which passes over what goes meanwhile
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()}
    return found


def kill(name: str) -> None:
    deadline = time.monotonic() + 5
    while (found := pids(name)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


@contextlib.contextmanager
def _locked(roots: list[Path]) -> Iterator[None]:
    descriptor = os.open(roots[0], os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(root: Path, group: Path) -> None:
    controllers = root / "cgroup.controllers"
    if controllers.exists():  # version 2: what a group may use, those above it must pass on
        wanted = " ".join(f"+{each}" for each in controllers.read_text().split() if each in CONTROLLERS)
        above = [root, *(root / part for part in reversed(group.relative_to(root).parents) if part.name)]
        for folder in above:
            (folder / "cgroup.subtree_control").write_text(wanted)
    group.mkdir()
    for file in ("cpuset.cpus", "cpuset.mems"):  # version 1: a new group has none, and may then not be used
        if (group / file).exists() and not controllers.exists():
            (group / file).write_text((group.parent / file).read_text())


def _remove(group: Path) -> None:
    """Remove a group and those below it; the kernel needs a moment after the last process has gone."""
    deadline = time.monotonic() + 5
    for folder in sorted((group, *(path for path in group.rglob("*") if path.is_dir())), reverse=True):
        while folder.exists():
            try:
                folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
