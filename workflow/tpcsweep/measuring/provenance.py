# SPDX-License-Identifier: Apache-2.0
"""Provenance of a measurement: the machine, its software and this project's version, as found.

Standard library only, because pods import it.
"""

import contextlib
import os
import platform
import socket
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from tpcsweep.common import processes
from tpcsweep.common.installation import CHECKOUT
from tpcsweep.data.cell_result import Provenance
from tpcsweep.deploying.xrootd.server_config import LIMITS
from tpcsweep.measuring import host_state
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import package_versions


def machine() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "cpu": host_state.cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": host_state.memory(),
    }


def settings() -> dict[str, Any]:
    """Return the state of this machine without the figures of `machine`, as far as a container sees it."""
    known = machine()
    return {name: value for name, value in host_state.state().items() if name not in known}


def software(tools: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed `tools`; servers report their own (`Release.describe`)."""
    versions = package_versions("iproute2")
    for tool in tools:
        versions |= TOOLS[tool].versions()
    return versions


def workflow(site: Mapping[str, Any]) -> Provenance:
    """Return a site's provenance with this project's commit and software."""
    servers = {"xrootd": site["xrootd"]["version"]} if "xrootd" in site else {}
    limits = {"xrootd": {**site["xrootd"], "limits": LIMITS}} if servers else {}
    ours = {name: version(name) for name in ("tpcsweep", "snakemake")}
    software = {**servers, **site["software"], "python": platform.python_version(), **ours}
    return cast(Provenance, {**site, **limits, "commit": commit(), "software": software})


def verification(tool: str, checksum: str) -> dict[str, Any]:
    """Return which checksum of each file is compared by whom, for the provenance of a cell; {} for none."""
    computing = ["client" if TOOLS[tool].place == "source" else "source", "destination"]
    by = {"algorithm": checksum, "computed_by": computing, "compared_by": "client"}
    return {} if checksum == "none" else {"checksum": by}


@cache
def commit() -> str:
    """Return this project's commit, with "+changes" if modified, or the image's commit; "" if unknown."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        if CHECKOUT:
            top, head = _git(CHECKOUT, "rev-parse", "--show-toplevel", "HEAD").splitlines()
            if CHECKOUT.samefile(top):  # not an unpacked archive within another repository
                changed = _git(CHECKOUT, "status", "--porcelain", "--untracked-files=no")
                return head + ("+changes" if changed else "")
    return os.environ.get("TPCSWEEP_COMMIT", "")


def _git(folder: Path, *arguments: str) -> str:
    return processes.run(["git", "-C", str(folder), *arguments], check=True).stdout.strip()
