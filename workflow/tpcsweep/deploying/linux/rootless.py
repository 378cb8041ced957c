# SPDX-License-Identifier: Apache-2.0
"""Namespaces of an ordinary user, who is root in them; nothing outlives the process that made them.

Three processes take part. The caller of `enter_namespaces` stays outside: it forwards signals that request its end, and
ends with the program. `cat` is the first process of a PID namespace: it reads a pipe whose other end the outer process
holds, and all processes of the namespace end with it, even by kill -9 (pid_namespaces(7)). The program continues in the
third process. The namespaces, their mounts and networks disappear with the last process.

Only PIDs, mounts and users are separate. The network remains the machine's, because releases of XRootD may have to be
fetched, and one lock serializes the sweeps of all users.

Quotas need a delegated cgroup of version 2. A user's systemd gives a program that is started with SYSTEMD a scope of
its own, and removes it with all groups in it after its last process. Sources: systemd.resource-control(5), Delegate=;
cgroup-v2.rst, Delegation.
"""

import ctypes
import errno
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import NoReturn

from tpcsweep.common import processes
from tpcsweep.common.signals import ENDING
from tpcsweep.deploying.linux import cgroups
from tpcsweep.deploying.linux.namespaces import check_libc, libc

SYSCTLS = {
    **{f"user.max_{kind}_namespaces": 10_000 for kind in ("user", "mnt", "pid", "net")},
    "kernel.unprivileged_userns_clone": 1,  # kernels of Debian and Arch
    "kernel.apparmor_restrict_unprivileged_userns": 0,  # Ubuntu
}
"""Settings that may forbid user namespaces, each with a value that allows them."""
SYSTEMD = ("systemd-run", "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--")
"""Prefix that starts a program in a group delegated to it; the process becomes that program."""
PROC, RUN = Path("/proc"), Path("/run")
SEPARATE_FOLDERS = ("netns", "tpcsweep")  # separate folders of RUN; all others are the machine's
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000  # linux/sched.h
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8  # linux/mount.h
_MS_BIND, _MS_MOVE, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 13, 1 << 14, 1 << 18
_SCOPE = "TPCSWEEP_SCOPE"
"""Environment variable that marks that a scope was requested, so that this happens once."""
_TRIAL = "mount -t tmpfs none /run && mkdir /run/netns && unshare --net sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'"
_USERS = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}
_RIGHTS = _USERS | {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
"""Root's capabilities that a deployment uses, with their bits (linux/capability.h)."""


def has_single_uid() -> bool:
    """Return whether this process has a single user id, as in an ordinary user's user namespace."""
    return sum(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines()) == 1


def namespace_refusal() -> str:
    """Return why the current user cannot make namespaces and mounts, or "". The trial takes 20 ms."""
    if not shutil.which("unshare"):
        return "unshare is missing: an administrator installs util-linux"
    if os.geteuid() == 0:
        if lacking := lacking_rights((PROC / "self/status").read_text()):
            return f"this root has no {', '.join(lacking)}: in a container, docker run --privileged"
        command = ["unshare", "--mount", "sh", "-c", f"touch {RUN} && {_TRIAL}"]
    else:
        kinds = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
        command = ["unshare", *kinds, "sh", "-c", _TRIAL]
    tried = processes.run(command)
    return refusal_text(tried.stderr.strip()) if tried.returncode else ""


def lacking_rights(status: str) -> list[str]:
    """Return the deployment's capabilities that a process lacks, from the text of its /proc/PID/status."""
    return [name for name, bit in _RIGHTS.items() if not int(status.split("CapEff:")[1][:17], 16) >> bit & 1]


def refusal_text(stderr: str) -> str:
    """Return why namespaces were refused, with the failed program's message, and the fix."""
    why = []
    full = os.strerror(errno.ENOSPC) in stderr  # a limit is reached, and nothing forbids namespaces as such
    if not (PROC / "self/ns/user").exists():
        why.append("the kernel has no user namespaces (CONFIG_USER_NS): take another one")
    for name, allowed in SYSCTLS.items():
        file = PROC.joinpath("sys", *name.split("."))
        if file.exists() and bool(value := int(file.read_text())) != bool(allowed):
            why.append(f"sysctl {name} is {value}: as root, sysctl -w {name}={allowed}")
        elif full and file.exists() and name.startswith("user.max_"):
            why.append(
                f"sysctl {name} allows {value}: if so many exist, as root, sysctl -w {name}={2 * value}"
            )
    if not full and "Seccomp:\t2" in (PROC / "self/status").read_text():  # as in a container
        why.append(
            "a seccomp filter is on this process, as on a container's: "
            "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined, "
            "or podman run --security-opt seccomp=unconfined --security-opt unmask=ALL"
        )
    return f"{'; '.join(why) or 'no known setting forbids it'} ({stderr or 'no message'})"


def quota_refusal() -> str:
    """Return why this user's programs cannot have CPU quotas, and the fix; "" if they can."""
    if not (mount := mounted()):
        return (
            "the cpu controller is not in a cgroup hierarchy of version 2, the one that can be delegated: "
            "boot with systemd.unified_cgroup_hierarchy=1"
        )
    if not shutil.which(SYSTEMD[0]):
        return f"{SYSTEMD[0]} is missing, by which systemd delegates a cgroup"
    if not os.access(manager := _runtime() / "systemd/private", os.W_OK):  # after su it may be another user's
        return (
            f"no systemd of this user's listens on {manager}: log in (ssh, console) rather than by su, "
            "or as root: loginctl enable-linger USER"
        )
    user = os.getuid()
    if not _has_cpu(mount / f"user.slice/user-{user}.slice/user@{user}.service"):
        return (
            "systemd delegates no cpu controller to users: as root put [Service] and Delegate=cpu pids memory into "
            "/etc/systemd/system/user@.service.d/delegate.conf, systemctl daemon-reload, and log in again"
        )
    return ""


def mounted() -> Path | None:
    """Return the mount point of cgroup version 2 with the cpu controller, or None."""
    rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return next((Path(row[1]) for row in rows if row[2] == "cgroup2" and _has_cpu(Path(row[1]))), None)


def enter_namespaces() -> None:
    """Continue in a child process as root of its own namespaces; see the module's docstring.

    If cgroups are delegated to this process, or systemd delegates them on request, they are at the usual place;
    otherwise groups are plain ones (`cgroups.PLAIN_GROUPS`). Call it first in a script, because the caller must have a
    single thread (user_namespaces(7)), and open files stay open in the child. Call it only without a
    `namespace_refusal`. Raises OSError if the kernel refuses any part.
    """
    group = _own_group()
    outside = {"setgroups": "deny", "uid_map": f"0 {os.geteuid()} 1", "gid_map": f"0 {os.getegid()} 1"}
    check_libc(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID), "unshare")
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


