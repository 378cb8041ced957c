# SPDX-License-Identifier: Apache-2.0
"""Where the logs of deployments are, and what their servers said last: for who reads of a test that has failed."""

import json
from pathlib import Path

from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.testbeds.netns import ownership

COMMANDS = "commands.log"
LINES = 8
DEPLOYMENTS = 3


def told(below: Path) -> str:
    """The folders in which deployments have logged, and the ends of the logs in the latest; "" of none."""
    written = {path.parent: path.stat().st_mtime for path in below.rglob(COMMANDS)}
    folders = sorted(written, key=written.__getitem__)
    if not folders:
        return ""
    return "\n".join([*(f"kept in {folder}" for folder in folders[-DEPLOYMENTS:]), *_ends(folders[-1])])


def _ends(folder: Path) -> list[str]:
    """Of the commands and of every server; those of a deployment that is up are where its servers write them."""
    running = [
        path for up in ownership.leftovers() if _logs(up) == folder for path in up.glob("nodes/*/*.log")
    ]
    logs = {path.name: path for path in [*folder.glob("*.log"), *running]}
    lines = []
    for name, path in sorted(logs.items()):
        said = xrootd.without_secrets(path.read_text(errors="replace")).splitlines()[-LINES:]
        lines += [f"--- {name}", *said] if said else []
    return lines


def _logs(deployment: Path) -> Path | None:
    try:
        return Path(json.loads((deployment / "owner.json").read_text())["logs"])
    except (OSError, ValueError, TypeError, KeyError):  # tests write what is no owner's
        return None
