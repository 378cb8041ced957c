# SPDX-License-Identifier: Apache-2.0
"""Job of one deployment: adopt, deploy, measure stale cells, retry, remove, publish.

A broken deployment is removed and replaced for its remaining cells. A cell is repeated because it failed or because of
its conditions, never because of its throughput or variation, which would bias the results.
"""

import dataclasses
import itertools
import math
import shutil
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import psutil

from tpcsweep.common import signals
from tpcsweep.common.errors import BrokenError, FaultError
from tpcsweep.common.extras import MissingExtraError
from tpcsweep.common.numbers import BYTES
from tpcsweep.data import cell_files
from tpcsweep.data.cell_result import CellResult, Provenance
from tpcsweep.data.flags import BROKEN, SETTING_CHANGED, graded
from tpcsweep.data.variables import CPU_LIMITS
from tpcsweep.measuring import provenance
from tpcsweep.measuring.provenance import verification
from tpcsweep.running import host_settings, hosts, live, staging
from tpcsweep.running.host_settings import InForce, Restored, SettingError
from tpcsweep.running.hosts import CellClock, Watch
from tpcsweep.running.progress import JobProgress
from tpcsweep.sweeps.study import Specification, SweepStudy, cell_spec
from tpcsweep.sweeps.sweep import Cell
from tpcsweep.testbeds import interface, kinds
from tpcsweep.testbeds.interface import Deployment
from tpcsweep.testbeds.rules import count_files

CELL_MARGIN = 60.0  # most seconds that a cell may take beyond its longest measurement
GIVE_UP_AFTER = 3
"""Consecutive deployments that break without a successful cell before the job stops.
Single cells do not cause that many failures."""
TRIES = 2  # failed starts, without a successful cell between them, before the job stops
CALM = 20.0  # most seconds to wait for a calm machine after a failed start of a deployment
BUSY = 50.0  # per cent of the machine's CPU time in use above which it is not calm
DAMAGED = "its file in staging was damaged"
CAUSES = ("disturbed", "machine_saturated")
"""Flags of conditions that may change, gravest first.
Flags of throughput and its variation are excluded, because a selection by them would bias the results."""
VARIATION = frozenset({"not_steady"})
"""Warnings about variation, which do not decide between two measurements of a cell."""
SLOWER = 0.15
"""Slowdown of the machine relative to the fastest cell above which a CPU-bound cell is repeated.
It is no flag: a clock that rises for a single busy core has the same effect in every repetition."""
REPLACEMENT = "replacement-"  # prefix of log folders of deployments that replaced broken ones


class Ending(NamedTuple):
    """End of a deployment's job."""

    well: bool = True  # whether a cell was measured, or none had to be
    reason: str = ""  # why cells failed or were not measured
    final: bool = False  # whether the reason is no fault of the deployment, such as an exhausted budget


class Task(NamedTuple):
    cell: Cell
    place: Path
    staged: Path
    spec: Specification
    prefix: str  # start of the names of its destination files
    earlier: CellResult | None = None  # first measurement, if the cell is repeated

    @property
    def current(self) -> bool:
        """Whether this or another job has measured the cell."""
        return not (cell_files.stale(self.place, self.spec) and cell_files.stale(self.staged, self.spec))


def run(study: SweepStudy, deployment: str, logs: Path) -> Ending:
    """Measure the stale cells of one deployment. Without any, nothing is deployed.

    A failed transfer, or a server that dies during a cell, is a result and raises nothing. If TRIES starts fail, or
    GIVE_UP_AFTER consecutive deployments break, the remaining cells get placeholders with the reason. Logs of servers
    and commands are written to the folder `logs`. Raises one of `deployment_errors` if a removal failed.
    """
    tasks = _tasks(study, deployment)
    stale = [task for task in tasks if not staging.publish(task.staged, task.place, task.spec)]
    if not stale:
        return Ending()
    with signals.interruptible(), JobProgress(study.name, deployment, study.folder) as shown:
        live.update_page(study)
        job = _Job(study, deployment, stale, logs, shown)
        reason = job.measure()
        for task in stale:
            if not staging.publish(task.staged, task.place, task.spec):
                staging.write_placeholder(task.place, task.spec, reason or DAMAGED)
        if missing := [task for task in job.remaining if task.earlier is None]:
            shown.skip(len(missing), reason)
    live.update_page(study, job.outcomes())
    return job.ending(reason)


def deployment_errors(study: SweepStudy) -> tuple[type[Exception], ...]:
    """Return the exceptions of a deployment, or of reaping, whose messages need no traceback."""
    return (*kinds.load_testbed(study.testbed.kind).EXPECTED, BrokenError, MissingExtraError, SettingError)


