# SPDX-License-Identifier: Apache-2.0
"""Provenance of a measurement: the machine, its software and this project's version, as found.

Standard library only, because pods import it.
"""

import os
import platform
import socket
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tpcsweep import processes
from tpcsweep.tools import TOOLS
from tpcsweep.tools.base import package_versions

ROOT = Path(__file__).resolve().parents[3]


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "cpu": next(models, platform.machine()),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }


def software(tools: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed `tools`; servers report their own (`Release.describe`)."""
    versions = package_versions("iproute2")
    for tool in tools:
        versions |= TOOLS[tool].versions()
    return versions


def workflow(site: Mapping[str, Any]) -> dict[str, Any]:
    """Return a site's provenance with this project's commit and software."""
    servers = {"xrootd": site["xrootd"]["version"]} if "xrootd" in site else {}
    ours = {name: version(name) for name in ("tpcsweep", "snakemake")}
    software = {**servers, **site["software"], "python": platform.python_version(), **ours}
    return {**site, "commit": commit(), "software": software}


@cache
def commit() -> str:
    """Return this project's commit, with "+changes" if modified, or the image's commit; "" if unknown."""
    try:
        top, head = _git("rev-parse", "--show-toplevel", "HEAD").splitlines()
        if not ROOT.samefile(top):  # installed in an environment within another repository
            raise FileNotFoundError(ROOT / ".git")
        return head + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("TPCSWEEP_COMMIT", "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return processes.run(command, check=True).stdout.strip()
