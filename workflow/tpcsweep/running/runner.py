"""One deployment, one job: deploy, measure the cells that are stale, publish each, tear down.

A deployment that breaks is torn down and another one takes its place, for the cells that are left.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import shutil
import time
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tpcsweep import testbeds
from tpcsweep.broken import BROKEN, BrokenError, FaultError
from tpcsweep.configuration.checks import extras, files_of
from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import Cell
from tpcsweep.extras import MissingExtraError, missing
from tpcsweep.linux import signals
from tpcsweep.measure import provenance
from tpcsweep.rates import BYTES
from tpcsweep.running import again, holes, progress, results
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

    `logs` is the folder for everything that servers and commands say. A transfer that fails is data and raises
    nothing; so does a server that dies under a cell. Cells whose deployment does not come up as asked, TRIES times, or
    breaks GIVE_UP_AFTER times in a row are left out, with the reason in their files. Raises what is in `expected` when
    a deployment does not go.
    """
    rescue = _rescue(configuration)
    tasks = _tasks(configuration, deployment)
    todo = deque(
        task
        for task in tasks
        if results.stale(task.path, task.spec) and not results.recover(task.path, task.spec, rescue)
    )
    if todo:
        shown = Progress(configuration.name, configuration.folder)
        with signals.interruptible():
            if why := _all(
                configuration, _request(configuration, deployment, todo, logs, shown), todo, shown
            ):
                for task in todo:
                    _leave_out(task, why)
                shown.left_out(deployment, [task.cell.path for task in todo], why)
    results.forget([task.path for task in tasks], rescue)


def _run_again(configuration: Configuration, deployment: str, cells: Collection[Cell], logs: Path) -> None:
    """Measure cells of one deployment once more, and keep of each the measurement with fewer warnings.

    Where the deployment does not come up, they stay as they are. Raises what is in `expected` as `run` does.
    """
    todo = deque(
        task._replace(
            earlier={name: value for name, value in results.read(task.path).items() if name != "spec"}
        )
        for task in _tasks(configuration, deployment)
        if task.cell in cells
    )
    shown = Progress(configuration.name, configuration.folder)
    with signals.interruptible():
        if why := _all(configuration, _request(configuration, deployment, todo, logs, shown), todo, shown):
            shown.stage(f"{deployment} stays as it is: {why}")


def end(configuration: Configuration) -> list[Hole]:
    """The end of a run: try once more what was left out, then what `again` says; returns what is left out still."""
    grid, folder = configuration.grid, configuration.folder
    missing = holes.holes(configuration, grid.cells)
    progress.more(folder, sum(len(hole.cells) for hole in missing))
    for hole in missing:
        run(configuration, hole.deployment, _logs(configuration, hole.deployment))
    by_deployment: dict[str, list[Cell]] = {}
    for cell in _once_more(configuration):
        by_deployment.setdefault(cell.deployment_path, []).append(cell)
    progress.more(folder, sum(map(len, by_deployment.values())))
    for deployment, cells in by_deployment.items():
        _run_again(configuration, deployment, cells, _logs(configuration, deployment))
    # Of all, as one that was killed here has left links that are nobody's: its cells are not measured a third time.
    results.forget([configuration.cell_file(cell) for cell in grid.cells], _rescue(configuration))
    return holes.holes(configuration, grid.cells)


def _once_more(configuration: Configuration) -> list[Cell]:
    """Cells that are measured once more: those with the flag that was asked for, else what `again` chooses."""
    asked, share, cells = configuration.run.again, configuration.sweep.again, configuration.grid.cells
    if configuration.testbed.simulated or not (asked or share):
        return []
    measured = (again.of_file(cell, results.read(configuration.cell_file(cell))) for cell in cells)
    found = (one for one in measured if one is not None)
    return (
        [one.cell for one in found if asked in one.flags] if asked else again.chosen(found, share, len(cells))
    )


def _logs(configuration: Configuration, deployment: str) -> Path:
    """The folder for what servers and commands of a deployment say at the end of a run."""
    logs = configuration.folder / "logs" / deployment / "again"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    return logs


def conclude(configuration: Configuration) -> str:
    """What to say at the end of a Snakemake: which cells it could not measure, why, and what measures them."""
    known = configuration.grid.by_path
    tried = [known[path] for path in progress.left_out(configuration.folder) if path in known]
    found = holes.holes(configuration, tried)
    count = sum(len(hole.cells) for hole in found)
    said = f"{configuration.name}: {count} of {len(known)} cells were not measured, and the command that measures them:"
    return f"{said}\n{holes.listed(found)}" if found else ""


def _tasks(configuration: Configuration, deployment: str) -> list[Task]:
    """The cells of a deployment, in the order in which they are measured."""
    return [
        Task(cell, configuration.cell_file(cell), wanted(configuration, cell), f"c{number}")
        for number, cell in enumerate(configuration.grid.deployments[deployment])
    ]


def _arriving(wanted: Parameters, seconds: float) -> int:
    """Bytes of files in memory that a cell of so many seconds has at a time at most."""
    files = files_of(wanted.layer, wanted.streams, "sparse").memory * wanted.file_size
    return min(files, round(wanted.bandwidth * BYTES * seconds))


