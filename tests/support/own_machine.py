# SPDX-License-Identifier: Apache-2.0
"""A second chain of tests that deploy, beside the first.

It has the lock, namespaces, cgroups and disk of a machine of its own, and so has all that it starts.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tpcsweep.deploying.linux.namespaces import CLONE_NEWNET, FOLDER, check_libc, libc
from tpcsweep.testbeds.netns import ownership
from tpcsweep.testbeds.netns.settings import DISK

CLONE_NEWNS = 0x20000  # linux/sched.h
GROUP = "tpcsweep-tests-"
"""Beginning of the names of cgroups that are the tops of a second chain's hierarchies."""
SHARES = {"cpu.shares": "8192", "cpu.weight": "800"}
"""CPU time of a second chain against each cgroup of the first, which has about eight, by the version of cgroups."""


@contextlib.contextmanager
def own_machine(folder: Path) -> Iterator[None]:
    """Give this process another network, and other mounts where deployments share something, during a `with` block.

    Only the first thread of a process can do this, because /proc/self shows that thread's namespaces.

    Args:
        folder: An empty folder for files on disk.
    """
    kinds = {"mnt": CLONE_NEWNS, "net": CLONE_NEWNET}
    with contextlib.ExitStack() as opened:
        before = {kind: opened.enter_context(Path(f"/proc/self/ns/{kind}").open("rb")) for kind in kinds}
        tops = _entered_groups(opened)
        check_libc(libc.unshare(CLONE_NEWNS | CLONE_NEWNET), "unshare")
        try:
            _mount_own([*((top, top.parent) for top in tops), (folder, Path(DISK))])
            yield
        finally:
            for kind, space in before.items():
                check_libc(libc.setns(space.fileno(), kinds[kind]), f"setns {kind}")


def chain_of(pid: int | str) -> str:
    """The top cgroup of the chain that has started a process; "" for the first chain and everything else."""
    parts = Path(f"/proc/{pid}/cgroup").read_text().replace("\n", "/").split("/")
    return next((part for part in parts if part.startswith(GROUP)), "")


def _entered_groups(opened: contextlib.ExitStack) -> list[Path]:
    """Create a group at the top of each hierarchy that deployments use, and enter a group below it."""
    places = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, place = line.split(":", 2)
        places |= dict.fromkeys(names.split(","), place.lstrip("/"))
    tops = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        controllers = {"cpu", "cpuacct"} & {*options.split(",")} if kind == "cgroup" else {""}
        if not kind.startswith("cgroup") or not controllers:
            continue
        _remove_former(Path(mount))
        top = Path(mount) / f"{GROUP}{os.getpid()}"
        own = top / "tests"
        former = Path(mount) / places[min(controllers)] / "cgroup.procs"
        for group in (top, own):
            group.mkdir()
            opened.callback(group.rmdir)
        (own / "cgroup.procs").write_text("0")
        opened.callback(former.write_text, "0")
        for name, share in SHARES.items():
            if (top / name).exists():
                (top / name).write_text(share)
        tops.append(top)
    return tops


def _remove_former(mount: Path) -> None:
    """Remove the groups of tests that were killed; all else that they had went with their namespaces."""
    for top in mount.glob(f"{GROUP}*"):
        if not Path("/proc", top.name.removeprefix(GROUP)).exists():
            for group in (*(path for path in top.iterdir() if path.is_dir()), top):
                with contextlib.suppress(OSError):  # a process may be about to end
                    group.rmdir()


def _mount_own(folders: list[tuple[Path, Path]]) -> None:
    def finished(*command: str | Path) -> None:
        subprocess.run(command, check=True)

    finished("mount", "--make-rprivate", "/")
    finished("ip", "link", "set", "lo", "up")
    Path(DISK).mkdir(exist_ok=True)
    for source, place in folders:
        finished("mount", "--bind", source, place)
    for place in (ownership.STATE, FOLDER):
        place.mkdir(exist_ok=True)
        finished("mount", "-t", "tmpfs", "tmpfs", place)
