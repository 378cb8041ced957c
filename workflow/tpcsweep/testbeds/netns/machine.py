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
    "xrootd": "xrootd-server",
    "cmsd": "xrootd-server",
    "gfal-copy": "gfal2-util-scripts",
    "curl": "curl",
    "xrdcp": "xrootd-client",
    "davix-put": "davix",
    "davix-get": "davix",
    "iperf3": "iperf3",
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "ethtool": "ethtool",
    "ping": "iputils-ping",
    "sysctl": "procps",
    "openssl": "openssl",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "cc": "gcc",
}
"""Programs that a deployment runs, and the Debian packages that hold them; those of extras are not among them."""

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
    missing = {program: package for program, package in PROGRAMS.items() if not shutil.which(program)}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        yield f"programs are missing: {', '.join(missing)}; run `make setup`, or apt-get install {packages}"
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