class _Job:
    """Cells that share a deployment, measured one after another, in replacements if deployments break."""

    def __init__(
        self, study: SweepStudy, deployment: str, tasks: list[Task], logs: Path, shown: JobProgress
    ) -> None:
        self._study, self._tasks, self._shown = study, tasks, shown
        self.remaining = deque(tasks)
        self._measured: dict[str, CellResult] = {}  # results of the cells that this job measured, by path
        self._retried = False
        self._final = False  # whether an error that no other try changes ended the job
        self._testbed = kinds.load_testbed(study.testbed.kind)
        longest = study.sweep.measurement.bounds[1]
        self._settings = study.testbed.applied_settings(tasks[0].cell.parameters)
        applying = sum(3 * how.timeout + how.settle for _, how in self._settings.values())
        seconds = len(tasks) * (longest + CELL_MARGIN) + applying
        self._longest = 2 * seconds  # of a deployment, if every cell is repeated
        self._request = interface.Request(
            sweep=study.name,
            testbed=study.testbed_name,
            deployment=deployment,
            parameters=tasks[0].cell.parameters,
            tools=sorted({task.cell.parameters.tool for task in tasks}),
            streams=max(task.cell.parameters.streams for task in tasks),
            arriving=max(_arriving(task.cell, longest) for task in tasks),
            seconds=seconds,
            logs=logs,
            stage=shown.stage,
            preferred_place=study.grid.preferred_places[deployment],
        )

    def outcomes(self) -> dict[str, live.Outcome]:
        """Return the outcome of each cell by its path."""
        return {path: live.outcome(result) for path, result in self._measured.items()} | {
            task.cell.path: ("not_measured", None, False) for task in self.remaining if task.earlier is None
        }

    def ending(self, reason: str) -> Ending:
        """Return the end of the job; `reason` is that of cells that were not measured, if any."""
        results = [*self._measured.values()]
        words = next((result.message for result in results if result.status != "ok"), "")
        return Ending(any(result.status == "ok" for result in results), reason or words, self._final)

    def measure(self) -> str:
        """Measure all cells, replacing deployments that break or do not start; return why cells remain, or "".

        A deployment that could not be removed at the end raises one of `deployment_errors`.
        """
        logs, failed_starts, fruitless = self._request.logs, 0, 0
        for old in logs.glob(f"{REPLACEMENT}*"):
            shutil.rmtree(old)
        for replacement in itertools.count(1):
            well = False
            try:
                log = self._request.logs / "commands.log"
                with (
                    self._testbed.deployed(self._study.testbed, self._request) as site,
                    host_settings.in_force(
                        self._settings, log, self._shown.stage, self._note_restored
                    ) as settings,
                    hosts.watched(
                        self._study.testbed.hosts,
                        self._longest,
                        self._shown.stage,
                        doors=self._study.testbed.receiving_doors(self._request.parameters),
                    ) as watch,
                ):
                    well, reason = self._cells(site, settings, watch)
                if well:
                    failed_starts = 0
            except FaultError as error:  # everything had started, and something ended before it was ready
                reason = str(error)
            except deployment_errors(self._study) as error:
                if not self.remaining:
                    raise
                reason = str(error)
                self._final = getattr(error, "final", False)
                failed_starts = TRIES if self._final else failed_starts + 1
            if not self._any_left():
                return ""
            fruitless = 0 if well else fruitless + 1
            if failed_starts >= TRIES:
                return reason
            if fruitless == GIVE_UP_AFTER:
                broke = f"{fruitless} deployments in a row broke before a cell went well"
                return f"{broke}, the last one: {reason}"
            signals.restore_signals()  # the teardown ignored signals
            self._shown.stage(f"replacing {self._request.deployment}: {reason}")
            give_up = time.monotonic() + CALM
            while failed_starts and psutil.cpu_percent(1.0) > BUSY and time.monotonic() < give_up:
                pass
            self._request = dataclasses.replace(self._request, logs=logs / f"{REPLACEMENT}{replacement}")
            self._request.logs.mkdir()
        raise AssertionError  # for the type checker: count has no end

    def _any_left(self) -> bool:
        """Return whether cells remain; if not, first queue failed and disturbed cells again, within bounds."""
        if not self.remaining and not self._retried:
            self._retried = True
            measured = [task for task in self._tasks if task.cell.path in self._measured]
            measurements = [self._measured[task.cell.path] for task in measured]
            for index in cells_to_retry(measurements, self._study.sweep.retry_share):
                self.remaining.append(measured[index]._replace(earlier=measurements[index]))
        return bool(self.remaining)

    def _cells(self, site: Deployment, settings: InForce | None, watch: Watch) -> tuple[bool, str]:
        """Measure cells until none remains or the deployment breaks; return whether one went well, and why it broke."""
        origin = provenance.workflow(site.provenance)
        origin["order_seed"] = self._study.grid.seed
        if settings:
            origin["settings"] = settings.provenance
        if watch.states:
            origin["hosts"] = {**origin.get("hosts", {}), **watch.states}
        if watch.receivers:
            origin["receiving_hosts"] = watch.receivers
        if watch.one_machine:
            origin["one_machine"] = watch.one_machine
        well = False
        while self._any_left():
            task = self.remaining[0]
            if task.earlier is None and task.current:  # another job measured it while this one waited
                self.remaining.popleft()
                continue
            try:
                site.check()
                result = self._cell(site, task, origin, settings, watch)
            except BrokenError as error:
                self.remaining.popleft()
                if task.earlier is None:  # not measured yet: it goes last, as it may break every deployment
                    self.remaining.append(task)
                return well, site.explain(error)
            self.remaining.popleft()
            well = well or result.status == "ok"
            if BROKEN in result.flags:
                return well, result.message
        return well, ""

    def _cell(
        self, site: Deployment, task: Task, origin: Provenance, settings: InForce | None, watch: Watch
    ) -> CellResult:
        """Measure a cell, write the better of its measurements to staging, and return the last one.

        Raises BrokenError if the measurement did not start, or the cell did not cause the deployment's failure.
        """
        self._shown.show_throughput(None, 0.0)
        verified = verification(task.cell.parameters.tool, task.cell.parameters.checksum)
        provenance = cast(Provenance, {"started": cell_files.utc_timestamp(), **origin, **verified})
        parameters, how = task.cell.parameters, self._study.sweep.measurement
        clock = CellClock(self._shown.show_throughput)
        measured = self._testbed.measure(site, parameters, how, task.prefix, clock.show)
        measured = watch.with_load(measured, clock)
        if settings and (changed := settings.changed()):
            measured = dataclasses.replace(measured, flags=(*measured.flags, SETTING_CHANGED))
            provenance["settings"] = {
                name: {**first, **({"changed": changed[name]} if name in changed else {})}
                for name, first in origin["settings"].items()
            }
        origin_of_cell = cast(Provenance, {**provenance, **measured.provenance})
        measured = kept = dataclasses.replace(measured, provenance=origin_of_cell)
        if task.earlier is not None:
            kept = better_measurement(task.earlier, measured)
        self._measured[task.cell.path] = kept
        cell_files.write_cell(task.staged, task.spec, kept)
        self._shown.end(task.cell.path, kept.status, kept.summary.throughput, kept.flags)
        return measured

    def _note_restored(self, restored: Restored) -> None:
        """Add to the cells of the deployment that ends how it left the hosts; those of earlier ones have it."""
        for task in self._tasks:
            kept = self._measured.get(task.cell.path)
            settings = kept.provenance.get("settings", {}) if kept else {}
            if kept and not any("restored" in record for record in settings.values()):
                noted = {name: {**record, **restored[name]} for name, record in settings.items()}
                kept = dataclasses.replace(kept, provenance={**kept.provenance, "settings": noted})
                self._measured[task.cell.path] = kept
                cell_files.write_cell(task.staged, task.spec, kept)


