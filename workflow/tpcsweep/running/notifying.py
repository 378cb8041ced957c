# SPDX-License-Identifier: Apache-2.0
"""The end of a run told to a command of the user's, which may send mail, post to a chat or start what comes next."""

from __future__ import annotations

import os
import subprocess
from typing import Literal

from tpcsweep.configuration.loading import Configuration
from tpcsweep.files import is_file
from tpcsweep.running import status

Ending = Literal["complete", "incomplete", "failed"]
"""How a run ended: well; well, but for cells that could not be measured; or with a job that failed."""


def notify(configuration: Configuration, ending: Ending) -> str:
    """Run the command that the configuration names, if any; what to say where it failed.

    It has the run's standard output and error, no input, and what happened in its environment: see `environment`.
    """
    command = configuration.run.notify
    if not command:
        return ""
    told = {**os.environ, **environment(configuration, ending)}
    # A shell, as it is the user's own line, with the user's own rights.
    code = subprocess.run(command, shell=True, env=told, stdin=subprocess.DEVNULL, check=False).returncode  # noqa: S602
    if not code:
        return ""
    return f"notify: {command!r} ended with status {code}; that changes nothing of the run"


def environment(configuration: Configuration, ending: Ending) -> dict[str, str]:
    """Say a run's end in variables: its sweep, testbed and ending, counts of cells, folder, and page if it has one."""
    counts = status.counted(configuration)
    page = (configuration.folder / "index.html").absolute()
    return {
        "TPCSWEEP_SWEEP": configuration.name,
        "TPCSWEEP_TESTBED": configuration.testbed_name,
        "TPCSWEEP_STATUS": ending,
        "TPCSWEEP_CELLS": str(counts.cells),
        "TPCSWEEP_MEASURED": str(counts.measured),
        "TPCSWEEP_FLAGGED": str(counts.flagged),
        "TPCSWEEP_FAILED": str(counts.failed),
        "TPCSWEEP_NOT_MEASURED": str(len(counts.not_measured)),
        "TPCSWEEP_LEFT": str(len(counts.left)),
        "TPCSWEEP_RESULTS": str(configuration.folder.absolute()),
        "TPCSWEEP_PAGE": str(page) if is_file(page) else "",
    }
