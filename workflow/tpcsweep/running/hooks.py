# SPDX-License-Identifier: Apache-2.0
"""The start and the end of a run, as the workflow's onstart, onsuccess and onerror call them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tpcsweep import testbeds
from tpcsweep.configuration.checks import extras
from tpcsweep.configuration.loading import Configuration
from tpcsweep.extras import MissingExtraError, missing
from tpcsweep.running import folding, progress, results
from tpcsweep.running.notifying import Ending, notify
from tpcsweep.running.runner import expected
from tpcsweep.running.status import Status, counted
from tpcsweep.running.studies import Studies, stale_cells

SHOWN = 3
"""Lines about sweeps at the end of a run, at most."""


def begin(studies: Studies) -> None:
    """Keep other runs out of the results, and try each testbed that is to measure; end the process if that fails."""
    os.environ[folding.CLEARS] = "at its end"
    tried: set[str] = set()
    try:
        for study in studies.values():
            results.hold(study.folder)
        for measured in studies.measured:
            stale = sum(1 for _ in stale_cells(measured))
            progress.begin(measured.folder, stale)
            if stale and measured.testbed_file not in tried:
                tried.add(measured.testbed_file)
                _try(measured)
    except (results.ResultsError, OSError) as error:
        sys.exit(str(error))


def end(studies: Studies, *, well: bool) -> None:
    """Print how the sweeps ended and where the pages are, and run the user's command for the end of a run.

    If cells could not be measured in a run that went well, the process ends with status 1.
    """
    # Snakemake has deleted what it deletes; a user who deletes a cell now wants another one.
    for study in studies.measured:
        results.empty_staging(study)
    incomplete, complete, failures = list[str](), list[str](), list[str]()
    not_measured = 0
    for study in studies.sweeps:
        if not study.testbed.simulated:
            folding.clear(study)
        status = counted(study)
        not_measured += status.not_measured
        ending: Ending = "failed" if not well else "incomplete" if status.missing else "complete"
        (incomplete if status.missing else complete).append(f"{study.folder.name}: {_line(study, status)}")
        if told := notify(study, studies.notify, ending, status):
            failures.append(told)
    lines = [*incomplete, *complete]
    if len(lines) > SHOWN:
        more = len(lines) - SHOWN + 1
        lines[-more:] = [f"and {more} more; {len(complete)} of {len(lines)} sweeps are complete"]
    for line in [*lines, *failures[:1]]:
        _say(line)
    pages = [study.folder / "index.html" for study in studies.values()]
    if len(pages) > 1:
        pages = [Path(studies.results, "index.html")]
    if studies.figures:
        pages.append(Path(studies.results, "published.html"))
    for page in filter(Path.is_file, pages):
        _say(f"page: {page.absolute()}")
    if well and not_measured:
        sys.exit(1)


def _try(study: Configuration) -> None:
    try:
        if lacking := missing(extras(study)):
            raise MissingExtraError("\n".join(lacking))
        testbeds.of(study.testbed.kind).require(study.testbed)
    except expected(study) as error:
        sys.exit(str(error))


def _line(study: Configuration, status: Status) -> str:
    said = (
        f"{status.measured} of {status.cells} cells {'simulated' if study.testbed.simulated else 'measured'}"
    )
    said += f", {status.flagged} with a warning" if status.flagged else ""
    said += f", {status.failed} failed" if status.failed else ""
    if holes := folding.holes(study.folder):
        more = f" and {len(holes) - 1} more reasons" if len(holes) > 1 else ""
        said += f"; {status.missing} not measured ({holes[0].why}{more}): {study.command}"
    return said


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
