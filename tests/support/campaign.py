# SPDX-License-Identifier: Apache-2.0
"""A sweep to which something is done at a random moment, again and again, and what of it is wrong afterwards.

An iteration removes some of a sweep's cells, or changes a parameter of all, starts a run, does something to that run
and runs the sweep again until it is complete. Then every cell must exist, must have been measured once, and must have
the same figure in the dataset; nothing of a deployment may be left, and nothing of others may be gone. Each testbed has
its own faults of deployments; the faults of Snakemake, of its jobs and of files are the same for all.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson
import psutil
import xarray as xr
from tpcsweep.sweeps.study import SweepStudy, cell_spec

from tests.support.ledger import Ledger, mistake, read
from tests.support.workflow import Sweep, fill, finished, jobs, wait_until

Present = dict[str, set[str]]
START = 8.0  # seconds in which a run has read its rules and planned, about
ROOM = "64m"  # for results, which some faults fill
AXES = {"origins": [1, 2], "streams": [1, 2]}
RUNS = 4  # runs after a fault: the first one may set cells aside, and the second one measures them
TRIED = ("iterations", "while it ran")
COUNTED = ("leaked", "gone", "lost", "repeated", "wrong", "hung", "left")
"""What there may be none of: things of deployments that stayed, things of others that went, measurements that were lost
or made again, cells that are not what they say, runs that did not end, sweeps that another run did not complete."""


class Pace(NamedTuple):
    """How long things take on a testbed, in seconds."""

    deploying: float  # until a deployment is up, about
    cell: float
    goes: float  # until nothing is left of what a run has deployed
    hangs: float  # after which a run hangs


class Target(Protocol):
    """A testbed that deployments are broken on."""

    faults: Sequence[Fault]
    parameters: Mapping[str, str]
    changing: tuple[str, str, str]  # the fixed parameter that faults change, and its two values
    pace: Pace

    def sweep(self, folder: Path) -> Sweep: ...  # in that folder, without the sweep's file
    def configuration(self, sweep: Sweep) -> SweepStudy: ...
    def up(self) -> bool: ...  # whether anything of a deployment is there
    def present(self) -> Present: ...  # what is there that a deployment could have made
    def bystanders(self) -> AbstractContextManager[Callable[[], list[str]]]:
        """Keep things that are like those of deployments and are not; what is given says which of them have gone."""


@dataclass
class Run:
    sweep: Sweep
    ledger: Ledger
    random: Random
    process: subprocess.Popen[bytes]
    change: Callable[[], None]  # changes the sweep's fixed parameter, or changes it back
    done: str = ""  # what was done, for people

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def jobs(self) -> list[psutil.Process]:
        return jobs(self.process, recursive=True)


class Fault(NamedTuple):
    name: str
    kind: str  # kill, stop, fill, cut, corrupt (a cell in its place), staging or change
    act: Callable[[Run], None]
    stale: bool = False
    """Whether the run measures all cells again, because a parameter has changed. Otherwise some cells are removed."""


def lasting(run: Run, *choices: float) -> float:
    seconds = run.random.choice(choices)
    run.done += f" for {seconds:g} s"
    return seconds


def signalled(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


def stopped(run: Run, *processes: psutil.Process) -> None:
    seconds = lasting(run, 0.3, 1.0, 3.0, 12.0)
    for process in processes:
        signalled(process, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        for process in processes:
            signalled(process, signal.SIGCONT)


def filled(run: Run, folder: Path) -> None:
    over = time.monotonic() + run.random.uniform(1.0, 5.0)
    with contextlib.suppress(FileNotFoundError):  # the folder has gone
        fill(folder, lambda: time.monotonic() > over)


def _to_snakemake(number: signal.Signals, run: Run) -> None:
    run.process.send_signal(number)


def _to_all(number: signal.Signals, run: Run) -> None:
    """As from a terminal, or by anyone who ends a whole session."""
    os.killpg(run.process.pid, number)


def _to_jobs(number: signal.Signals, run: Run) -> None:
    for job in run.jobs():
        signalled(job, number)


def _damaged(damage: str, content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content) or 1)
    match damage:
        case "a cell is cut short":
            return content[:place]
        case "a cell is emptied":
            return b""
        case "a cell is garbled":
            return content[:place] + random.randbytes(64) + content[place + 64 :]
        case "a cell has no number":
            return content.replace(b'"throughput":', b'"throughput":NaN,"before":', 1)
    cell = orjson.loads(content)
    match damage:
        case "a cell lacks a sample":
            cell["samples"]["goodput"].pop()
        case "a cell lacks a key":
            del cell[random.choice([key for key in cell if key != "spec"])]
        case "a cell's figure is edited":
            for name in ("throughput", "throughput_average"):
                cell["summary"][name] = 3 * (cell["summary"][name] or 1)
    return orjson.dumps(cell)


def _damage(damages: Sequence[str], staged: bool, run: Run) -> None:
    """Damage the file of one cell, in its place or in staging, by writing to it or by replacing it."""
    file_of = run.ledger.staged if staged else run.ledger.file
    there = [cell for cell in run.ledger.wanted if file_of(cell).is_file()]
    damage, cell, in_place = run.random.choice(damages), run.random.choice(there), run.random.random() < 0.5
    file = file_of(cell)
    run.done += f" {cell}{' in place' if in_place else ''}"

    def act() -> None:
        with contextlib.suppress(FileNotFoundError, orjson.JSONDecodeError, KeyError):
            content = _damaged(damage, file.read_bytes(), run.random)
            target = file if in_place else file.with_name(".damaged")
            target.write_bytes(content)
            target.replace(file)

    run.ledger.destroyed([cell], act)


def _unlink(run: Run, cell: str) -> None:
    run.done += f" {cell}"
    run.ledger.destroyed([cell], partial(run.ledger.file(cell).unlink, missing_ok=True))


def _removed_as_its_job_ends(run: Run) -> None:
    """Remove a cell as soon as a job has copied it to its place: Snakemake then fails the job."""
    before = {cell: _inode(run.ledger.file(cell)) for cell in run.ledger.wanted}
    while not run.ended:
        for cell, inode in before.items():
            if _inode(run.ledger.file(cell)) not in (None, inode):
                _unlink(run, cell)
                return
        time.sleep(0.001)


def _inode(file: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return file.stat().st_ino
    return None


def _staging_removed(run: Run) -> None:
    staged = [cell for cell in run.ledger.wanted if run.ledger.staged(cell).is_file()]
    run.done += f" {' and '.join(staged)}"
    folder = run.sweep.results / "staging"
    run.ledger.destroyed(staged, partial(shutil.rmtree, folder, ignore_errors=True))


def _change(times: int, run: Run) -> None:
    for _ in range(times):
        run.change()
        time.sleep(lasting(run, 0.3, 1.0, 3.0))


def _swapped(run: Run) -> None:
    first, second = run.random.sample(list(run.ledger.wanted), 2)
    run.done += f" {first} and {second}"

    def act() -> None:
        files = [run.ledger.file(cell) for cell in (first, second)]
        with contextlib.suppress(FileNotFoundError):
            contents = [file.read_bytes() for file in files]
            for file, content in zip(files, reversed(contents), strict=True):
                file.write_bytes(content)

    run.ledger.destroyed([first, second], act)


STAGED = "a cell is cut short", "a cell is emptied", "a cell is garbled", "a cell lacks a key"
DAMAGES = *STAGED, "a cell has no number", "a cell lacks a sample", "a cell's figure is edited"
_stale = partial(Fault, stale=True)
FAULTS = (
    Fault("snakemake is killed", "kill", partial(_to_snakemake, signal.SIGKILL)),
    Fault("the job is killed", "kill", partial(_to_jobs, signal.SIGKILL)),
    Fault("snakemake and the job are killed", "kill", partial(_to_all, signal.SIGKILL)),
    Fault("Ctrl-C", "kill", partial(_to_all, signal.SIGINT)),
    Fault("snakemake is asked to end", "kill", partial(_to_snakemake, signal.SIGTERM)),
    Fault("the job is asked to end", "kill", partial(_to_jobs, signal.SIGTERM)),
    Fault("the terminal is gone", "kill", partial(_to_all, signal.SIGHUP)),
    Fault("snakemake is stopped", "stop", lambda run: stopped(run, psutil.Process(run.process.pid))),
    Fault("the job is stopped", "stop", lambda run: stopped(run, *run.jobs()[:1])),
    Fault("results have no room", "fill", lambda run: filled(run, run.sweep.results.parent)),
    Fault("a cell is removed", "corrupt", lambda run: _unlink(run, run.random.choice([*run.ledger.wanted]))),
    Fault("a cell is removed as its job ends", "staging", _removed_as_its_job_ends),
    Fault("cells are swapped", "corrupt", _swapped),
    *(Fault(damage, "corrupt", partial(_damage, [damage], False)) for damage in DAMAGES),
    Fault("a staged cell is damaged", "staging", partial(_damage, STAGED, True)),
    Fault("staging is removed", "staging", _staging_removed),
    Fault("a parameter is changed", "change", partial(_change, 1)),
    Fault("a parameter is changed and changed back", "change", partial(_change, 2)),
    _stale("snakemake is killed as it measures stale cells", "kill", partial(_to_snakemake, signal.SIGKILL)),
    _stale("the job is killed as it measures stale cells", "kill", partial(_to_jobs, signal.SIGKILL)),
    _stale("all are killed as they measure stale cells", "kill", partial(_to_all, signal.SIGKILL)),
    _stale("Ctrl-C as stale cells are measured", "kill", partial(_to_all, signal.SIGINT)),
    _stale("a stale cell is removed as its job ends", "staging", _removed_as_its_job_ends),
    _stale("a staged cell of stale ones is damaged", "staging", partial(_damage, STAGED, True)),
    _stale("a parameter is changed back as stale cells are measured", "change", partial(_change, 1)),
)


class Campaign:
    def __init__(self, target: Target, folder: Path, seed: int) -> None:
        """`folder` is for the sweep. What its results are on is filled: it should be small, and nothing else there."""
        self._faults = (*FAULTS, *target.faults)
        self.counts = {fault.name: Counter[str]() for fault in self._faults}
        """How often anything was counted, by the name of what was done."""
        self._target = target
        self._seed = seed
        self._sweep = target.sweep(folder)
        self._value = 0  # the index of the present value of the parameter that changes
        self._references: dict[int, dict[str, float]] = {}
        """The throughput of each cell without a fault, Gbit/s, for each value of that parameter."""
        self._define()
        self.ledger = Ledger(self._sweep.results, self._wanted())

    def run(self, seconds: float, iterations: int) -> None:
        """Iterate for so long or so often, with each fault in turn, in a random order in each turn."""
        over, left = time.monotonic() + seconds, iter(range(iterations))
        with self._target.bystanders() as gone, self.ledger.watching():
            before = self._target.present()
            for _ in range(2):
                self._refer()
                self._change()
                self.ledger.want(self._wanted())
            for turn in itertools.count():
                order = Random(f"{self._seed} {turn}").sample(self._faults, len(self._faults))
                for fault in order:
                    if time.monotonic() > over or next(left, None) is None:
                        return
                    self._iterate(fault, Random(f"{self._seed} {turn} {fault.name}"), before, gone)

    def clean(self) -> bool:
        return not any(counter[name] for counter in self.counts.values() for name in COUNTED)

    def table(self) -> str:
        """Tabulate the counts in Markdown, a row for each fault that was tried, and one for all."""
        columns = *TRIED, *COUNTED
        tried = {name: counter for name, counter in self.counts.items() if counter["iterations"]}
        tried["all"] = sum(tried.values(), Counter[str]())
        rows: list[Sequence[object]] = [["what was done", *columns], ["---"] * (1 + len(columns))]
        rows += [[name, *(counter[column] for column in columns)] for name, counter in tried.items()]
        return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)

    def _define(self) -> None:
        pace, (name, *values) = self._target.pace, self._target.changing
        self._sweep.define(
            parameters={**self._target.parameters, **AXES, name: values[self._value]},
            measurement={"until": "seconds", "seconds": f"{pace.cell:g} s", "interval": "20 ms"},
            retry_share=0,  # otherwise the better of two measurements would replace a good one
        )

    def _change(self) -> None:
        self._value = 1 - self._value
        self._define()

    def _wanted(self) -> dict[str, dict[str, Any]]:
        configuration = self._target.configuration(self._sweep)
        return {cell.path: cell_spec(configuration, cell) for cell in configuration.grid.cells}

    def _refer(self) -> None:
        assert self._end(self._start()) == 0, self._sweep.output()
        measured = self._references.setdefault(self._value, {})
        for cell in self.ledger.wanted:
            content = read(self.ledger.file(cell)) or {}
            assert content.get("status") == "ok", content.get("message", cell)
            measured[cell] = content["summary"]["throughput"]

    def _iterate(self, fault: Fault, random: Random, before: Present, gone: Callable[[], list[str]]) -> None:
        self._prepare(random, stale=fault.stale)
        value = self._value
        started = self._start()
        run = Run(self._sweep, self.ledger, random, started, self._change, fault.name)
        moment = self._wait(run, early=fault in FAULTS)
        landed = not run.ended
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, psutil.Error, IndexError):
            fault.act(run)  # on what is there
        found = {"hung": [] if self._end(started) is not None else ["the run to which it was done"]}
        said = self._sweep.output()
        if fault.kind == "change" or value != self._value:  # jobs may have replaced cells of either value
            self.ledger.want(self._wanted())
        found["lost"] = [str(each) for each in self.ledger.missing()]
        if random.random() < 0.3:
            said += finished(self._sweep.asking("reap"), self._target.pace.hangs).stdout
        # At once: the job of a killed Snakemake may still be ending.
        for _ in range(RUNS):
            status = self._end(self._start())
            said += self._sweep.output()
            if status == 0:
                break
        if status or self.ledger.unmeasured():  # no run ends with 0 while a cell is not whole
            found["left"] = [f"another run ended with {status}", *self.ledger.unmeasured()]
        found["repeated"] = [str(each) for each in self.ledger.repeated()]
        found["wrong"] = [*self.ledger.wrong(self._references[self._value]), *self._mislabelled()]
        found["leaked"] = self._stayed(before)
        found["gone"] = gone()
        counted = {"iterations": 1, "while it ran": int(landed)}
        self.counts[fault.name].update(counted | {name: len(each) for name, each in found.items()})
        number = sum(counter["iterations"] for counter in self.counts.values())
        outcome = "; ".join(f"{name}: {', '.join(each)}" for name, each in found.items() if each)
        over = "" if landed else " (the run had ended)"
        sys.stderr.write(f"{number}: {run.done}, {moment}{over}: {outcome or 'well'}\n")
        if outcome:
            sys.stderr.write(said[-8000:])

    def _prepare(self, random: Random, *, stale: bool) -> None:
        """Make all cells stale, or remove some: also the failed ones, which are to be kept by no run."""
        if stale:
            self._change()
            self.ledger.want(self._wanted())
            return
        cells, reference = list(self.ledger.wanted), self._references[self._value]
        chosen = set(random.sample(cells, random.randint(1, len(cells))))
        for cell, spec in self.ledger.wanted.items():
            file = self.ledger.file(cell)
            is_whole = (read(file) or {}).get("status") == "ok" and not mistake(file, spec, reference[cell])
            if cell in chosen or not is_whole:
                self.ledger.destroyed([cell], partial(file.unlink, missing_ok=True))
        shutil.rmtree(self._sweep.results / "staging", ignore_errors=True)

    def _mislabelled(self) -> list[str]:
        """Return the cells whose figures in the dataset are not those of their files."""
        configuration = self._target.configuration(self._sweep)
        try:
            throughput = xr.load_dataset(self._sweep.results / "dataset.nc").throughput
        except OSError as error:
            return [f"the dataset: {error}"]
        wrong = []
        for cell in configuration.grid.cells:
            place = {**cell.parameters.model_dump(), "repetition": cell.repetition}
            there = float(throughput.sel({name: place[str(name)] for name in throughput.dims}))
            content = read(self.ledger.file(cell.path)) or {}
            # Bytes that arrived before a cell failed are no throughput in the dataset.
            file = content["summary"].get("throughput") if content.get("status") == "ok" else None
            if not np.isclose(there, math.nan if file is None else file, rtol=1e-9, atol=0, equal_nan=True):
                wrong.append(f"{cell.path}: {file} Gbit/s in its file, {there} in the dataset")
        return wrong

    def _start(self) -> subprocess.Popen[bytes]:
        # Snakemake does not recreate a missing cell for the dataset alone.
        return self._sweep.start("cells", str(self._sweep.results / "dataset.nc"))

    def _wait(self, run: Run, *, early: bool) -> str:
        pace = self._target.pace
        stages = ("started", START), ("deploying", pace.deploying), ("measured", pace.cell)
        stage, longest = run.random.choice(stages if early else stages[1:])
        count = run.random.randint(1, 3)
        at_first = {_inode(file) for file in self.ledger.files()}

        def reached() -> bool:
            if stage == "measured":
                return len({_inode(file) for file in self.ledger.files()} - at_first) >= count
            with contextlib.suppress(FileNotFoundError):
                return stage == "started" or self._target.up()
            return False

        with contextlib.suppress(AssertionError):
            wait_until(lambda: run.ended or reached(), stage, pace.hangs)
        late = run.random.uniform(0, longest)
        time.sleep(late)
        return f"{late:.2f} s after {stage}{f' {count} cells' if stage == 'measured' else ''}"

    def _end(self, process: subprocess.Popen[bytes]) -> int | None:
        """Return the status with which a run ends; None: it hung, and was killed with its jobs."""
        try:
            return process.wait(self._target.pace.hangs)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _stayed(self, before: Present) -> list[str]:
        """What has stayed of deployments, when there was time for it to go. It is not given again."""

        def left() -> Present:
            now = self._target.present()
            return {what: stayed for what, names in now.items() if (stayed := names - before[what])}

        with contextlib.suppress(AssertionError):
            wait_until(lambda: not left(), "nothing has stayed", self._target.pace.goes)
        found = left()
        for what, names in found.items():
            before[what] |= names
        return sorted(f"{what}: {name}" for what, names in found.items() for name in names)


def main(description: str | None, made: Callable[[Path], AbstractContextManager[Target]]) -> int:
    """Iterate as the command line says, on the target that is made with a folder for what it needs; the exit status.

    A seed makes the same choices; moments are never the same.
    """
    asked = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("--minutes", type=float, default=math.inf)
    asked.add_argument("--iterations", type=int, default=sys.maxsize)
    asked.add_argument("--seed", type=int, default=int(time.time()))
    given = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))  # in order, as by Ctrl-C
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))
    results = folder / "results"
    results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "campaign", str(results)], check=True)
    try:
        with made(folder) as target:
            sys.stderr.write(f"seed {given.seed}\n")
            campaign = Campaign(target, folder, given.seed)
            try:
                campaign.run(60 * given.minutes, given.iterations)
            finally:
                sys.stdout.write(campaign.table() + "\n")
            return 0 if campaign.clean() else 1
    finally:
        subprocess.run(["umount", "--lazy", str(results)], check=True)
        shutil.rmtree(folder)
