# SPDX-License-Identifier: Apache-2.0
"""One deployment, one job: deploy, measure the cells that are stale, publish each, tear down.

A deployment that breaks is torn down and another one takes its place, for the cells that are left.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tpcsweep import testbeds
from tpcsweep.broken import BROKEN, BrokenError, FaultError
from tpcsweep.configuration.checks import extras, files_of
from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.sweep import Cell, by_deployment
from tpcsweep.extras import MissingExtraError, missing
from tpcsweep.flags import IMPLAUSIBLE, implausible
from tpcsweep.linux import signals
from tpcsweep.measure import provenance
from tpcsweep.rates import BYTES
from tpcsweep.running import again, damaged, holes, progress, queued, results
from tpcsweep.running.holes import Hole
from tpcsweep.running.progress import Progress
from tpcsweep.testbeds import Deployment

CELL_MARGIN = 60.0
"""Seconds that a cell may take at most beside its longest time of measuring."""
GIVE_UP_AFTER = 3
"""Deployments in a row that break without a cell that went well: it is not the cells that break them."""
TRIES = 2
"""Deployments that are not as asked, before the rest of the run comes first."""
CALM = 20.0
"""Seconds that a deployment waits at most for the machine to be calm, when it was not as asked."""
BUSY = 50.0
"""Per cent of the machine's CPU time in use above which it is not calm."""
REPLACEMENT = "replacement-"
"""What the log folders of deployments begin with that took the place of broken ones."""


class Task(NamedTuple):
    """A cell that is to be measured."""

    cell: Cell
    path: Path
    spec: dict[str, Any]
    prefix: str
    """What the names of its destination files begin with."""
    earlier: dict[str, Any] | None = None
    """What the cell's file has, where it is measured once more."""


def run(configuration: Configuration, deployment: str, logs: Path) -> None:
    """Measure the stale cells of one deployment; nothing is deployed when there are none.

    A transfer that fails is data and raises nothing; so does a server that dies under a cell. Cells whose deployment
    does not come up as asked, TRIES times, or breaks GIVE_UP_AFTER times in a row are left out, with the reason in
    their files.

    Everything that servers and commands say is written to the folder of logs.

    Raises:
        Exception: what is in `expected`, when a deployment does not go.
    """
    rescue = _rescue(configuration)
    tasks = _tasks(configuration, deployment)
    stale = [
        task
        for task in tasks
        if results.stale(task.path, task.spec) and not results.recover(task.path, task.spec, rescue)
    ]
    if stale:
        with signals.interruptible():
            job = _Job(configuration, deployment, stale, logs)
            if reason := job.measure():
                for task in job.todo:
                    results.leave_out(task.path, task.spec, reason)
                job.shown.left_out(deployment, [task.cell.path for task in job.todo], reason)


def finish(configuration: Configuration) -> list[Hole]:
    """Try once more at the end of a run what was left out, then what `again` says; returns what is left out still.

    A file that turns out to be damaged leaves its cell out too.
    """
    grid, folder = configuration.grid, configuration.folder
    damaged.search(configuration, map(configuration.cell_file, grid.cells))
    missing = holes.holes(configuration, grid.cells)
    progress.more(folder, sum(len(hole.cells) for hole in missing))
    for hole in missing:
        run(configuration, hole.deployment, _logs(configuration, hole.deployment))
    once_more = by_deployment(_once_more(configuration))
    progress.more(folder, sum(map(len, once_more.values())))
    for deployment, cells in once_more.items():
        # Each cell keeps the measurement with fewer warnings.
        tasks = [
            task._replace(
                earlier={key: value for key, value in results.read(task.path).items() if key != "spec"}
            )
            for task in _tasks(configuration, deployment)
            if task.cell in cells
        ]
        with signals.interruptible():
            job = _Job(configuration, deployment, tasks, _logs(configuration, deployment))
            if reason := job.measure():
                job.shown.stage(f"{deployment} stays as it is: {reason}")
    return holes.holes(configuration, grid.cells)


def _once_more(configuration: Configuration) -> list[Cell]:
    """Cells that are measured once more: those with the flag that was asked for, else what `again` chooses."""
    flag, share, cells = configuration.run.again, configuration.sweep.again, configuration.grid.cells
    if configuration.testbed.simulated or not (flag or share):
        return []
    read = (again.of_file(cell, results.read(configuration.cell_file(cell))) for cell in cells)
    measured = [cell for cell in read if cell is not None]
    if flag:
        return [cell.cell for cell in measured if flag in cell.flags]
    return again.chosen(measured, share, len(cells))


def _logs(configuration: Configuration, deployment: str) -> Path:
    """Make the folder for what servers and commands of a deployment say at the end of a run."""
    logs = configuration.folder / "logs" / deployment / "again"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    return logs


