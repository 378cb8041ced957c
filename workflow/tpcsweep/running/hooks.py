# SPDX-License-Identifier: Apache-2.0
"""Start and end of a run: functions for the workflow's onstart, onsuccess and onerror."""

import os
import sys
from pathlib import Path
from typing import Literal

from tpcsweep.common import processes, signals
from tpcsweep.common.extras import MissingExtraError, missing_extras
from tpcsweep.common.files import is_file
from tpcsweep.common.numbers import counted
from tpcsweep.running import (
    changes,
    host_settings,
    live,
    progress,
    run_lock,
    short_cells,
    staging,
    study_dataset,
)
from tpcsweep.running.runner import deployment_errors
from tpcsweep.running.status import Status, count_cells, restoration_lines
from tpcsweep.running.studies import Studies
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.support import extras

Ending = Literal["complete", "incomplete", "failed"]
"""End of a run: all cells measured, some not measured, or a job failed."""
MOST_LINES = 3  # most lines about sweeps at the end of a run


def begin_run(studies: Studies) -> None:
    """Lock the results, and try each testbed that will measure; exit the process if that fails."""
    os.environ[staging.CLEARS_AT_END] = "at its end"
    tried: set[str] = set()
    try:
        for restored in host_settings.restore_left():
            sys.stderr.write(f"restored after a run that was killed: {restored}\n")
        for study in studies.values():
            run_lock.lock_results(study.folder)
        for measured in studies.measured:
            stale = len(studies.stale[measured.folder.name])
            warnings = [*changes.stale_lines(measured), *short_cells.late_lines(measured)] if stale else []
            sys.stderr.writelines(f"{measured.folder.name}: {line}\n" for line in warnings)
            config = {"config": measured.requested, "root": str(Path.cwd())}
            progress.begin_progress(measured.folder, stale, **config)
            if stale:
                live.begin_page(measured)
            if stale and measured.testbed_file not in tried:
                tried.add(measured.testbed_file)
                _try(measured)
    except (run_lock.ResultsError, host_settings.SettingError, OSError) as error:
        sys.exit(str(error))


def end_run(studies: Studies, *, well: bool, published: bool = False) -> None:
    """Print results and pages, notify the user, and exit with 1 if the cells of a successful run ask for it."""
    # Snakemake has finished deleting files; a user who deletes a cell from now on wants it repeated.
    for study in studies.measured:
        staging.empty(study)
    incomplete, complete, restored, failures = list[str](), list[str](), list[str](), list[str]()
    negative = False
    for study in studies.sweeps:
        if not study.testbed.simulated:
            staging.clear_unmeasured(study)
        status = count_cells(study)
        negative |= fails(studies.fail_on, status)
        ending: Ending = "failed" if not well else "incomplete" if status.missing else "complete"
        line = f"{study.folder.name}: {_line(study, status)}"
        (incomplete if status.missing else complete).append(line)
        restored += [f"{study.folder.name}: {each}" for each in restoration_lines(study)]
        if not study.testbed.simulated and is_fruitless(status):
            staging.retry_failed(study)
        live.end_page(study, line)
        study_dataset.remove_partial(study)
        if failure := notify(study, studies.notify, ending, status):
            failures.append(failure)
    lines = [*incomplete, *complete]
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES + 1
        lines[-more:] = [f"and {more} more; {len(complete)} of {len(lines)} sweeps are complete"]
    pages = [study.folder / "index.html" for study in studies.values()]
    if len(pages) > 1:
        pages = [Path(studies.results, "index.html")]
    if published:
        pages.append(Path(studies.results, "published.html"))
    links = (f"page: {page.absolute()}" for page in filter(Path.is_file, pages))
    sys.stderr.writelines(f"{line}\n" for line in (*lines, *restored, *failures[:1], *links))
    if well and negative:
        sys.exit(1)


def fails(rule: str, status: Status) -> bool:
    """Return whether the cells of a sweep make a run fail, by the value of the key `fail_on`.

    any: a cell could not be measured, or all failed. all: no cell was measured. none: never.
    """
    return rule != "none" and (is_fruitless(status) or (rule == "any" and status.not_measured > 0))


def is_fruitless(status: Status) -> bool:
    """Return whether cells of a sweep were tried, and none was measured."""
    return not status.measured and status.left < status.cells


def notify(study: SweepStudy, command: str, ending: Ending, counts: Status) -> str:
    """Run the user's command for the end of a run, if any; return a message if it fails, otherwise "".

    The command shares standard output and error with the run, has no input, and finds the ending in its environment.
    """
    if not command:
        return ""
    page = (study.folder / "index.html").absolute()
    values = {
        "SWEEP": study.name,
        "TESTBED": study.testbed_name,
        "STATUS": ending,
        "RESULTS": str(study.folder.absolute()),
        "PAGE": str(page) if is_file(page) else "",
        **{name.upper(): str(count) for name, count in counts.to_dict().items()},
    }
    environment = processes.full_environment(**{f"TPCSWEEP_{name}": text for name, text in values.items()})
    # A shell, because the line is the user's own, with the user's rights.
    run = processes.run(["/bin/sh", "-c", command], environment, capture_output=False, umask=-1)
    if not run.returncode:
        return ""
    return f"notify: {command!r} ended with status {run.returncode}; the run is not affected"


def _try(study: SweepStudy) -> None:
    try:
        if lacking := missing_extras(extras(study)):
            raise MissingExtraError("\n".join(lacking))
        host_settings.require_same_user(study)
        with signals.interruptible():  # Ctrl-C ends the trial, which removes its servers
            kinds.require(study)
            sys.stderr.writelines(f"{study.folder.name}: {line}\n" for line in kinds.warnings(study))
    except deployment_errors(study) as error:
        sys.exit(str(error))


def _line(study: SweepStudy, status: Status) -> str:
    stopped = signals.STOPPED in os.environ
    if status.missing and (stopped or progress.read_progress(study.folder).get("stopped")):
        kept = status.measured + status.failed
        return f"stopped by you: {kept} of {status.cells} cells kept; go on: {study.command}"
    how = "simulated" if study.testbed.simulated else "measured"
    line = f"{status.measured} of {status.cells} cells {how}"
    line += f", {status.flagged} with a warning" if status.flagged else ""
    line += f", {status.failed} failed" if status.failed else ""
    line += (
        f", which the next run tries again: {study.command}" if is_fruitless(status) and status.failed else ""
    )
    if status.missing and (holes := staging.holes(study.folder)):
        first, *others = dict.fromkeys(hole.why for hole in holes)  # deployments may have the same reason
        more = f" and {counted(len(others), 'more reason')}" if others else ""
        line += f"; {status.missing} not measured ({first}{more}): {study.command}"
    elif stopped:
        line += f"; stopped by you before the page was complete; go on: {study.command}"
    return line
