"""One deployment, one job: deploy, measure the cells that are stale, publish each, tear down."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from tpcsweep import progress, provenance, results, testbeds
from tpcsweep.configuration import Configuration, wanted
from tpcsweep.jobs import specification
from tpcsweep.measure.cell import Site, measure
from tpcsweep.progress import Progress
from tpcsweep.signals import interruptible
from tpcsweep.sweep import Cell

CELL_MARGIN = 60.0
"""Seconds that a cell may take at most beside its longest time of measuring."""


def run(configuration: Configuration, deployment: str, logs: Path) -> None:
    """Measure the stale cells of one deployment; nothing is deployed when there are none.

    `logs` is the folder for everything that servers and commands say. Raises what the testbed raises when the
    deployment fails; a transfer that fails is data and raises nothing.
    """
    cells = configuration.grid.deployments[deployment]
    rescue = _rescue(configuration)
    files = [configuration.cell_file(cell) for cell in cells]
    todo = [
        (cell, path, spec)
        for cell, path in zip(cells, files, strict=True)
        for spec in [wanted(configuration, cell)]
        if results.stale(path, spec) and not results.recover(path, spec, rescue)
    ]
    if todo:
        shown = Progress(configuration.name, configuration.folder)
        request = testbeds.Request(
            sweep=configuration.name,
            deployment=deployment,
            parameters=todo[0][0].parameters,
            tools=sorted({cell.parameters.tool for cell, _, _ in todo}),
            streams=max(cell.parameters.streams for cell, _, _ in todo),
            seconds=len(todo) * (configuration.sweep.measurement.bounds[1] + CELL_MARGIN),
            logs=logs,
            stage=shown.stage,
        )
        testbed = testbeds.of(configuration.testbed.kind)
        with interruptible(), testbed.deployed(configuration.testbed, request) as site:
            found = provenance.workflow(site.provenance)
            for number, (cell, path, spec) in enumerate(todo):
                _one(site, configuration, cell, path, spec, found, rescue, f"c{number}", shown)
    results.forget(files, rescue)


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


def begin(configuration: Configuration) -> None:
    """Start a run: keep others out of its results, and count the cells that it will measure."""
    results.hold(configuration.folder)
    done = [
        results.measured(configuration.cell_file(cell), wanted(configuration, cell), _rescue(configuration))
        for cell in configuration.grid.cells
    ]
    progress.begin(configuration.folder, done.count(False))


def _one(
    site: Site,
    configuration: Configuration,
    cell: Cell,
    path: Path,
    spec: dict[str, Any],
    found: dict[str, Any],
    rescue: Path,
    prefix: str,
    shown: Progress,
) -> None:
    shown.begin(cell.path)
    started = datetime.datetime.now(datetime.UTC)
    result = measure(site, cell.parameters, configuration.sweep.measurement, prefix, shown.look)
    record = {
        "format": spec["format"],
        **result,
        "provenance": {"started": started.isoformat(timespec="milliseconds"), **found},
    }
    results.publish(path, spec, record, rescue)
    shown.end(result["status"], result["summary"]["throughput"], result["message"], result["flags"])


def _rescue(configuration: Configuration) -> Path:
    """Where cells have a second link until their job has ended well."""
    return configuration.folder / "rescued"


def expected(configuration: Configuration) -> tuple[type[Exception], ...]:
    """What may go wrong with a deployment or with reaping, with messages that need no traceback."""
    return testbeds.of(configuration.testbed.kind).EXPECTED


def reap(configuration: Configuration) -> list[str]:
    """Remove what dead owners have left on the testbed; returns what it was. Raises what is in `expected`."""
    return testbeds.of(configuration.testbed.kind).reap(configuration.testbed)