def conclude(configuration: Configuration, run: str = "") -> str:
    """Settle what jobs have left; what to say at the end of a Snakemake.

    That is which cells it could not measure, why, and what measures them; and what could not be put back.

    `run` is the name of its jobs in Slurm's queue, if they are there: on Ctrl-C some still are.
    """
    said = []
    try:
        if run:
            queued.end(configuration.folder, run)
        _settle(configuration)
    except results.ResultsError as error:
        said += [str(error)]
    except OSError as error:
        said += [
            f"{configuration.name}: {error.filename}: {error.strerror}: the next run puts back what is missing"
        ]
    known = configuration.grid.by_path
    tried = [known[path] for path in progress.left_out(configuration.folder) if path in known]
    if left_out := holes.holes(configuration, tried):
        count = sum(len(hole.cells) for hole in left_out)
        measures = f"{count} of {len(known)} cells were not measured, and the command that measures them:"
        said += [f"{configuration.name}: {measures}", holes.listed(left_out)]
    return "\n".join(said)


def damage_found(configuration: Configuration) -> str:
    """What to say at the end of a Snakemake: which files of cells were damaged."""
    said = progress.all_damaged(configuration.folder)
    head = f"{configuration.name}: files of cells that were damaged:"
    return "\n  ".join([head, *said]) if said else ""


def begin(configuration: Configuration, *, try_testbed: bool = True, run: str = "") -> None:
    """Start a run: keep others out of its results and noise out of its output, settle what the last one left, count.

    That takes that no job of the last one runs any more: what it has left in Slurm's queue is ended. `run` is the name
    that this one's jobs have there, if they go there.

    Where there are any, or some are measured once more, the testbed is tried too, unless `try_testbed` says otherwise.
    Files in their places that are damaged are set aside.

    Raises:
        Exception: what is in `expected`, where the testbed cannot measure any cell.
        ResultsInUseError: where another run writes there.
        ResultsError: where jobs of the last one cannot be ended.
    """
    progress.quieten()
    # Who holds the folder for this run has jobs of his own.
    if results.hold(configuration.folder) and (left := queued.end(configuration.folder)):
        ended = f"{left} job(s) ended that a killed snakemake had left in Slurm's queue"
        sys.stderr.write(f"{configuration.name}: {ended}\n")
    if run:
        queued.note(configuration.folder, run)
    _settle(configuration)
    stale = [
        cell
        for cell in configuration.grid.cells
        if results.stale(configuration.cell_file(cell), wanted(configuration, cell))
    ]
    if stale and run and not configuration.testbed.simulated:
        here = f"the testbed {configuration.testbed_name} is used from here: its deployments are no jobs of Slurm's"
        sys.stderr.write(f"{configuration.name}: {here}\n")
    if (stale or configuration.run.again) and try_testbed:
        if lacking := missing(extras(configuration)):
            raise MissingExtraError("\n".join(lacking))
        testbeds.of(configuration.testbed.kind).require(configuration.testbed)
    progress.begin(configuration.folder, len(stale))
    damaged.search(configuration, map(configuration.cell_file, stale))


def expected(configuration: Configuration) -> tuple[type[Exception], ...]:
    """What may go wrong with a deployment or with reaping, with messages that need no traceback."""
    try:
        return (*testbeds.of(configuration.testbed.kind).EXPECTED, BrokenError, MissingExtraError)
    except MissingExtraError:
        return (MissingExtraError,)


def reap(configuration: Configuration) -> list[str]:
    """Remove what dead owners have left on the testbed; returns what it was.

    Raises:
        Exception: what is in `expected`.
    """
    return testbeds.of(configuration.testbed.kind).reap(configuration.testbed)


