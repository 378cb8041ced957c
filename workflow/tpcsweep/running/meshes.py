# SPDX-License-Identifier: Apache-2.0
"""Job of a mesh: one process starts links in the order of rounds, each when both of its sites are free.

A process for each link runs the job of a deployment. A site whose links fail again and again is left out, and one that
asks for a pause rests while links of other sites go on.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tpcsweep.common import signals
from tpcsweep.running import runner, staging
from tpcsweep.running.progress import count_done
from tpcsweep.running.runner import Ending, deployment_errors
from tpcsweep.sweeps.study import SweepStudy, cell_spec, log_folder
from tpcsweep.sweeps.tournament import in_rounds, startable
from tpcsweep.testbeds import kinds

MOST_FAILURES = 3  # links of a site that fail in a row before the site is left out
LOOK = 1.0
"""Seconds between looks at pauses that sites ask for."""
_processes = multiprocessing.get_context("fork")  # the libraries of a link are loaded once for all


@dataclass
class _Running:
    process: BaseProcess
    answer: Connection


def measure_mesh(study: SweepStudy, log: Path) -> None:
    """Measure the stale cells of all links, and write placeholders with the reason for the others.

    The errors of links are written to `log`, and end no other link.
    """
    testbed = kinds.load_testbed(study.testbed.kind)  # once for the processes of all links
    # A killed run may have left folders of links that it has measured.
    with suppress(*deployment_errors(study)):
        testbed.reap(study.testbed)
    staging.adopt(study)
    stale = {cell.deployment.path for cell in staging.stale_cells(study)}
    order = [path for links in in_rounds(study.grid) for path in links if path in stale]
    part = {*study.testbed.affordable(study.grid, order)}
    mesh = _Mesh(study, [path for path in order if path in part], log)
    for path in order:
        if path not in part:
            skip(study, path, f"left to a later run: the budget allows {len(part)} of {len(order)} links")
    with signals.interruptible():
        mesh.measure()


class _Mesh:
    def __init__(self, study: SweepStudy, order: list[str], log: Path) -> None:
        self._study, self._log = study, log
        self._wanted = {path: study.grid.deployments[path][0].parameters for path in order}
        self._sites = {path: study.testbed.occupied(wanted) for path, wanted in self._wanted.items()}
        self._waiting = {path: self._sites[path] for path in order}
        self._running: dict[str, _Running] = {}
        self._failures: Counter[str] = Counter()

    def measure(self) -> None:
        with self._ended_at_last():
            while self._waiting or self._running:
                self._start_links()
                wait([one.process.sentinel for one in self._running.values()], LOOK)
                for path in [path for path, one in self._running.items() if not one.process.is_alive()]:
                    self._end(path)

    def _start_links(self) -> None:
        busy = {site for path in self._running for site in self._sites[path]}
        ready = startable(self._waiting, busy, lambda path: self._pause(path) > 0)
        if not ready and not self._running:
            # All links wait for pauses, which the job of a deployment awaits or refuses.
            ready = [min(self._waiting, key=self._pause)]
        for path in ready:
            del self._waiting[path]
            ours, theirs = _processes.Pipe(duplex=False)
            process = _processes.Process(target=_measure_link, args=(self._study, path, os.getpid(), theirs))
            with signals.defer_signals():  # hooks of fork(2) would lose their exception
                process.start()
            theirs.close()
            self._running[path] = _Running(process, ours)

    def _pause(self, path: str) -> float:
        return kinds.pause(self._study, self._wanted[path])

    def _end(self, path: str) -> None:
        """Count the failures of the sites of a link that has ended."""
        ended = self._running.pop(path)
        ended.process.join()
        try:
            ending, faulty = ended.answer.recv()
        except EOFError:
            ending, faulty = Ending(well=False, reason=f"its process ended with {ended.process.exitcode}"), {}
            skip(self._study, path, ending.reason)
        ended.answer.close()
        if not ending.well:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{path}: {ending.reason}\n")
        for site in self._sites[path] if ending.well else ():
            del self._failures[site]
        for site in () if ending.well or ending.final else faulty or self._sites[path]:
            self._failures[site] += 1
            if self._failures[site] == MOST_FAILURES:
                self._leave_out(site, f"{path}: {faulty.get(site) or ending.reason}")

    def _leave_out(self, site: str, last: str) -> None:
        """Give up the waiting links of a site."""
        why = f"site {site} is left out, as {MOST_FAILURES} of its links in a row failed, the last one {last}"
        sys.stderr.write(f"{self._study.name}: {why}\n")
        for path in [path for path, sites in self._waiting.items() if site in sites]:
            del self._waiting[path]
            skip(self._study, path, why)

    @contextmanager
    def _ended_at_last(self) -> Iterator[None]:
        """Have all links tear down before an error, or a signal, ends this process."""
        try:
            yield
        finally:
            while left := [one.process for one in self._running.values() if one.process.is_alive()]:
                for process in left:
                    process.terminate()  # again, because a process that has just started defers signals
                wait([process.sentinel for process in left], LOOK)


def skip(study: SweepStudy, path: str, why: str) -> None:
    """Publish the staged cells of a link, and write placeholders for its other stale ones."""
    count = 0
    for cell in study.grid.deployments[path]:
        place, spec = study.cell_file(cell), cell_spec(study, cell)
        if not staging.publish(staging.staged_file(study, cell), place, spec):
            staging.write_placeholder(place, spec, why)
            count += 1
    count_done(study.folder, count)


def _measure_link(study: SweepStudy, path: str, starter: int, answer: Connection) -> None:
    """Run the job of a deployment in a process of its own, and send its end with the faults of its sites."""
    with signals.interruptible():
        signals.end_with(starter)
        logs = study.folder / log_folder(path)
        logs.mkdir(parents=True, exist_ok=True)
        try:
            ending = runner.run(study, path, logs)
        except deployment_errors(study) as error:
            ending = Ending(well=False, reason=str(error))
            skip(study, path, str(error))
            sys.stderr.write(f"{study.name}: {path}: {error}\n")
        faulty: Mapping[str, str] = {}
        if not (ending.well or ending.final):
            faulty = kinds.faulty_sites(study, study.grid.deployments[path][0].parameters)
        answer.send((ending, faulty))
