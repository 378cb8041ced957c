# SPDX-License-Identifier: Apache-2.0
"""What this machine lacks for the netns testbed, and how its paths are made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tpcsweep.extras import missing
from tpcsweep.linux import cgroups
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


def require(tools: Iterable[str] = ()) -> None:
    """Raise MachineError with everything that keeps deployments for some tools from coming up here."""
    if problems := [*_problems(), *missing({extra for tool in tools if (extra := TOOLS[tool].extra)})]:
        raise MachineError("\n- ".join(["the netns testbed cannot run on this machine:", *problems]))


def _problems() -> Iterable[str]:
    if os.geteuid() != 0:
        yield "it makes network namespaces and cgroups, which takes root: run it as root"
        return
    missing = [
        (package, name) for package, names in PROGRAMS.items() for name in names if not shutil.which(name)
    ]
    if missing:
        packages = " ".join(sorted({package for package, _ in missing}))
        names = ", ".join(name for _, name in missing)
        yield f"programs are missing: {names}; run `make setup`, or apt-get install {packages}"
    elif emulator() == "delayline" and not TUN.exists():
        yield (
            f"the kernel has no sch_netem, and {TUN} for the delay line that replaces it does not exist: "
            "modprobe sch_netem, or modprobe tun (in a container: pass the device in)"
        )
    try:
        cgroups.hierarchy()
    except cgroups.CgroupError as error:
        yield str(error)


def emulator() -> Emulator:
    """Say how paths are made here. Without root netem cannot be tried, and counts as absent."""
    try:
        return "netem" if os.geteuid() == 0 and netem_works() else "delayline"
    except PathError:
        return "delayline"


if __name__ == "__main__":
    try:
        require()
    except MachineError as error:
        raise SystemExit(str(error)) from None
