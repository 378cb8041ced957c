# SPDX-License-Identifier: Apache-2.0
"""Namespaces of an ordinary user's own, in which he is root, and nothing outlives the process that made them.

Three processes take part. The one that calls `enter` stays outside: it passes on what asks it to end, and ends as the
program does. `cat` is the first of a PID namespace: it reads a pipe that the one outside has the other end of, and with
it end all processes there, kill -9 included (pid_namespaces(7)). The program goes on in the third. With the last
process go the namespaces, and with these their mounts and networks.

Only PIDs, mounts and users are another's: the network stays the machine's, as releases of XRootD may have to be fetched
and one lock keeps sweeps of all users apart.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, NoReturn

from tpcsweep.linux import cgroups, delegation
from tpcsweep.linux.commands import look_in_sbin
from tpcsweep.linux.signals import ENDING

NEEDED = ("user", "mount", "pid", "net")
"""Kinds of namespaces that are made, as /proc/sys/user/max_KIND_namespaces names them, `mount` as mnt."""
RUN = Path("/run")
OURS = ("netns", "tpcsweep")
"""Folders of RUN that are anew; the others are the machine's."""
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000  # linux/sched.h
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8  # linux/mount.h
_MS_BIND, _MS_MOVE, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 13, 1 << 14, 1 << 18
_SCOPE = "TPCSWEEP_SCOPE"
"""The environment variable that says that a scope was asked for, as that is done once."""
_TRIAL = "mount -t tmpfs tpcsweep /run && mkdir /run/netns && unshare --net ip link set lo up"

_libc = ctypes.CDLL(None, use_errno=True)


class Kernel(NamedTuple):
    """What a kernel, or a container's maker, says of namespaces that users make; None where a setting is not there."""

    has_users: bool = True
    """Whether it has user namespaces at all."""
    limits: tuple[tuple[str, int], ...] = ()
    """How many there may be by the sysctl's name."""
    clone: int | None = None
    """kernel.unprivileged_userns_clone, of Debian's and Arch's kernels."""
    apparmor: int | None = None
    """kernel.apparmor_restrict_unprivileged_userns, of Ubuntu's."""
    seccomp: bool = False
    """Whether system calls of this process are filtered, as a container's are."""


def is_alone() -> bool:
    """Whether this process may have the rights of one user only, as in a user namespace of an ordinary user's."""
    return sum(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines()) == 1


def refusal() -> str:
    """Why an ordinary user cannot have what `enter` makes, and what to do; "" where he can. It is tried: some 20 ms."""
    look_in_sbin()
    if not shutil.which("unshare"):
        return "unshare is missing: an administrator installs util-linux"
    kinds = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
    tried = subprocess.run(
        ["unshare", *kinds, "sh", "-c", _TRIAL],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return explained(tried.stderr.strip(), kernel()) if tried.returncode else ""


def kernel() -> Kernel:
    """Read what this kernel says."""
    names = [f"user.max_{'mnt' if kind == 'mount' else kind}_namespaces" for kind in NEEDED]
    limits = [(name, value) for name in names if (value := _sysctl(name)) is not None]
    status = Path("/proc/self/status").read_text()
    return Kernel(
        has_users=Path("/proc/self/ns/user").exists(),
        limits=tuple(limits),
        clone=_sysctl("kernel.unprivileged_userns_clone"),
        apparmor=_sysctl("kernel.apparmor_restrict_unprivileged_userns"),
        seccomp="Seccomp:\t2" in status,
    )


def explained(said: str, settings: Kernel) -> str:
    """Say why namespaces were refused, and what to do.

    Args:
        said: the words of the program that was refused.
        settings: what may have been the reason.
    """
    why = []
    if not settings.has_users:
        why.append("the kernel has no user namespaces (CONFIG_USER_NS): take another one")
    why += [
        f"sysctl {name} is 0: as root, sysctl -w {name}=10000" for name, most in settings.limits if most == 0
    ]
    for name, value, good in (
        ("kernel.unprivileged_userns_clone", settings.clone, 1),
        ("kernel.apparmor_restrict_unprivileged_userns", settings.apparmor, 0),
    ):
        if value is not None and value != good:
            why.append(f"sysctl {name} is {value}: as root, sysctl -w {name}={good}")
    if settings.seccomp:
        why.append(
            "a seccomp filter is on this process, as on a container's: "
            "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined, "
            "or podman run --security-opt seccomp=unconfined --security-opt unmask=ALL"
        )
    return f"{'; '.join(why) or 'no setting that is known forbids it'} ({said or 'refused without a word'})"


def enter() -> None:
    """Go on as root of namespaces of this process's own, in a child of it; see the module's text.

    Where cgroups are delegated to this process, or systemd does it when asked, they are at the usual place; elsewhere
    groups are plain ones (`cgroups.PLAIN`). It comes first in a script: the caller has one thread (user_namespaces(7)),
    and what it has open stays open in the child. Call it only where there is no `refusal`.

    Raises:
        OSError: where something of it is refused.
    """
    look_in_sbin()
    group = _own_group()
    outside = {"setgroups": "deny", "uid_map": f"0 {os.geteuid()} 1", "gid_map": f"0 {os.getegid()} 1"}
    _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID), "unshare")
    for name, text in outside.items():
        Path(f"/proc/self/{name}").write_text(text)
    end, ours = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    first = os.fork()
    if first == 0:
        _be_the_first(end)
    os.close(end)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    child = os.fork()
    if child:
        _pass_on(child, first, ours)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    os.close(ours)
    _mounts(group)


