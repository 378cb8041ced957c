# SPDX-License-Identifier: Apache-2.0
"""Snakemake's logger plugin `tpcsweep`: the terminal shows errors and warnings, Snakemake's log file everything."""

from __future__ import annotations

import logging
import os
import sys
import time
from itertools import accumulate

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from tpcsweep.common.signals import STOPPED

_SHORT = {LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR}
_KNOWN = (
    *("RuleException", "Cannot restore ", "WorkflowError:\nAt least one job did not complete"),
    "Warning: the following output files of rule page were not present",
)
"""A job prints its error itself, what it measured is in staging, and rule `first_page` makes the first page."""
_STAGES = {
    "dataset": "dataset",
    "first_page": "first page",
    "surface": "figures",
    "fits": "models, which take longest",
    "page": "page",
}
"""Rules after the last cell, which print nothing themselves."""
_STOPPING = {
    "Terminating processes on user request": "stopping",
    "Will exit after finishing currently running jobs": "stopping after the jobs under way; Ctrl-C stops at once",
}
"""Snakemake's messages after Ctrl-C and after SIGTERM, and those of the terminal."""
_WIDEST = 160  # letters of a line of a dry run, which otherwise names thousands of files


class LogHandler(LogHandlerBase):
    """Writes to standard error. Dry runs and runs that ask for more (--verbose, --printshellcmds) are not shortened."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = False
    has_formatter = False
    needs_rulegraph = False

    def __post_init__(self) -> None:
        self._began: dict[int, tuple[str, float]] = {}  # stages under way by the numbers of their jobs
        self._stopped = False  # jobs that end then have not failed

    def emit(self, record: logging.LogRecord) -> None:
        text = self._text(record)
        if text:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def _text(self, record: logging.LogRecord) -> str:
        asked = self.common_settings
        if asked.verbose or asked.debug_dag or asked.printshellcmds:
            return self.format(record)
        if asked.dryrun:
            return "\n".join(map(_shortened, self.format(record).split("\n")))
        event, about = getattr(record, "event", None), record.__dict__
        if event == LogEvent.JOB_INFO and (stage := _STAGES.get(about.get("rule_name", ""))):
            name = f"{about['wildcards']['study']}: {stage}"
            self._began[about["jobid"]] = name, time.monotonic()
            return f"{name} …"
        if event == LogEvent.JOB_FINISHED and about["job_id"] in self._began:
            name, began = self._began.pop(about["job_id"])
            return f"{name.partition(',')[0]}: {time.monotonic() - began:.0f} s"
        if event in _SHORT:
            if self._stopped:
                return ""
            listed = [*(getattr(record, name, None) or () for name in ("log", "aux_logs"))]
            logs = ", ".join(str(log) for each in listed for log in each if log)
            return f"{getattr(record, 'rule_name', 'a job')} failed" + (f"; log: {logs}" if logs else "")
        text = record.getMessage()
        if stopping := next((line for start, line in _STOPPING.items() if text.startswith(start)), ""):
            first, self._stopped = not self._stopped, True
            os.environ[STOPPED] = "by its user"
            return stopping if first else ""
        news = record.levelno >= logging.WARNING and not text.startswith(_KNOWN)
        return self.format(record) if news or text.startswith("Nothing to be done") else ""


def _shortened(line: str) -> str:
    """Return a line of a dry run with the first files of a long list and the number of the others."""
    if len(line) <= _WIDEST or not line.startswith("    "):
        return line
    files = line.split(", ")
    kept = max(1, sum(length <= _WIDEST for length in accumulate(len(file) + 2 for file in files)))
    return ", ".join([*files[:kept], *([f"… and {len(files) - kept} more"] if kept < len(files) else [])])
