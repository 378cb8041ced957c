# SPDX-License-Identifier: Apache-2.0
"""CPU quotas and accounting by cgroups (version 1 and 2); plain groups account without cgroups.

Sources: Linux kernel, Documentation/scheduler/sched-bwc.rst (v1: cpu.cfs_quota_us, cpu.cfs_period_us, cpu.stat) and
Documentation/admin-guide/cgroup-v2.rst (cpu.max, cpu.stat). A quota is at least 1 ms, a period 1 ms to 1 s. Unused
quota is lost at the end of its period, and a group that used its quota waits for the next period: the longer the
period, the longer the wait. CPUs take quotas in slices of 5 ms (sched_cfs_bandwidth_slice_us), so that one CPU may take
all of a small quota.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tpcsweep.common.numbers import plain
from tpcsweep.deploying.linux.kernel_counters import CounterFile, Process, ProcessTable, TreeCpu

REMOVE_SECONDS = 2.0
USAGE = "usage_usec"  # key of cpu.stat with the used CPU time
VERSION_1: Mapping[str, tuple[str, bytes | None, float]] = {
    USAGE: ("cpuacct.usage", None, 1e-9),
    "throttled_usec": ("cpu.stat", b"throttled_time", 1e-9),
    "burst_usec": ("cpu.stat", b"burst_time", 1e-9),
}
"""Place and unit in s of the keys that version 1 calls otherwise."""
CpuReader = Callable[[Collection[str]], dict[str, float]]  # `CpuCounters.read`
PLAIN_GROUPS = Path("/run/tpcsweep-groups")
"""Folder of plain groups; exists only in namespaces of an ordinary user without delegated cgroups."""
PERIOD = 100_000  # usual period in µs, the default of the kernel and of Kubernetes
SHORTEST_QUOTA = 1_000
LONGEST_PERIOD = 1_000_000
RECOMMENDED_QUOTA = 10_000
"""Smallest recommended quota in µs; with smaller ones, many streams get less than few."""

FEWEST_CORES = SHORTEST_QUOTA / LONGEST_PERIOD  # smallest possible quota in cores

_NOT_ALLOWED = "this user may not change it: run as root (in a container: docker run --privileged)"
_TOO_MANY = (
    "too many groups exist: remove unused ones (tpcsweep reap), or raise cgroup.max.* of a group above"
)
REMEDIES = {
    errno.EROFS: "mount it writable (docker run --privileged)",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.ENOSPC: _TOO_MANY,
    errno.EAGAIN: _TOO_MANY,
    errno.EEXIST: "an earlier run left it: tpcsweep reap",
    errno.EOPNOTSUPP: "the group above is threaded (cgroup.type) and cannot limit CPU: run in another one",
}
"""Remedies for errors of changing cgroups (cgroup-v2.rst; Linux, kernel/cgroup/cgroup.c)."""
DELEGATION_REMEDIES = {
    errno.EBUSY: "the group has processes, as in a container, and cannot pass cpu on: docker run --cgroupns host",
    errno.EINVAL: "the kernel (CONFIG_RT_GROUP_SCHED) cannot limit CPU while real-time processes are in groups: "
    "find them with ps -eo pid,cls,args, and as root chrt --other --pid 0 PID",
}
"""Remedies for errors of passing the cpu controller on to groups, in addition to REMEDIES."""


class CgroupError(Exception):
    """The machine's cgroups are unusable in their current state."""


class Quota(NamedTuple):
    """CPU time in each period, both in µs."""

    time: int
    period: int

    @property
    def cores(self) -> float:
        return self.time / self.period


def quota(cores: float) -> Quota:
    """Return the quota for a number of cores, in whole µs, and therefore within 0.05 %.

    The period is the usual one if the quota is at least RECOMMENDED_QUOTA, that is from a tenth of a core. For fewer
    cores it is longer, up to the kernel's maximum, so that the quota is RECOMMENDED_QUOTA. Source: `python -m
    benchmarks.quotas`. Sweeps with less than FEWEST_CORES are refused before.
    """
    period = min(max(PERIOD, round(RECOMMENDED_QUOTA / cores)), LONGEST_PERIOD)
    return Quota(round(cores * period), period)


@dataclass(frozen=True)
class Hierarchy:
    """Mount point of the machine's `cpu` controller, and the place of CPU accounting."""

    version: int  # version of cgroups; 0 for plain groups
    cpu: Path
    accounting: Path

    def group(self, name: str, *, accounting_only: bool = False) -> Cgroup:
        """Return the group with a name, which need not exist yet; see `Cgroup`."""
        return (Cgroup if self.version else PlainGroup)(self, name, accounting_only)