def _tasks(study: SweepStudy, deployment: str) -> list[Task]:
    tasks = []
    for number, cell in enumerate(study.grid.deployments[deployment]):
        place, staged = study.cell_file(cell), staging.staged_file(study, cell)
        tasks.append(Task(cell, place, staged, cell_spec(study, cell), f"c{number}"))
    return tasks


def _arriving(cell: Cell, seconds: float) -> int:
    """Return the largest size in bytes of a cell's files in memory, if it takes `seconds`."""
    parameters = cell.parameters
    files = count_files(parameters.layer, parameters.streams, "sparse").memory * parameters.file_size
    carried = math.inf if parameters.bandwidth is None else round(parameters.bandwidth * BYTES * seconds)
    return int(min(files, carried))


def cells_to_retry(measurements: Sequence[CellResult], share: float) -> list[int]:
    """Return indices of cells to repeat: failed ones first, then those with the most and gravest CAUSES.

    Measurements are those of a deployment's cells. At most a `share` of them is chosen, rounded up.
    """
    work = [_work(cell) for cell in measurements]
    fastest = min((value for value in work if value > 0), default=math.nan)
    wrong = []
    for index, cell in enumerate(measurements):
        well, causes = cell.status == "ok", [cause not in cell.flags for cause in CAUSES]
        if not (well and all(causes)) or work[index] >= (1 + SLOWER) * fastest:
            wrong.append((well, causes, -work[index] if work[index] > 0 else 0.0, index))
    return [index for *_, index in sorted(wrong)[: math.ceil(share * len(measurements))]]


def better_measurement(earlier: CellResult, later: CellResult) -> CellResult:
    """Return the later of two measurements, unless it failed or has more warnings than the earlier one.

    Warnings in VARIATION do not count. If both have equally many and a CPU bound both, the measurement on the faster
    machine is returned. Its `others` describes the other measurement, too.
    """
    worse = (_faults(later), _work(later)) > (_faults(earlier), _work(earlier))
    kept, other = (earlier, later) if worse else (later, earlier)
    return dataclasses.replace(kept, others=[*earlier.others, other.as_other()])


def _work(cell: CellResult) -> float:
    """Return the time for a fixed piece of work in ms; NaN if unknown, or if no CPU bound the cell."""
    bound = cell.limit is not None and cell.limit.binding in CPU_LIMITS
    work = cell.summary.machine_work if bound else None
    return math.nan if work is None else float(work)


def _faults(cell: CellResult) -> tuple[bool, int, int]:
    flags = set(cell.flags) - VARIATION
    return cell.status != "ok", len(graded(flags, "invalid")), len(graded(flags, "warning"))