def _request(
    configuration: Configuration, deployment: str, todo: Sequence[Task], logs: Path, shown: Progress
) -> testbeds.Request:
    longest = configuration.sweep.measurement.bounds[1]
    return testbeds.Request(
        sweep=configuration.name,
        deployment=deployment,
        parameters=todo[0].cell.parameters,
        tools=sorted({task.cell.parameters.tool for task in todo}),
        streams=max(task.cell.parameters.streams for task in todo),
        arriving=max(_arriving(task.cell.parameters, longest) for task in todo),
        seconds=len(todo) * (longest + CELL_MARGIN),
        logs=logs,
        stage=shown.stage,
    )


def _all(configuration: Configuration, request: testbeds.Request, todo: deque[Task], shown: Progress) -> str:
    """Measure cells until none is left, in another deployment whenever one is not as asked or has broken.

    Returns why cells are left; nothing where none are. Raises what is in `expected` when a deployment does not go.
    """
    logs, refused, in_vain = request.logs, 0, 0
    for old in logs.glob(f"{REPLACEMENT}*"):
        shutil.rmtree(old)
    for replacement in itertools.count(1):
        well = False
        try:
            with testbeds.of(configuration.testbed.kind).deployed(configuration.testbed, request) as site:
                well, why = _cells(site, configuration, todo, shown)
        except FaultError as error:  # all of it was there, and something ended before it was ready
            why = str(error)
        except expected(configuration) as error:
            if not todo:
                raise
            why, refused = str(error), refused + 1
        if not todo:
            return ""
        in_vain = 0 if well else in_vain + 1
        if refused == TRIES:
            return why
        if in_vain == GIVE_UP_AFTER:
            return f"{in_vain} deployments in a row broke before a cell went well, now: {why}"
        signals.heed()  # the teardown has ignored what asks to end
        shown.stage(f"replacing {request.deployment}: {why}")
        if refused:
            _wait_for_calm()
        request = dataclasses.replace(request, logs=logs / f"{REPLACEMENT}{replacement}")
        request.logs.mkdir()
    raise AssertionError  # for the type checker: count has no end


def _wait_for_calm() -> None:
    """Wait until half of this machine's CPU time is free for a second, CALM at most."""
    give_up = time.monotonic() + CALM
    while psutil.cpu_percent(1.0) > BUSY and time.monotonic() < give_up:
        pass


def _cells(
    site: Deployment, configuration: Configuration, todo: deque[Task], shown: Progress
) -> tuple[bool, str]:
    """Measure and take away the first of the cells, and so on, until none is left or the deployment has broken.

    Returns whether a cell went well, and what has broken. A cell that had not begun by then is left.
    """
    found = provenance.workflow(site.provenance)
    well = False
    while todo:
        try:
            site.check()
            result = _one(site, configuration, todo[0], found, shown)
        except BrokenError as error:
            return well, site.explain(error)
        todo.popleft()
        well = well or result["status"] == "ok"
        if BROKEN in result["flags"]:
            return well, result["message"]
    return well, ""


def _leave_out(task: Task, why: str) -> None:
    """Write that a cell was not measured."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    results.leave_out(task.path, task.spec, {"format": task.spec["format"], "message": why, "tried": now})


def begin(configuration: Configuration, *, try_testbed: bool = True) -> None:
    """Start a run: keep others out of its results and noise out of its output, and count the cells to measure.

    Where there are some, and if it is asked for, the testbed is tried. Raises what is in `expected` where it cannot
    measure any.
    """
    progress.quieten()
    results.hold(configuration.folder)
    done = [
        results.measured(configuration.cell_file(cell), wanted(configuration, cell), _rescue(configuration))
        for cell in configuration.grid.cells
    ]
    left = done.count(False)
    if left and try_testbed:
        if lacking := missing(extras(configuration)):
            raise MissingExtraError("\n".join(lacking))
        testbeds.of(configuration.testbed.kind).require(configuration.testbed)
    progress.begin(configuration.folder, left)


def _one(
    site: Deployment, configuration: Configuration, task: Task, found: dict[str, Any], shown: Progress
) -> dict[str, Any]:
    """Measure and publish a cell; what the testbed's `measure` has returned.

    Raises BrokenError where it has not begun.
    """
    shown.begin(task.cell.path)
    started = datetime.datetime.now(datetime.UTC)
    how = configuration.sweep.measurement
    measure = testbeds.of(configuration.testbed.kind).measure
    result = measure(site, task.cell.parameters, how, task.prefix, shown.look)
    record = {
        "format": task.spec["format"],
        **result,
        "summary": {**result["summary"], "attempts": 1},
        "provenance": {"started": started.isoformat(timespec="milliseconds"), **found},
    }
    kept = record if task.earlier is None else again.better(task.earlier, record)
    results.publish(task.path, task.spec, kept, _rescue(configuration))
    shown.end(result["status"], result["summary"]["throughput"], result["message"], result["flags"])
    return result


def _rescue(configuration: Configuration) -> Path:
    """Where cells have a second link until their job has ended well."""
    return configuration.folder / "rescued"


def expected(configuration: Configuration) -> tuple[type[Exception], ...]:
    """What may go wrong with a deployment or with reaping, with messages that need no traceback."""
    try:
        return (*testbeds.of(configuration.testbed.kind).EXPECTED, BrokenError, MissingExtraError)
    except MissingExtraError:
        return (MissingExtraError,)


def reap(configuration: Configuration) -> list[str]:
    """Remove what dead owners have left on the testbed; returns what it was. Raises what is in `expected`."""
    return testbeds.of(configuration.testbed.kind).reap(configuration.testbed)