def _own_group() -> Path | None:
    """Return the cgroup for new groups; to get one from systemd, restart the program inside it."""
    if not (group := _delegated()):
        if _SCOPE in os.environ or quota_refusal():
            return None
        command = [*SYSTEMD, sys.executable, *sys.orig_argv[1:]]
        # cron's environment lacks the first
        changed = processes.full_environment(**{"XDG_RUNTIME_DIR": str(_runtime()), _SCOPE: "asked for"})
        os.execvpe(command[0], command, changed)  # noqa: S606
    # A group that delegates controllers must not have processes itself.
    own = group / "tpcsweep-job"
    own.mkdir(exist_ok=True)
    (own / "cgroup.procs").write_text("0")
    return group


def _delegated() -> Path | None:
    """Return the group that only this process is in, and in which it may make others with quotas, or None."""
    mount, lines = mounted(), Path("/proc/self/cgroup").read_text().splitlines()
    path = next((line[3:] for line in lines if line[:3] == "0::"), "")
    if not mount or not path:
        return None
    group = mount / path.strip("/")
    written = (group, group / "cgroup.procs", group / "cgroup.subtree_control")
    if not _has_cpu(group) or not all(os.access(path, os.W_OK) for path in written):
        return None
    alone = (group / "cgroup.procs").read_text().split() == [str(os.getpid())]
    return group if alone else None


def _has_cpu(group: Path) -> bool:
    controllers = group / "cgroup.controllers"
    return controllers.exists() and "cpu" in controllers.read_text().split()


def _runtime() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")


def _be_the_first(end: int) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap children whose parents have ended
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(end, 0)
        os.dup2(null, 1)
        os.execvpe("cat", ["cat"], processes.system_environment())  # noqa: S606
    finally:
        os._exit(1)


def _pass_on(child: int, first: int, ours: int) -> NoReturn:
    for number in ENDING:
        signal.signal(number, lambda number, _: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(ours)
    os.waitpid(first, 0)  # the kernel has ended all others by then
    os._exit(code if code >= 0 else 128 - code)


def _mounts(group: Path | None) -> None:
    """Mount RUN with links to the machine's entries, /proc of the PID namespace, and cgroups."""
    elsewhere = ".machine"
    _mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)
    # It is prepared at /proc, which is mounted over later, because mounting over RUN hides the original.
    _mount("tpcsweep", PROC, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    (PROC / elsewhere).mkdir()
    _mount(str(RUN), PROC / elsewhere, "", _MS_BIND | _MS_REC)
    _mount(str(PROC), RUN, "", _MS_MOVE)
    _mount("proc", PROC, "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for entry in (RUN / elsewhere).iterdir():
        if entry.name not in SEPARATE_FOLDERS:
            (RUN / entry.name).symlink_to(Path(elsewhere, entry.name))
    (RUN / "netns").mkdir()
    if group:
        # At the place of the whole hierarchy, so that only the group is visible.
        _mount(str(group), mounted() or group, "", _MS_BIND)
    else:
        cgroups.PLAIN_GROUPS.mkdir()


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    texts = source.encode(), bytes(target), kind.encode()
    check_libc(libc.mount(*texts, ctypes.c_ulong(flags), options.encode()), str(target))
