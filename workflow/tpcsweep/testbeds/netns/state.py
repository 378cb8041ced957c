# SPDX-License-Identifier: Apache-2.0
"""Who owns what on this machine, and how all of it is removed.

A deployment has an identifier and a folder `/run/tpcsweep/<id>`, made before anything else and removed after
everything else. The names of its namespaces and cgroups begin with `tpc-<id>-`, its mounts are inside its folder;
so the folder's name is enough to remove the rest, whoever made it and however that ended. One lock says whether a
deployment is up: whoever holds it may take every folder found for a leftover. Another one keeps deployments of all
users of the machine apart; an ordinary user's has a STATE of its own (`linux.rootless`), in which nothing is found.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tpcsweep import locks
from tpcsweep.linux import cgroups
from tpcsweep.linux.namespaces import FOLDER
from tpcsweep.testbeds import TeardownError, take_all_steps
from tpcsweep.xrootd import servers as xrootd

STATE = Path("/run/tpcsweep")
MACHINE = "tpcsweep"
"""The lock that keeps deployments of all users apart."""
KILL_SECONDS = 5.0


class BusyError(Exception):
    """A deployment is up and its owner is alive."""


@dataclass(frozen=True)
class Owner:
    """Whose a deployment is, and where its servers' logs go; kept in the deployment's folder."""

    sweep: str
    deployment: str
    pid: int
    logs: str

    def __str__(self) -> str:
        return f"{self.deployment or 'the only deployment'} of sweep {self.sweep}"


def prefix(identifier: str) -> str:
    """Give what the names of a deployment's namespaces and cgroups begin with."""
    return f"tpc-{identifier}"


@contextlib.contextmanager
def exclusive(owner: Owner | str, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the machine for the length of a `with`; others are told of the owner.

    If another one holds it, `waiting` is told who, and that one is waited for.

    Raises:
        BusyError: if there is no `waiting`, and another one holds the machine.
    """
    STATE.mkdir(mode=0o711, exist_ok=True)
    with contextlib.ExitStack() as held:
        try:
            held.callback(os.close, locks.take(STATE / "lock", str(owner), waiting))
            held.callback(os.close, locks.take_machine(MACHINE, waiting))
        except locks.HeldError as error:
            raise BusyError(
                f"a deployment is up on this machine: {error}. End that sweep first (Ctrl-C, or kill its pid)."
            ) from None
        yield


def create(owner: Owner) -> Path:
    folder = STATE / secrets.token_hex(3)
    folder.mkdir(mode=0o711)
    # Whoever removes what is left may be elsewhere.
    logs = str(Path(owner.logs).resolve())
    (folder / "owner.json").write_text(json.dumps(asdict(owner) | {"logs": logs}))
    return folder


def leftovers() -> list[Path]:
    """Give the folders of deployments. Who holds the lock knows that they have no owner any more."""
    return sorted(path for path in STATE.glob("*") if path.is_dir()) if STATE.is_dir() else []


def describe(folder: Path) -> str:
    owner = _owner(folder)
    return f"{folder.name}: {owner}" if owner else f"{folder.name} (owner unknown)"


def _owner(folder: Path) -> Owner | None:
    """Read whose a deployment is; None where it was killed before it had said so."""
    try:
        return Owner(**json.loads((folder / "owner.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def teardown(folder: Path, children: list[subprocess.Popen[bytes]] | None = None) -> None:
    """Remove everything of a deployment: processes, logs (saved), mounts, namespaces, cgroups, its folder.

    Every step is tried, whatever became of the others. Children are processes of the caller that must be waited for.

    Raises:
        TeardownError: if something remains.
    """
    name = prefix(folder.name)
    steps = (
        partial(_kill, name, children or []),
        partial(_save_logs, folder),
        partial(_unmount, folder),
        partial(_empty_disk, folder),
        partial(_delete_namespaces, name),
        partial(_remove_cgroups, name),
        partial(shutil.rmtree, folder),
    )
    take_all_steps(folder.name, steps, OSError, subprocess.SubprocessError, cgroups.CgroupError)


def processes(name: str) -> set[int]:
    """Give the processes in the cgroups or network namespaces of a deployment (kernel threads have neither)."""
    pids: set[int] = set()
    for group in cgroups.named(cgroups.hierarchy(), f"{name}-"):
        pids |= group.pids()
    inodes = {path.stat().st_ino for path in FOLDER.glob(f"{name}-*")}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "ns" / "net").stat().st_ino in inodes:
                    pids.add(int(entry.name))
    return pids - {os.getpid()}


def _kill(name: str, children: list[subprocess.Popen[bytes]]) -> None:
    give_up = time.monotonic() + KILL_SECONDS
    while pids := processes(name):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for child in children:
            child.poll()
        if time.monotonic() > give_up:
            raise TeardownError(f"processes survive SIGKILL: {sorted(pids)}")
        time.sleep(0.005)
    for child in children:
        child.wait(timeout=KILL_SECONDS)


def _save_logs(folder: Path) -> None:
    """Copy the servers' logs to where the owner wanted them, without the tokens that servers log.

    Where that folder has gone, its results have, too. One without a root was the owner's, who may have been elsewhere.
    """
    owner = _owner(folder)
    logs = Path(owner.logs) if owner else Path()
    if logs.is_absolute() and logs.is_dir():
        for log in sorted(folder.glob("nodes/*/*.log")):
            (logs / log.name).write_text(xrootd.without_secrets(log.read_text(errors="replace")))


def _unmount(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed(mounts):
        if mount.startswith(f"{folder}/"):
            _run(["umount", "--lazy", mount])


def _empty_disk(folder: Path) -> None:
    """Remove the files of sides that are on a disk; links in the folder lead there."""
    for link in folder.glob("data/*"):
        if link.is_symlink() and link.exists():
            shutil.rmtree(link.resolve())


def _delete_namespaces(name: str) -> None:
    batch = "".join(f"netns del {path.name}\n" for path in sorted(FOLDER.glob(f"{name}-*")))
    if batch:
        _run(["ip", "-batch", "-"], batch)


def _run(command: list[str], fed: str = "") -> None:
    # A session of its own, which Ctrl-C does not reach.
    subprocess.run(command, input=fed.encode(), check=True, capture_output=True, start_new_session=True)


def _remove_cgroups(name: str) -> None:
    for group in cgroups.named(cgroups.hierarchy(), f"{name}-"):
        group.remove()
