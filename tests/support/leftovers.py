# SPDX-License-Identifier: Apache-2.0
"""What deployments put on a machine, so that a test can tell whether anything of it has stayed."""

from pathlib import Path

import psutil
from tpcsweep.deploying.linux import cgroups, namespaces
from tpcsweep.testbeds.netns import ownership
from tpcsweep.testbeds.netns.settings import DISK

PATHS = "tpc-t"
"""What the names of namespaces begin with that tests of paths make, which need not have the machine to themselves."""
DELAY_LINE = "tpc-delayline"  # the one program of a deployment that is in no namespace of it
PROGRAMS = {"xrootd", "cmsd", "gfal-copy", "iperf3", "globus-gridftp-", "xrdcp", "davix-put"}


def present() -> dict[str, set[str]]:
    """Namespaces, cgroups, mounts, folders and processes that a deployment could have made."""
    mounts = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    return {
        "namespaces": {path.name for path in namespaces.FOLDER.glob("*") if not path.name.startswith(PATHS)},
        "cgroups": {group.name for group in cgroups.cgroups_with_prefix(cgroups.hierarchy(), "tpc-")},
        "mounts": {mount for mount in mounts if mount.startswith(str(ownership.STATE))},
        "folders": {str(path) for path in ownership.leftovers()},
        "files": {str(path) for path in Path(DISK).glob("*")},
        "processes": set(filter(None, map(_ours, psutil.process_iter()))),
    }


def stayed(before: dict[str, set[str]]) -> dict[str, set[str]]:
    added = {what: names - before[what] for what, names in present().items()}
    return {what: names for what, names in added.items() if names}


def _ours(process: psutil.Process) -> str | None:
    """What a process of a deployment is called; None: another's, or it has ended while it was looked at."""
    try:
        name, command = process.name(), process.cmdline()
        ended = process.status() == psutil.STATUS_ZOMBIE
        here = _namespace(process.pid, "pid") == _namespace("self", "pid")
        inside = _namespace(process.pid, "net") != _namespace("self", "net")
    except (psutil.Error, OSError):
        return None
    if ended or not here:  # of a container or of a cluster next to the test
        return None
    if name.startswith(DELAY_LINE) and not any(word.startswith(PATHS) for word in command):
        return f"{process.pid} {name}"
    if not inside:  # of another test, next to this one
        return None
    ours = (
        name in PROGRAMS
        or "tpcsweep.measuring.client" in command
        or any("gfal-copy" in word or "tpcsweep.measuring.tools import" in word for word in command[:4])
    )
    return f"{process.pid} {name}" if ours else None


def _namespace(pid: int | str, kind: str) -> Path:
    return Path(f"/proc/{pid}/ns/{kind}").readlink()
