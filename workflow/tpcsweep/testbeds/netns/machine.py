# SPDX-License-Identifier: Apache-2.0
"""What this machine lacks for the netns testbed, and how its paths are made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tpcsweep.extras import missing
from tpcsweep.linux import cgroups, rootless
from tpcsweep.linux.commands import look_in_sbin
from tpcsweep.paths import Emulator, PathError, netem_works
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
"""Programs that a deployment runs, by the Debian packages that hold them; those of extras are not among them."""

TUN = Path("/dev/net/tun")


class MachineError(Exception):
    """The machine lacks something; the message says what, and what to do."""


def enter() -> None:
    """Go on where deployments may be made: an ordinary user's process, in namespaces of its own.

    It comes before what starts threads. Where it is refused nothing is done: what a deployment lacks `require` says.

    Raises:
        OSError: where something is refused that was granted a moment before.
    """
    if os.geteuid() != 0 and not rootless.refusal():
        rootless.enter()


def require(tools: Iterable[str] = ()) -> None:
    """Raise MachineError with everything that keeps deployments for some tools from coming up here."""
    if problems := [*_problems(), *missing({extra for tool in tools if (extra := TOOLS[tool].extra)})]:
        raise MachineError("\n- ".join(["the netns testbed cannot run on this machine:", *problems]))


def _problems() -> Iterable[str]:
    look_in_sbin()
    if os.geteuid() != 0 and (refused := rootless.refusal()):
        yield f"it makes network namespaces, which takes root or user namespaces, and these are refused: {refused}"
    missing = [
        (package, name) for package, names in PROGRAMS.items() for name in names if not shutil.which(name)
    ]
    if missing:
        packages = " ".join(sorted({package for package, _ in missing}))
        names = ", ".join(name for _, name in missing)
        yield f"programs are missing: {names}; as root run `make setup`, or apt-get install {packages}"
    elif emulator() == "delayline" and (lacks := _tun()):
        yield f"the kernel has no sch_netem, and {TUN} for the delay line that replaces it {lacks}"
    try:
        cgroups.hierarchy()
    except cgroups.CgroupError as error:
        if os.geteuid() == 0:  # others do without
            yield str(error)


def _tun() -> str:
    """What keeps this user from the device of the delay line, and what to do."""
    if not TUN.exists():
        return (
            "does not exist: as root modprobe sch_netem, or modprobe tun (in a container: pass the device in)"
        )
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"may not be opened by this user: as root modprobe sch_netem, or chmod 666 {TUN}, as udev makes it"
    return ""


def emulator() -> Emulator:
    """Say how paths are made here. Where netem cannot be tried it counts as absent."""
    look_in_sbin()
    try:
        return "netem" if netem_works() else "delayline"
    except PathError:
        return "delayline"


if __name__ == "__main__":
    try:
        require()
    except MachineError as error:
        raise SystemExit(str(error)) from None