class _Job:
    """Cells that share a deployment, measured one after another, in as many deployments in turn as that takes."""

    def __init__(self, configuration: Configuration, deployment: str, tasks: list[Task], logs: Path) -> None:
        self.todo = deque(tasks)
        """What is not measured yet."""
        self.shown = Progress(configuration.name, configuration.folder)
        self._configuration = configuration
        self._testbed = testbeds.of(configuration.testbed.kind)
        longest = configuration.sweep.measurement.bounds[1]
        self._request = testbeds.Request(
            sweep=configuration.name,
            testbed=configuration.testbed_name,
            deployment=deployment,
            parameters=tasks[0].cell.parameters,
            tools=sorted({task.cell.parameters.tool for task in tasks}),
            streams=max(task.cell.parameters.streams for task in tasks),
            arriving=max(_arriving(task.cell, longest) for task in tasks),
            seconds=len(tasks) * (longest + CELL_MARGIN),
            logs=logs,
            stage=self.shown.stage,
            turn=configuration.grid.turns[deployment],
        )

    def measure(self) -> str:
        """Measure until nothing is left, in another deployment whenever one is not as asked or has broken.

        Returns why cells are left; nothing where none are. Raises what is in `expected` when a deployment does not go.
        """
        logs, refused, in_vain = self._request.logs, 0, 0
        for old in logs.glob(f"{REPLACEMENT}*"):
            shutil.rmtree(old)
        for replacement in itertools.count(1):
            well = False
            try:
                with self._testbed.deployed(self._configuration.testbed, self._request) as site:
                    well, reason = self._cells(site)
            except FaultError as error:  # all of it was there, and something ended before it was ready
                reason = str(error)
            except expected(self._configuration) as error:
                if not self.todo:
                    raise
                reason, refused = str(error), refused + 1
            if not self.todo:
                return ""
            in_vain = 0 if well else in_vain + 1
            if refused == TRIES:
                return reason
            if in_vain == GIVE_UP_AFTER:
                return f"{in_vain} deployments in a row broke before a cell went well, now: {reason}"
            signals.heed()  # the teardown has ignored what asks to end
            self.shown.stage(f"replacing {self._request.deployment}: {reason}")
            if refused:
                _wait_for_calm()
            self._request = dataclasses.replace(self._request, logs=logs / f"{REPLACEMENT}{replacement}")
            self._request.logs.mkdir()
        raise AssertionError  # for the type checker: count has no end

    def _cells(self, site: Deployment) -> tuple[bool, str]:
        """Measure cells in their order until none is left or the deployment has broken.

        Returns whether a cell went well, and what has broken. A cell that is not its victim is left, as the last one.
        """
        origin = provenance.workflow(site.provenance)
        well = False
        while self.todo:
            if self._is_measured(self.todo[0]):
                self.todo.popleft()
                progress.more(self._configuration.folder, -1)
                continue
            try:
                site.check()
                result = self._cell(site, self.todo[0], origin)
            except BrokenError as error:
                # Others come first then, lest one that breaks every deployment keeps them from being measured.
                self.todo.rotate(-1)
                return well, site.explain(error)
            self.todo.popleft()
            well = well or result["status"] == "ok"
            if BROKEN in result["flags"]:
                return well, result["message"]
        return well, ""

    @staticmethod
    def _is_measured(task: Task) -> bool:
        """Whether another job, for which this one has waited, has measured a cell meanwhile."""
        return task.earlier is None and not results.stale(task.path, task.spec)

    def _cell(self, site: Deployment, task: Task, origin: dict[str, Any]) -> dict[str, Any]:
        """Measure and publish a cell; what the testbed's `measure` has returned.

        Raises BrokenError where it has not begun, or something broke that it has not to answer for.
        """
        self.shown.begin(task.cell.path)
        started = results.now()
        result = self._testbed.measure(
            site, task.cell.parameters, self._configuration.sweep.measurement, task.prefix, self.shown.look
        )
        if implausible(result["status"], result["summary"], task.cell.parameters.bandwidth):
            result["flags"] = [*result["flags"], IMPLAUSIBLE]
        record = {
            "format": task.spec["format"],
            **result,
            "summary": {**result["summary"], "attempts": 1},
            "provenance": {"started": started, **origin},
        }
        kept = record if task.earlier is None else again.better(task.earlier, record)
        replaces = task.earlier is not None
        results.publish(task.path, task.spec, kept, _rescue(self._configuration), again=replaces)
        self.shown.end(result["status"], result["summary"]["throughput"], result["message"], result["flags"])
        return result


def _tasks(configuration: Configuration, deployment: str) -> list[Task]:
    """The cells of a deployment, in the order in which they are measured."""
    return [
        Task(cell, configuration.cell_file(cell), wanted(configuration, cell), f"c{number}")
        for number, cell in enumerate(configuration.grid.deployments[deployment])
    ]


def _arriving(cell: Cell, seconds: float) -> int:
    """Bytes of files in memory that a cell of so many seconds has at a time at most."""
    asked = cell.parameters
    files = files_of(asked.layer, asked.streams, "sparse").memory * asked.file_size
    return min(files, round(asked.bandwidth * BYTES * seconds))


def _wait_for_calm() -> None:
    """Wait until half of this machine's CPU time is free for a second, CALM at most."""
    give_up = time.monotonic() + CALM
    while psutil.cpu_percent(1.0) > BUSY and time.monotonic() < give_up:
        pass


def _settle(configuration: Configuration) -> None:
    """Put back the cells of jobs that failed, or were killed, and keep no second links any more."""
    cells = (
        (configuration.cell_file(cell), wanted(configuration, cell)) for cell in configuration.grid.cells
    )
    if back := results.settle(cells, _rescue(configuration)):
        said = f"{back} cell(s) put back that had been measured before a job failed; delete them to measure them again"
        sys.stderr.write(f"{configuration.name}: {said}\n")


def _rescue(configuration: Configuration) -> Path:
    """Where cells have a second link until the run has ended."""
    return configuration.folder / "rescued"
