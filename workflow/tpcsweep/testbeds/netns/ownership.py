# SPDX-License-Identifier: Apache-2.0
"""Ownership and removal of deployments on this machine.

The folder `/run/tpcsweep/<id>` is the first and last object of a deployment. Its namespaces and cgroups are named
`tpc-<id>-…`, and its mounts are inside the folder, so the folder's name is enough to remove everything. The holder of
one lock may remove all folders, because no deployment is running. Another lock separates deployments of all users of
the machine. An ordinary user has a private STATE (`deploying.linux.rootless`) without leftovers.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tpcsweep.common import locks
from tpcsweep.common.processes import readable_umask, run
from tpcsweep.deploying.linux import cgroups
from tpcsweep.deploying.linux.namespaces import FOLDER
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.testbeds.interface import TeardownError, take_all_steps

STATE = Path("/run/tpcsweep")
MACHINE = "tpcsweep"  # the lock that separates deployments of all users
KILL_SECONDS = 5.0


class MachineBusyError(Exception):
    """Another deployment is running, and its owner is alive."""


@dataclass(frozen=True)
class Owner:
    """The owner of a deployment, stored in its folder; `logs` is the folder for its servers' logs."""

    sweep: str
    deployment: str
    pid: int
    logs: str

    def __str__(self) -> str:
        return f"{self.deployment or 'the only deployment'} of sweep {self.sweep}"


def prefix(identifier: str) -> str:
    return f"tpc-{identifier}"


@contextlib.contextmanager
def exclusive(owner: Owner | str, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the machine's locks for an owner during a `with` block.

    If another owner holds them, call `waiting` with that owner and wait; without `waiting` raise MachineBusyError.
    """
    STATE.mkdir(exist_ok=True)
    STATE.chmod(0o711)  # independent of the umask, and of an earlier user's
    with contextlib.ExitStack() as held:
        try:
            held.callback(os.close, locks.lock_file(STATE / "lock", str(owner), waiting))
            held.callback(os.close, locks.lock_machine(MACHINE, waiting))
        except locks.LockedError as error:
            remedy = "End that sweep first (Ctrl-C, or kill its pid)."
            raise MachineBusyError(f"a deployment is up on this machine: {error}. {remedy}") from None
        yield


@readable_umask()
def create_deployment(owner: Owner) -> Path:
    folder = STATE / secrets.token_hex(3)
    folder.mkdir(mode=0o711)
    logs = str(Path(owner.logs).resolve())  # another working directory may remove the leftovers
    (folder / "owner.json").write_text(json.dumps(asdict(owner) | {"logs": logs}))
    return folder


def leftovers() -> list[Path]:
    """Return the folders of deployments. They have no owner if the caller holds the lock."""
    return sorted(path for path in STATE.glob("*") if path.is_dir()) if STATE.is_dir() else []


def describe_leftover(folder: Path) -> str:
    owner = _owner(folder)
    return f"{folder.name}: {owner}" if owner else f"{folder.name} (owner unknown)"


def _owner(folder: Path) -> Owner | None:
    """Read a deployment's owner, or return None if its job was killed before writing it."""
    try:
        return Owner(**json.loads((folder / "owner.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def teardown(  # noqa: C901, the complexity is that of all its steps, which are small functions
    folder: Path, children: Sequence[subprocess.Popen[bytes]] = ()
) -> None:
    """Remove a deployment: processes, logs (after copying), mounts, namespaces, cgroups and its folder.

    Every step runs, even after a failed one. `children` are the deployment's processes that the caller started.
    Commands run in their own session, which Ctrl-C does not reach. Raises TeardownError if something remains.
    """
    name = prefix(folder.name)

    def kill() -> None:
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

    def save_logs() -> None:
        """Copy the servers' logs without tokens to the owner's folder for logs, if that exists."""
        owner = _owner(folder)
        logs = Path(owner.logs) if owner else Path()
        if logs.is_absolute() and logs.is_dir():
            for log in sorted(folder.glob("nodes/*/*.log")):
                text = xrootd.without_secrets(log.read_text("utf-8", "replace"))
                (logs / log.name).write_text(text, "utf-8")

    def unmount() -> None:
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{folder}/"):
                run(["umount", "--lazy", mount], check=True, start_new_session=True)

    def empty_disk() -> None:
        for link in folder.glob("data/*"):
            if link.is_symlink() and link.exists():
                shutil.rmtree(link.resolve())

    def delete_namespaces() -> None:
        batch = "".join(f"netns del {path.name}\n" for path in sorted(FOLDER.glob(f"{name}-*")))
        if batch:
            run(["ip", "-batch", "-"], input=batch, check=True, start_new_session=True)

    def remove_cgroups() -> None:
        for group in cgroups.cgroups_with_prefix(cgroups.hierarchy(), f"{name}-"):
            group.remove()

    def forget() -> None:
        """Remove the folder, by which `reap` finds the deployment, unless a process still runs."""
        if not processes(name):
            shutil.rmtree(folder)

    steps = (kill, save_logs, unmount, empty_disk, delete_namespaces, remove_cgroups, forget)
    take_all_steps(folder.name, steps, OSError, subprocess.SubprocessError, cgroups.CgroupError)


def processes(name: str) -> set[int]:
    """Return the processes in a deployment's cgroups or network namespaces, without kernel threads."""
    pids: set[int] = set()
    for group in cgroups.cgroups_with_prefix(cgroups.hierarchy(), f"{name}-"):
        pids |= group.pids()
    inodes = {path.stat().st_ino for path in FOLDER.glob(f"{name}-*")}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "ns" / "net").stat().st_ino in inodes:
                    pids.add(int(entry.name))
    return pids - {os.getpid()}
