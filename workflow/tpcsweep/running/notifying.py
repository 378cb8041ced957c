# SPDX-License-Identifier: Apache-2.0
"""The user's command for the end of a run, which may send mail or post to a chat."""

from __future__ import annotations

import os
import subprocess
from typing import Literal

from tpcsweep.configuration.loading import Configuration
from tpcsweep.files import is_file
from tpcsweep.running.status import Status

Ending = Literal["complete", "incomplete", "failed"]
"""The end of a run: all cells measured, some not measured, or a job failed."""


def notify(study: Configuration, command: str, ending: Ending, counts: Status) -> str:
    """Run the user's command for the end of a run, if any; return a message if it fails.

    It shares standard output and error with the run, has no input, and finds the ending in its environment.
    """
    if not command:
        return ""
    told = {**os.environ, **environment(study, ending, counts)}
    # A shell, as it is the user's own line, with the user's own rights.
    code = subprocess.run(command, shell=True, env=told, stdin=subprocess.DEVNULL, check=False).returncode  # noqa: S602
    if not code:
        return ""
    return f"notify: {command!r} ended with status {code}; the run is not affected"


def environment(study: Configuration, ending: Ending, counts: Status) -> dict[str, str]:
    """Return the variables that describe a run: sweep, testbed, ending, counts of cells, folder, and page if any."""
    page = (study.folder / "index.html").absolute()
    return {
        "TPCSWEEP_SWEEP": study.name,
        "TPCSWEEP_TESTBED": study.testbed_name,
        "TPCSWEEP_STATUS": ending,
        "TPCSWEEP_CELLS": str(counts.cells),
        "TPCSWEEP_MEASURED": str(counts.measured),
        "TPCSWEEP_FLAGGED": str(counts.flagged),
        "TPCSWEEP_FAILED": str(counts.failed),
        "TPCSWEEP_NOT_MEASURED": str(counts.not_measured),
        "TPCSWEEP_LEFT": str(counts.left),
        "TPCSWEEP_RESULTS": str(study.folder.absolute()),
        "TPCSWEEP_PAGE": str(page) if is_file(page) else "",
    }