def hierarchy(mounts: str | None = None) -> Hierarchy:
    """Return the hierarchy in the text of /proc/self/mounts, by default the current. Raises CgroupError."""
    if mounts is None and PLAIN_GROUPS.is_dir():
        return Hierarchy(0, PLAIN_GROUPS, PLAIN_GROUPS)
    text = Path("/proc/self/mounts").read_text() if mounts is None else mounts
    rows = [line.split() for line in text.splitlines()]
    v1 = {option: Path(row[1]) for row in rows if row[2] == "cgroup" for option in row[3].split(",")}
    if {"cpu", "cpuacct"} <= v1.keys():
        return Hierarchy(1, v1["cpu"], v1["cpuacct"])
    for row in rows:
        if row[2] == "cgroup2":
            return Hierarchy(2, Path(row[1]), Path(row[1]))
    raise CgroupError(
        "no cgroup hierarchy with the cpu controller is mounted: mount cgroup2 at /sys/fs/cgroup, "
        "or cgroup v1 with cpu and cpuacct"
    )


@dataclass(frozen=True)
class Cgroup:
    """Group at the top of the hierarchy; `create` makes it."""

    tree: Hierarchy
    name: str
    accounting_only: bool = False
    """Whether the group is only in the accounting hierarchy, if v1 has two.
    In the `cpu` hierarchy nothing can be real-time: a new group's budget for that is zero and cannot be raised reliably
    (sched-rt-group.rst)."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders of the group: two if v1 mounts cpu and cpuacct separately."""
        roots = (self.tree.accounting,) if self.accounting_only else (self.tree.cpu, self.tree.accounting)
        return tuple(dict.fromkeys(root / self.name for root in roots))

    def create(self, cores: float | None = None) -> Cgroup:
        """Make the group, with a quota of CPU cores or none. Raises CgroupError."""
        try:
            if self.tree.version == 2:
                _delegate_cpu(self.tree.cpu)
            for folder in self.folders:
                folder.mkdir()
        except OSError as error:
            fix = REMEDIES.get(error.errno or 0)
            why = f"{error.filename or self.tree.cpu}: {error.strerror}{(fix and f': {fix}') or ''}"
            raise CgroupError(why) from error
        if cores is not None:
            self.limit(quota(cores))
        return self

    def limit(self, allowed: Quota | None) -> None:
        """Change the group's quota; None removes it. Raises CgroupError, as when a parent has less quota."""
        time, period = map(str, allowed or ("max", PERIOD))
        settings = [("cpu.max", f"{time} {period}")]
        if self.tree.version == 1:
            settings = [("cpu.cfs_quota_us", "-1")]  # without a quota any period may be set
            if allowed:
                settings += [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", time)]
        for name, value in settings:
            file = self.tree.cpu / self.name / name
            try:
                file.write_text(value)
            except OSError as error:
                special = {errno.EINVAL: "a group above has less"} if self.tree.version == 1 else {}
                raise CgroupError(f"{file} cannot be {value}: {_described(error, special)}") from error

    def quota(self) -> Quota | None:
        """Return the quota in force according to the kernel, or None."""
        cpu = self.tree.cpu / self.name
        names = ("cpu.max",) if self.tree.version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        allowed, period = " ".join((cpu / name).read_text() for name in names).split()
        return None if allowed in ("max", "-1") else Quota(int(allowed), int(period))

    def entry(self) -> list[str]:
        """Return a prefix for a command line that starts the command inside the group."""
        files = [str(folder / "cgroup.procs") for folder in self.folders]
        enter = " && ".join(f'echo 0 >"${i}"' for i in range(1, len(files) + 1))
        return ["sh", "-c", f'{enter} && shift {len(files)} && exec "$@"', "sh", *files]

    def pids(self) -> set[int]:
        """Return the group's processes that this process can see, and therefore end.

        Version 2 lists processes outside of this PID namespace as 0 (pid_namespaces(7)); for kill(2), 0 is the caller's
        own process group.
        """
        pids: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(FileNotFoundError):
                pids |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
        return pids - {0}

    def counter_files(self) -> dict[str, Path]:
        """Return the files for `CpuCounters`, by name; a group for accounting alone may lack one of version 1."""
        if self.tree.version == 2:
            return {"cpu.stat": self.tree.accounting / self.name / "cpu.stat"}
        files = {"cpuacct.usage": self.tree.accounting / self.name / "cpuacct.usage"}
        stat = self.tree.cpu / self.name / "cpu.stat"
        return files | ({"cpu.stat": stat} if stat.exists() else {})

    def counters(self, opened: contextlib.ExitStack) -> CpuReader:
        """Return a reader of the group's CPU counters, until the stack `opened` closes."""
        files = {name: CounterFile(path) for name, path in self.counter_files().items()}
        for file in files.values():
            opened.callback(file.close)
        return CpuCounters(files).read

    def remove(self) -> None:
        """Remove the emptied group, which may stay busy for a moment. Raises CgroupError after REMOVE_SECONDS."""
        give_up = time.monotonic() + REMOVE_SECONDS
        for folder in self.folders:
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError as error:
                    if time.monotonic() > give_up:
                        why = f"{error.strerror}; processes: {self.pids()}"
                        raise CgroupError(f"{folder} cannot be removed: {why}") from None
                    time.sleep(0.01)


class PlainGroup(Cgroup):
    """Folder with a list of processes; they and their descendants form the group, which limits nothing."""

    table = ProcessTable()  # shared by all groups, which are read one after the other

    def create(self, cores: float | None = None) -> Cgroup:
        if cores is not None:
            raise CgroupError(f"{self.name}: {plain(cores)} cores: without cgroups there are no quotas")
        [folder] = self.folders
        folder.mkdir()
        (folder / "cgroup.procs").touch()
        return self

    def quota(self) -> None:
        """Return None, because a plain group has no quota."""

    def entry(self) -> list[str]:
        return ["sh", "-c", 'echo $$ >>"$0" && exec "$@"', str(self.folders[0] / "cgroup.procs")]

    def pids(self) -> set[int]:
        return set(self._processes())

    def counters(self, opened: contextlib.ExitStack) -> CpuReader:  # noqa: ARG002, no file stays open
        """Return a reader of the CPU time, in steps of a clock tick; without quotas all other counters are 0."""
        cpu = TreeCpu(self._processes)

        def read(keys: Collection[str]) -> dict[str, float]:
            used = cpu.read()
            return {key: used if key == USAGE else 0 for key in keys}

        return read

    def remove(self) -> None:
        shutil.rmtree(self.folders[0], ignore_errors=True)

    def _processes(self) -> dict[int, Process]:
        return self.table.tree(super().pids())


class CpuCounters:
    """CPU counters of a group, by the keys of version 2's cpu.stat; times are in s.

    A counter that the kernel lacks is 0: a group without the cpu controller has no quota.
    """

    def __init__(self, files: Mapping[str, CounterFile]) -> None:
        """`files` are those of `Cgroup.counter_files`."""
        self._files = files
        self._version_1 = "cpuacct.usage" in files

    def read(self, keys: Collection[str]) -> dict[str, float]:
        """Return the counters of some keys; each file is read once. Raises OSError."""
        texts: dict[str, list[bytes]] = {}
        values = {}
        for key in keys:
            file, name, unit = self._place(key)
            if file not in texts:
                texts[file] = self._files[file].read().split() if file in self._files else []
            words = texts[file]
            if name is None:
                values[key] = int(words[0]) * unit
            else:
                values[key] = int(words[words.index(name) + 1]) * unit if name in words else 0
        return values

    def _place(self, key: str) -> tuple[str, bytes | None, float]:
        """Return the file of a key, its name there or None for a file of one number, and its unit."""
        if not self._version_1:
            return "cpu.stat", key.encode(), 1e-6 if key.endswith("_usec") else 1
        return VERSION_1.get(key) or ("cpu.stat", key.encode(), 1)


def cgroups_with_prefix(tree: Hierarchy, prefix: str) -> list[Cgroup]:
    folders = (path for root in {tree.cpu, tree.accounting} for path in root.glob(f"{prefix}*"))
    return [tree.group(name) for name in sorted({path.name for path in folders if path.is_dir()})]


def _delegate_cpu(root: Path) -> None:
    if "cpu" in (root / "cgroup.subtree_control").read_text().split():
        return
    if "cpu" not in (root / "cgroup.controllers").read_text().split():
        raise CgroupError(f"{root}/cgroup.controllers lacks cpu: boot with the cpu controller on cgroup v2")
    try:
        (root / "cgroup.subtree_control").write_text("+cpu")
    except OSError as error:
        why = _described(error, DELEGATION_REMEDIES)
        raise CgroupError(f"{root}/cgroup.subtree_control: {why}") from error


def _described(error: OSError, special: Mapping[int, str]) -> str:
    """Return an error with its remedy, if one is known; `special` remedies come first."""
    remedies = {**REMEDIES, **special}
    return ": ".join(filter(None, (error.strerror, remedies.get(error.errno or 0))))
