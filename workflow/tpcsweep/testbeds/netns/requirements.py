# SPDX-License-Identifier: Apache-2.0
"""The netns testbed: real servers and tools in network namespaces of one Linux machine.

This module has its requirements on the machine, and the emulator of its paths.
"""

import errno
import fcntl
import os
import pwd
import resource
import shutil
from collections.abc import Iterable
from pathlib import Path

from tpcsweep.common import processes
from tpcsweep.common.extras import missing_extras
from tpcsweep.deploying.linux import cgroups, rootless
from tpcsweep.deploying.paths.link import netem_works
from tpcsweep.deploying.paths.network_path import Emulator, PathError
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.testbeds.netns.namespace_servers import USER

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
"""Programs that deployments need, by Debian package, without those of extras."""
TUN = Path("/dev/net/tun")
TUNGETFEATURES = 0x800454CF  # an ioctl that only tun devices answer (linux/if_tun.h)


class MachineError(Exception):
    """The machine lacks requirements; the message names them and the fix."""


def enter() -> None:
    """Move an ordinary user's process to its own namespaces, in which it may deploy.

    Call it before any thread starts. It does nothing if namespaces are refused; `require` then raises the reason.
    """
    if os.geteuid() != 0 and not rootless.namespace_refusal():
        rootless.enter_namespaces()


def require_machine(tools: Iterable[str] = ()) -> None:
    """Raise MachineError with everything that this machine lacks for deployments with these tools."""
    if problems := [*_problems(), *missing_extras({extra for tool in tools if (extra := TOOLS[tool].extra)})]:
        raise MachineError("\n- ".join(["the netns testbed cannot run on this machine:", *problems]))


def _problems() -> Iterable[str]:
    if refused := rootless.namespace_refusal():
        yield f"network namespaces need root or user namespaces, and user namespaces are refused: {refused}"
    path = processes.system_environment()["PATH"]
    needed = [(name, package) for package, names in PROGRAMS.items() for name in names]
    if missing := {name: package for name, package in needed if not shutil.which(name, path=path)}:
        packages = " ".join(sorted(set(missing.values())))
        programs = ", ".join(missing)
        yield f"programs are missing: {programs}; as root run `make setup`, or apt-get install {packages}"
    elif emulator() == "delayline" and (lacks := _tun()):
        yield f"the kernel has no sch_netem, and {TUN} for the delay line that replaces it {lacks}"
    if os.geteuid() == 0:  # ordinary users can deploy without cgroups
        try:
            cgroups.hierarchy().group(f"tpc-trial-{os.getpid()}").create().remove()
        except cgroups.CgroupError as error:
            yield str(error)
    if (most := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < 1024:  # the default limit
        yield f"a process may open no more than {most} files: ulimit -n 1024, or more for many streams"
    try:
        pwd.getpwnam(USER)
    except KeyError:
        yield f"there is no user {USER}, as which XRootD runs: as root useradd --system {USER}"


def _tun() -> str:
    try:
        with os.fdopen(os.open(TUN, os.O_RDWR)) as device:  # the device may exist without its driver
            fcntl.ioctl(device, TUNGETFEATURES, bytes(4))  # another file or device may have its name
    except OSError as error:
        may = f"chmod 666 {TUN}, as udev makes it (container: docker run --device {TUN})"
        remedies = {
            errno.ENOENT: f"modprobe tun and {may}",
            errno.ENODEV: "modprobe tun",  # the device exists without its driver, as the next
            errno.ENXIO: "modprobe tun",
            errno.EACCES: may,
            errno.EPERM: may,
            errno.ENOTTY: f"replace it by the device: rm {TUN}, modprobe tun and {may}",
        }
        remedy = remedies.get(error.errno or 0)
        return f"cannot be used ({error.strerror}): as root modprobe sch_netem{(remedy and f', or {remedy}') or ''}"
    return ""


def emulator() -> Emulator:
    """Return the emulator of paths. netem counts as missing if the test of it fails."""
    try:
        return "netem" if netem_works() else "delayline"
    except (PathError, FileNotFoundError):
        return "delayline"
