# SPDX-License-Identifier: Apache-2.0
"""Snakemake's logger plugin `tpcsweep`: the terminal shows errors and warnings, Snakemake's log file everything."""

from __future__ import annotations

import logging
import sys

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

_SHORT = {LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR}
_KNOWN = ("RuleException", "Cannot restore ", "WorkflowError:\nAt least one job did not complete")
"""A job prints its error itself, and what it measured is in staging."""
_STEPS = {
    "dataset": "making the dataset",
    "surface": "drawing the figures",
    "fits": "fitting the models, which takes longest",
    "page": "making the page",
}
"""Rules after the last cell, which print nothing themselves."""


class LogHandler(LogHandlerBase):
    """Writes to standard error. Dry runs and runs that ask for more (--verbose, --printshellcmds) are not shortened."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = False
    has_formatter = False
    needs_rulegraph = False
    _stopped = False  # by Ctrl-C: jobs that end then have not failed

    def emit(self, record: logging.LogRecord) -> None:
        text = self._text(record)
        if text:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def _text(self, record: logging.LogRecord) -> str:
        asked = self.common_settings
        if asked.dryrun or asked.verbose or asked.debug_dag or asked.printshellcmds:
            return self.format(record)
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO and (step := _STEPS.get(getattr(record, "rule_name", ""))):
            return f"{record.__dict__['wildcards']['study']}: {step}"
        if event in _SHORT:
            if self._stopped:
                return ""
            listed = [*(getattr(record, name, None) or () for name in ("log", "aux_logs"))]
            logs = ", ".join(str(log) for each in listed for log in each if log)
            return f"{getattr(record, 'rule_name', 'a job')} failed" + (f"; log: {logs}" if logs else "")
        text = record.getMessage()
        self._stopped |= text.startswith("Terminating processes on user request")
        news = record.levelno >= logging.WARNING and not text.startswith(_KNOWN)
        return self.format(record) if news or text.startswith("Nothing to be done") else ""