def _sysctl(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", *name.split(".")).read_text())
    except (OSError, ValueError):
        return None


def _own_group() -> Path | None:
    """The cgroup in which others may be made; asks systemd for one, which begins the program once more, in there."""
    if not (group := delegation.delegated()):
        if _SCOPE in os.environ or delegation.refusal():
            return None
        command = [*delegation.SYSTEMD, sys.executable, *sys.orig_argv[1:]]
        os.execvpe(command[0], command, {**delegation.environment(), _SCOPE: "asked for"})  # noqa: S606
    # A group that gives controllers to others has no process itself.
    own = group / "tpcsweep-job"
    own.mkdir(exist_ok=True)
    (own / "cgroup.procs").write_text("0")
    return group


def _be_the_first(end: int) -> NoReturn:
    """Be the first process of the PID namespace: it takes what is left of others, and ends with the one outside."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whose parents have ended are nobody's to wait for
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(end, 0)
        os.dup2(null, 1)
        os.execvp("cat", ["cat"])  # noqa: S606
    finally:
        os._exit(1)


def _pass_on(child: int, first: int, ours: int) -> NoReturn:
    """Be the one outside: hand over what asks this process to end, and end as the child does."""
    for number in ENDING:
        signal.signal(number, lambda number, _: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(ours)
    os.waitpid(first, 0)  # the kernel has ended all others by then
    os._exit(code if code >= 0 else 128 - code)


def _mounts(group: Path | None) -> None:
    """Mount what is anew: an own RUN with links to what the machine has there, /proc of the PID namespace, cgroups."""
    proc, elsewhere = Path("/proc"), ".machine"
    _mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)
    # It is put together where another mount follows, as what is mounted over RUN hides what was there.
    _mount("tpcsweep", proc, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    (proc / elsewhere).mkdir()
    _mount(str(RUN), proc / elsewhere, "", _MS_BIND | _MS_REC)
    _mount(str(proc), RUN, "", _MS_MOVE)
    _mount("proc", proc, "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for entry in (RUN / elsewhere).iterdir():
        if entry.name not in OURS:
            (RUN / entry.name).symlink_to(Path(elsewhere, entry.name))
    (RUN / "netns").mkdir()
    if group:
        # At the place of the whole hierarchy, so that the group is all that there is of it.
        _mount(str(group), delegation.mounted() or group, "", _MS_BIND)
    else:
        cgroups.PLAIN.mkdir()


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    answer = _libc.mount(
        source.encode(), bytes(target), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    _checked(answer, str(target))


def _checked(answer: int, what: str) -> None:
    if answer != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
