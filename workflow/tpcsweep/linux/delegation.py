# SPDX-License-Identifier: Apache-2.0
"""Cgroups that an ordinary user may make: below one that is delegated to him, of version 2.

systemd delegates: the manager of a user gives a scope of its own to a program that is begun so (SYSTEMD), and removes
it with all groups in it when its last process has ended. Sources: systemd.resource-control(5), Delegate=;
cgroup-v2.rst, Delegation.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

SYSTEMD = ("systemd-run", "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--")
"""Begins a program in a group that is delegated to it; it is that program then, as no process is between."""


class Facts(NamedTuple):
    """What there is for a user's groups."""

    version_2: bool
    """Whether a hierarchy of version 2 is mounted that has the cpu controller."""
    program: bool
    """Whether systemd-run is installed."""
    manager: Path
    """What a systemd of the user listens on."""
    managed: bool
    """Whether it does."""
    controllers: tuple[str, ...]
    """What the system's systemd has delegated to it."""


def delegated() -> Path | None:
    """Give the group that this process has to itself, in which it may make others with quotas; None: it has none."""
    mount = mounted()
    path = next(
        (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"), ""
    )
    if not mount or not path:
        return None
    group = mount / path.strip("/")
    try:
        alone = (group / "cgroup.procs").read_text().split() == [str(os.getpid())]
        able = "cpu" in (group / "cgroup.controllers").read_text().split()
    except OSError:
        return None
    written = (group, group / "cgroup.procs", group / "cgroup.subtree_control")
    return group if alone and able and all(os.access(path, os.W_OK) for path in written) else None


def environment() -> dict[str, str]:
    """Give this process's environment, in which `systemd-run` finds the user's systemd; cron's has not all of it."""
    return {**os.environ, "XDG_RUNTIME_DIR": str(_runtime())}


def refusal(facts: Facts | None = None) -> str:
    """Why this user's programs cannot have CPU quotas, and what to do; "" where systemd delegates a group to them."""
    facts = facts or _facts()
    if not facts.version_2:
        return (
            "the cpu controller is not in a cgroup hierarchy of version 2, the one that can be delegated: "
            "boot with systemd.unified_cgroup_hierarchy=1"
        )
    if not facts.program:
        return "systemd-run is missing, by which systemd delegates a cgroup"
    if not facts.managed:
        return (
            f"no systemd of this user's listens on {facts.manager}: log in (ssh, console) rather than by su, "
            "or as root: loginctl enable-linger USER"
        )
    if "cpu" not in facts.controllers:
        return (
            "systemd delegates no cpu controller to users: as root put [Service] and Delegate=cpu pids memory into "
            "/etc/systemd/system/user@.service.d/delegate.conf, systemctl daemon-reload, and log in again"
        )
    return ""


def _facts() -> Facts:
    mount, manager, user = mounted(), _runtime() / "systemd/private", os.getuid()
    own = (mount or Path()) / f"user.slice/user-{user}.slice/user@{user}.service/cgroup.controllers"
    return Facts(
        version_2=mount is not None,
        program=shutil.which(SYSTEMD[0]) is not None,
        manager=manager,
        managed=manager.exists(),
        controllers=tuple(own.read_text().split()) if own.exists() else (),
    )


def mounted() -> Path | None:
    """Give where version 2 with the cpu controller is mounted; None where it is not."""
    rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in (Path(row[1]) for row in rows if row[2] == "cgroup2"):
        controllers = place / "cgroup.controllers"
        if controllers.exists() and "cpu" in controllers.read_text().split():
            return place
    return None


def _runtime() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
