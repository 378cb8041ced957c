"""One deployment, one job: deploy, measure the cells that are stale, publish each, tear down.

A deployment that breaks is torn down and another one takes its place, for the cells that are left.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import shutil
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from tpcsweep import progress, provenance, results, signals, testbeds
from tpcsweep.configuration import Configuration, wanted
from tpcsweep.extras import MissingExtraError
from tpcsweep.jobs import specification
from tpcsweep.progress import Progress
from tpcsweep.sweep import Cell
from tpcsweep.testbeds import BROKEN, BrokenError, Deployment, FaultError

CELL_MARGIN = 60.0
"""Seconds that a cell may take at most beside its longest time of measuring."""
GIVE_UP_AFTER = 3
"""Deployments in a row that break without a cell that went well: it is not the cells that break them."""
REPLACEMENT = "replacement-"
"""What the log folders of deployments begin with that took the place of broken ones."""


class Stale(NamedTuple):
    """A cell that is to be measured."""

    cell: Cell
    path: Path
    spec: dict[str, Any]
    prefix: str
    """What the names of its destination files begin with."""


def run(configuration: Configuration, deployment: str, logs: Path) -> None:
    """Measure the stale cells of one deployment; nothing is deployed when there are none.

    `logs` is the folder for everything that servers and commands say. A transfer that fails is data and raises
    nothing; so does a server that dies under a cell. Raises what is in `expected` when a deployment does not come up,
    or when GIVE_UP_AFTER of them have broken in a row.
    """
    cells = configuration.grid.deployments[deployment]
    rescue = _rescue(configuration)
    files = [configuration.cell_file(cell) for cell in cells]
    todo = deque(
        Stale(cell, path, spec, f"c{number}")
        for number, (cell, path) in enumerate(zip(cells, files, strict=True))
        for spec in [wanted(configuration, cell)]
        if results.stale(path, spec) and not results.recover(path, spec, rescue)
    )
    if todo:
        shown = Progress(configuration.name, configuration.folder)
        request = testbeds.Request(
            sweep=configuration.name,
            deployment=deployment,
            parameters=todo[0].cell.parameters,
            tools=sorted({stale.cell.parameters.tool for stale in todo}),
            streams=max(stale.cell.parameters.streams for stale in todo),
            seconds=len(todo) * (configuration.sweep.measurement.bounds[1] + CELL_MARGIN),
            logs=logs,
            stage=shown.stage,
        )
        with signals.interruptible():
            _all(configuration, request, todo, shown)
    results.forget(files, rescue)


def _all(
    configuration: Configuration, request: testbeds.Request, todo: deque[Stale], shown: Progress
) -> None:
    """Measure cells until none is left, in another deployment whenever one has broken."""
    logs, in_vain = request.logs, 0
    for old in logs.glob(f"{REPLACEMENT}*"):
        shutil.rmtree(old)
    for replacement in itertools.count(1):
        well = False
        try:
            with testbeds.of(configuration.testbed.kind).deployed(configuration.testbed, request) as site:
                well, broken = _cells(site, configuration, todo, shown)
        except FaultError as error:  # all of it was there, and something ended before it was ready
            broken = str(error)
        if not todo:
            return
        in_vain = 0 if well else in_vain + 1
        if in_vain == GIVE_UP_AFTER:
            raise BrokenError(f"{in_vain} deployments in a row broke before a cell went well, now: {broken}")
        signals.heed()  # the teardown has ignored what asks to end
        shown.stage(f"replacing {request.deployment}: {broken}")
        request = dataclasses.replace(request, logs=logs / f"{REPLACEMENT}{replacement}")
        request.logs.mkdir()


def _cells(
    site: Deployment, configuration: Configuration, todo: deque[Stale], shown: Progress
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


def declare(configuration: Configuration) -> str:
    """Write what the cells are to be measured under, for the jobs to depend on; returns the file's path."""
    path = configuration.folder / "specification.json"
    cells = configuration.grid.cells
    results.declare(
        path,
        specification(configuration),
        ((configuration.cell_file(cell), wanted(configuration, cell)) for cell in cells),
    )
    return str(path)


def begin(configuration: Configuration) -> int:
    """Start a run: keep others out of its results, and count the cells that it will measure."""
    results.hold(configuration.folder)
    done = [
        results.measured(configuration.cell_file(cell), wanted(configuration, cell), _rescue(configuration))
        for cell in configuration.grid.cells
    ]
    left = done.count(False)
    progress.begin(configuration.folder, left)
    return left


def _one(
    site: Deployment, configuration: Configuration, stale: Stale, found: dict[str, Any], shown: Progress
) -> dict[str, Any]:
    """Measure and publish a cell; what the testbed's `measure` has returned.

    Raises BrokenError where it has not begun.
    """
    shown.begin(stale.cell.path)
    started = datetime.datetime.now(datetime.UTC)
    how = configuration.sweep.measurement
    measure = testbeds.of(configuration.testbed.kind).measure
    result = measure(site, stale.cell.parameters, how, stale.prefix, shown.look)
    record = {
        "format": stale.spec["format"],
        **result,
        "provenance": {"started": started.isoformat(timespec="milliseconds"), **found},
    }
    results.publish(stale.path, stale.spec, record, _rescue(configuration))
    shown.end(result["status"], result["summary"]["throughput"], result["message"], result["flags"])
    return result


def _rescue(configuration: Configuration) -> Path:
    """Where cells have a second link until their job has ended well."""
    return configuration.folder / "rescued"


def expected(configuration: Configuration) -> tuple[type[Exception], ...]:
    """What may go wrong with a deployment or with reaping, with messages that need no traceback."""
    try:
        return (*testbeds.of(configuration.testbed.kind).EXPECTED, BrokenError)
    except MissingExtraError:
        return (MissingExtraError,)


def reap(configuration: Configuration) -> list[str]:
    """Remove what dead owners have left on the testbed; returns what it was. Raises what is in `expected`."""
    return testbeds.of(configuration.testbed.kind).reap(configuration.testbed)
