# SPDX-License-Identifier: Apache-2.0
"""The needs of the netns testbed on this machine, and the emulator of its paths."""

from __future__ import annotations

import fcntl
import os
import pwd
import resource
import shutil
from collections.abc import Iterable
from pathlib import Path

from tpcsweep import processes
from tpcsweep.extras import missing
from tpcsweep.linux import cgroups, rootless
from tpcsweep.paths import Emulator, PathError, netem_works
from tpcsweep.testbeds.netns.servers import USER
from tpcsweep.tools import TOOLS

PROGRAMS = {
    "xrootd-server": ("xrootd", "cmsd"),
    "gfal2-util-scripts": ("gfal-copy",),
    "curl": ("curl",),
    "xrootd-client": ("xrdcp",),
    "davix": ("davix-put", "davix-get"),
    "iperf3": ("iperf3",),
    "iproute2": ("ip", "tc", "ss"),
    "ethtool": ("ethtool",),
    "iputils-ping": ("ping",),
    "procps": ("sysctl",),
    "openssl": ("openssl",),
    "util-linux": ("nsenter", "setpriv"),
    "mount": ("mount",),
    "gcc": ("cc",),
}
"""Programs of a deployment by their Debian packages, without those of extras."""
TUN = Path("/dev/net/tun")
TUNGETFEATURES = 0x800454CF
"""A question that tun alone answers (linux/if_tun.h)."""


class MachineError(Exception):
    """The machine lacks something; the message names it, and the remedy."""


def enter() -> None:
    """Move an ordinary user's process to namespaces of its own, in which it may deploy.

    Must come before any thread starts. If namespaces are refused, nothing happens, and `require` raises the reason.
    """
    if os.geteuid() != 0 and not rootless.refusal():
        rootless.enter_namespaces()


def require_machine(tools: Iterable[str] = ()) -> None:
    """Raise MachineError with everything that keeps deployments for some tools from coming up here."""
    if problems := [*_problems(), *missing({extra for tool in tools if (extra := TOOLS[tool].extra)})]:
        raise MachineError("\n- ".join(["the netns testbed cannot run on this machine:", *problems]))


def _problems() -> Iterable[str]:
    if refused := rootless.refusal():
        yield f"it makes network namespaces, which takes root or user namespaces, and these are refused: {refused}"
    path = processes.system()["PATH"]
    needed = [(name, package) for package, names in PROGRAMS.items() for name in names]
    if missing := {name: package for name, package in needed if not shutil.which(name, path=path)}:
        packages = " ".join(sorted(set(missing.values())))
        programs = ", ".join(missing)
        yield f"programs are missing: {programs}; as root run `make setup`, or apt-get install {packages}"
    elif emulator() == "delayline" and (lacks := _tun()):
        yield f"the kernel has no sch_netem, and {TUN} for the delay line that replaces it {lacks}"
    if os.geteuid() == 0:  # others do without
        try:
            cgroups.hierarchy().group(f"tpc-trial-{os.getpid()}").create().remove()
        except cgroups.CgroupError as error:
            yield str(error)
    if (most := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < 1024:  # the usual limit
        yield f"a process may open no more than {most} files: ulimit -n 1024, or more for many streams"
    try:
        pwd.getpwnam(USER)
    except KeyError:
        yield f"there is no user {USER}, as which XRootD runs: as root useradd --system {USER}"


def _tun() -> str:
    try:
        with os.fdopen(os.open(TUN, os.O_RDWR)) as device:  # one without its driver may exist
            fcntl.ioctl(device, TUNGETFEATURES, bytes(4))  # and a file or another device may have its name
    except OSError as error:
        remedy = f"modprobe tun and chmod 666 {TUN}, as udev makes it (container: pass the device in)"
        return f"is of no use ({error.strerror}): as root modprobe sch_netem, or {remedy}"
    return ""


def emulator() -> Emulator:
    """Return the emulator of paths. netem counts as absent if it cannot be tried."""
    try:
        return "netem" if netem_works() else "delayline"
    except (PathError, FileNotFoundError):
        return "delayline"
