"""One deployment, one job: deploy, measure the cells that are stale, publish each, tear down."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from tpcsweep import progress, provenance, results
from tpcsweep.commands import CommandError
from tpcsweep.configuration import Configuration, wanted
from tpcsweep.jobs import specification
from tpcsweep.measure.cell import measure
from tpcsweep.paths import PathError
from tpcsweep.progress import Progress
from tpcsweep.sweep import Cell
from tpcsweep.testbeds.agent import ClientError
from tpcsweep.testbeds.netns import machine, state
from tpcsweep.testbeds.netns.deployment import deployed
from tpcsweep.testbeds.netns.servers import DeploymentError
from tpcsweep.testbeds.netns.site import SettleError, Site

EXPECTED = (
    machine.MachineError,
    CommandError,
    DeploymentError,
    PathError,
    SettleError,
    ClientError,
    state.TeardownError,
)
"""What may go wrong with a deployment, with messages that need no traceback."""


def run(configuration: Configuration, deployment: str, logs: Path) -> None:
    """Measure the stale cells of one deployment; nothing is deployed when there are none.

    `logs` is the folder for everything that servers and commands say. Raises what the testbed raises when the
    deployment fails; a transfer that fails is data and raises nothing.
    """
    cells = configuration.grid.deployments[deployment]
    rescue = configuration.folder / "rescued"
    files = [configuration.cell_file(cell) for cell in cells]
    todo = [
        (cell, path, spec)
        for cell, path in zip(cells, files, strict=True)
        for spec in [wanted(configuration, cell)]
        if results.stale(path, spec) and not results.recover(path, spec, rescue)
    ]
    if todo:
        machine.require()
        shown = Progress(configuration.name, configuration.folder)
        owner = state.Owner(configuration.name, deployment, os.getpid(), str(logs))
        with (
            interruptible(),
            state.exclusive(owner, waiting=lambda holder: shown.stage(f"waiting for {holder}")),
        ):
            for leftover in state.leftovers():
                shown.stage(f"removing what is left of {state.describe(leftover)}")
                state.teardown(leftover)
            shown.stage(f"deploying {deployment}")
            memory = configuration.testbed.memory or psutil.virtual_memory().available // 2
            with deployed(todo[0][0].parameters, owner, memory) as site:
                found = _found(site, [cell for cell, _, _ in todo])
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
    cells = configuration.grid.cells
    todo = sum(results.stale(configuration.cell_file(cell), wanted(configuration, cell)) for cell in cells)
    progress.begin(configuration.folder, todo)


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


def _found(site: Site, cells: Sequence[Cell]) -> dict[str, Any]:
    """Provenance of a deployment, the same for all of its cells."""
    return {
        **provenance.machine(),
        "commit": provenance.commit(),
        "software": provenance.software(sorted({cell.parameters.tool for cell in cells})),
        **site.provenance,
    }


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP, and the death of the starter, into SystemExit, once, and ignore them then."""

    def leave(number: int, _frame: object) -> None:
        state.ignore_signals()
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in state.ENDING}
    ended = threading.Event()
    threading.Thread(target=_watch_starter, args=(os.getppid(), ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch_starter(starter: int, ended: threading.Event) -> None:
    """Snakemake killed by force leaves its jobs running: notice, and end in order."""
    while not ended.wait(0.5):
        if os.getppid() != starter:
            os.kill(os.getpid(), signal.SIGTERM)
            return


def reap() -> list[str]:
    """Remove what dead owners have left on this machine; returns what it was. Raises BusyError, TeardownError."""
    owner = state.Owner("reap", "", os.getpid(), "")
    removed = []
    with state.exclusive(owner):
        for leftover in state.leftovers():
            removed.append(state.describe(leftover))
            state.teardown(leftover)
    return removed
