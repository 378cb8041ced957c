# SPDX-License-Identifier: Apache-2.0
"""A sweep to which something is done at a random moment, again and again, and what of it is wrong afterwards.

An iteration removes some of a sweep's cells, has them measured, does something meanwhile, lets that run end as it may,
and runs the sweep once more. Then every cell must be there and be what it says, measured once; nothing of a deployment
may have stayed, and nothing of others may have gone. What is done to deployments is the testbed's affair; what is done
to Snakemake, to its job and to files is the same everywhere.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

import orjson
import psutil
from tpcsweep.configuration.loading import Configuration, wanted

from tests.support.ledger import Ledger, mistake, read
from tests.support.workflow import Sweep, finished, wait_until

START = 8.0
"""Seconds in which a run has read its rules and planned, about."""
SAID = 8000
"""Characters of what runs have said that are shown where there was something to count: their ends."""
ROOM = "64m"
"""For results, which some faults fill."""
AXES = {"origins": [1, 2], "streams": [1, 2]}
COUNTED = ("leaked", "gone", "lost", "repeated", "wrong", "hung", "left")
"""What there may be none of: things of deployments that stayed, things of others that went, measurements that were lost
or made again, cells that are not what they say, runs that did not end, sweeps that another run did not complete."""


class Pace(NamedTuple):
    """How long things take on a testbed, in seconds."""

    deploying: float
    """In which a deployment comes up, about."""
    cell: float
    """Of a cell."""
    goes: float
    """Within which what a run has deployed is gone when it has ended."""
    hangs: float
    """After which a run hangs."""


class Target(Protocol):
    """A testbed that deployments are broken on."""

    faults: Sequence[Fault]
    """What can be done to its deployments."""
    parameters: Mapping[str, str]
    """What its cells have beside what they differ in."""
    pace: Pace

    def sweep(self, folder: Path) -> Sweep:
        """Give a sweep of that testbed in a folder, without its file."""

    def configuration(self, sweep: Sweep) -> Configuration:
        """Give what its command configures."""

    def up(self) -> bool:
        """Whether anything of a deployment is there."""

    def present(self) -> dict[str, set[str]]:
        """Give what is there that a deployment could have made."""

    def bystanders(self) -> AbstractContextManager[Callable[[], list[str]]]:
        """Keep things that are like those of deployments and are not; what is given says which of them have gone."""


@dataclass
class Run:
    """A run of Snakemake that something is done to."""

    sweep: Sweep
    ledger: Ledger
    random: Random
    process: subprocess.Popen[bytes]
    done: str = ""
    """What was done, for people."""

    @property
    def ended(self) -> bool:
        """Whether Snakemake has."""
        return self.process.poll() is not None

    def jobs(self) -> list[psutil.Process]:
        """The processes of its jobs that deploy."""
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(self.process.pid).children(recursive=True)
            return [child for child in children if "deployment.py" in " ".join(_command(child))]
        return []


class Fault(NamedTuple):
    """Something that is done to a run."""

    name: str
    kind: str
    """Of what kind it is: kill, stop, fill, cut or corrupt."""
    act: Callable[[Run], None]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def lasting(run: Run, *choices: float) -> float:
    """Choose for how many seconds something is done."""
    seconds = run.random.choice(choices)
    run.done += f" for {seconds:g} s"
    return seconds


def signalled(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


def stopped(run: Run, *processes: psutil.Process) -> None:
    """Stop processes for a moment that is short or long."""
    seconds = lasting(run, 0.3, 1.0, 3.0, 12.0)
    for process in processes:
        signalled(process, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        for process in processes:
            signalled(process, signal.SIGCONT)


def filled(run: Run, folder: Path) -> None:
    """Leave no room where a folder is, for some seconds; what is given back meanwhile is taken too."""
    over = time.monotonic() + run.random.uniform(1.0, 5.0)
    target = folder / "filled"
    with contextlib.suppress(FileNotFoundError):  # the folder has gone
        with target.open("wb") as file:
            while time.monotonic() < over:
                with contextlib.suppress(OSError):
                    free = shutil.disk_usage(folder).free
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), max(1, free))
                time.sleep(0.02)
        target.unlink()


def _to_snakemake(number: signal.Signals) -> Callable[[Run], None]:
    return lambda run: run.process.send_signal(number)


def _to_all(number: signal.Signals) -> Callable[[Run], None]:
    """As from a terminal, or by whoever ends a whole session."""
    return lambda run: os.killpg(run.process.pid, number)


def _to_jobs(number: signal.Signals) -> Callable[[Run], None]:
    def act(run: Run) -> None:
        for job in run.jobs():
            signalled(job, number)

    return act


def _stop_snakemake(run: Run) -> None:
    stopped(run, psutil.Process(run.process.pid))


def _stop_job(run: Run) -> None:
    for job in run.jobs()[:1]:
        stopped(run, job)


def _results_full(run: Run) -> None:
    filled(run, run.sweep.results.parent)


Damage = Callable[[bytes, Random], bytes]


def _truncated(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def _garbled(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content))
    return content[:place] + random.randbytes(64) + content[place + 64 :]


def _not_a_number(content: bytes, _: Random) -> bytes:
    return content.replace(b'"throughput":', b'"throughput":NaN,"before":', 1)


def _shortened(content: bytes, _: Random) -> bytes:
    cell = orjson.loads(content)
    cell["samples"]["goodput"] = cell["samples"]["goodput"][:-1]
    return orjson.dumps(cell)


def _without(content: bytes, random: Random) -> bytes:
    cell = orjson.loads(content)
    del cell[random.choice([key for key in cell if key != "spec"])]
    return orjson.dumps(cell)


def _edited(content: bytes, _: Random) -> bytes:
    cell = orjson.loads(content)
    cell["summary"] |= {
        name: 3 * (cell["summary"][name] or 1) for name in ("throughput", "throughput_average")
    }
    return orjson.dumps(cell)


def _emptied(_: bytes, __: Random) -> bytes:
    return b""


def _damaged(damage: Damage) -> Callable[[Run], None]:
    """Damage one of the cells that are there, or what is kept of one, in its place or by another file."""

    def act(run: Run) -> None:
        there = [cell for cell in run.ledger.wanted if run.ledger.file(cell).is_file()]
        if not there:
            return
        cell = run.random.choice(there)
        file, in_place = run.ledger.file(cell), run.random.random() < 0.5
        run.done += f" {cell}{' in place' if in_place else ''}"

        def damaged() -> None:
            with contextlib.suppress(FileNotFoundError, orjson.JSONDecodeError, KeyError):
                content = damage(file.read_bytes(), run.random)
                target = file if in_place else file.with_name(".damaged")
                target.write_bytes(content)
                target.replace(file)

        run.ledger.destroyed([cell], damaged)

    return act


def _removed(run: Run) -> None:
    for cell in run.random.sample(list(run.ledger.wanted), 1):
        run.done += f" {cell}"
        run.ledger.destroyed([cell], partial(run.ledger.file(cell).unlink, missing_ok=True))


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


FAULTS = (
    Fault("snakemake is killed", "kill", _to_snakemake(signal.SIGKILL)),
    Fault("the job is killed", "kill", _to_jobs(signal.SIGKILL)),
    Fault("snakemake and the job are killed", "kill", _to_all(signal.SIGKILL)),
    Fault("Ctrl-C", "kill", _to_all(signal.SIGINT)),
    Fault("snakemake is asked to end", "kill", _to_snakemake(signal.SIGTERM)),
    Fault("the job is asked to end", "kill", _to_jobs(signal.SIGTERM)),
    Fault("the terminal is gone", "kill", _to_all(signal.SIGHUP)),
    Fault("snakemake is stopped", "stop", _stop_snakemake),
    Fault("the job is stopped", "stop", _stop_job),
    Fault("results have no room", "fill", _results_full),
    Fault("a cell is removed", "corrupt", _removed),
    Fault("cells are swapped", "corrupt", _swapped),
    Fault("a cell is cut short", "corrupt", _damaged(_truncated)),
    Fault("a cell is emptied", "corrupt", _damaged(_emptied)),
    Fault("a cell is garbled", "corrupt", _damaged(_garbled)),
    Fault("a cell has no number", "corrupt", _damaged(_not_a_number)),
    Fault("a cell lacks a sample", "corrupt", _damaged(_shortened)),
    Fault("a cell lacks a key", "corrupt", _damaged(_without)),
    Fault("a cell's figure is edited", "corrupt", _damaged(_edited)),
)
"""What is done on every testbed."""


@dataclass
class Tally:
    """What was counted of each fault, over its iterations."""

    iterations: Counter[str] = field(default_factory=Counter)
    landed: Counter[str] = field(default_factory=Counter)
    """Those in which the run was still under way."""
    found: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in COUNTED})

    @property
    def clean(self) -> bool:
        """Whether there was nothing of what there may be none of."""
        return not any(counter.total() for counter in self.found.values())

    def table(self, faults: Sequence[Fault]) -> str:
        """Tabulate it in Markdown, a row for each fault that was tried, and one for all."""
        lines = [
            f"| what was done | iterations | while it ran | {' | '.join(COUNTED)} |",
            "|---" * (len(COUNTED) + 3) + "|",
        ]
        for fault in faults:
            if self.iterations[fault.name]:
                counts = [
                    counter[fault.name] for counter in (self.iterations, self.landed, *self.found.values())
                ]
                lines.append(f"| {fault.name} | {' | '.join(map(str, counts))} |")
        totals = [counter.total() for counter in (self.iterations, self.landed, *self.found.values())]
        return "\n".join([*lines, f"| all | {' | '.join(map(str, totals))} |"])


class Campaign:
    """Iterations of one sweep on one testbed."""

    def __init__(self, target: Target, folder: Path, seed: int) -> None:
        """`folder` is for the sweep. What its results are on is filled: it should be small, and nothing else there."""
        self.tally = Tally()
        self.faults = (*FAULTS, *target.faults)
        self._target = target
        self._seed = seed
        self._sweep = target.sweep(folder).define(
            parameters={**target.parameters, **AXES},
            measurement={"until": "seconds", "seconds": f"{target.pace.cell:g} s", "interval": "20 ms"},
            again=0,  # or the better of two measurements would take the place of one that was well
        )
        configuration = target.configuration(self._sweep)
        cells = {cell.path: wanted(configuration, cell) for cell in configuration.grid.cells}
        self.ledger = Ledger(self._sweep.results, cells)
        self._reference: dict[str, float] = {}

    def run(self, seconds: float) -> None:
        """Iterate for so long, with each fault in turn, in an order of each turn's own."""
        over = time.monotonic() + seconds
        with self._target.bystanders() as gone, self.ledger.watching():
            before = self._target.present()
            self._refer()
            for turn in itertools.count():
                order = Random(f"{self._seed} {turn}").sample(self.faults, len(self.faults))
                for fault in order:
                    if time.monotonic() > over:
                        return
                    self._iterate(fault, Random(f"{self._seed} {turn} {fault.name}"), before, gone)

    def _refer(self) -> None:
        """Measure all without doing anything to it."""
        done = self._finished("cells")
        assert done.returncode == 0, done.stdout
        for cell in self.ledger.wanted:
            content = read(self.ledger.file(cell)) or {}
            assert content.get("status") == "ok", content.get("message", cell)
            self._reference[cell] = content["summary"]["throughput"]

    def _iterate(
        self,
        fault: Fault,
        random: Random,
        before: dict[str, set[str]],
        gone: Callable[[], list[str]],
    ) -> None:
        self._prepare(random)
        run = Run(self._sweep, self.ledger, random, self._sweep.start("cells"), fault.name)
        moment = self._wait(run, early=fault in FAULTS)
        landed = not run.ended
        with contextlib.suppress(
            FileNotFoundError, ProcessLookupError, psutil.Error
        ):  # it has gone meanwhile
            fault.act(run)
        found = {name: list[str]() for name in COUNTED}
        if not self._ends(run):
            found["hung"].append("the run to which it was done")
        said = self._sweep.output()
        found["lost"] = [str(each) for each in self.ledger.missing()]
        if random.random() < 0.3:
            said += self._finished("reap").stdout
        # To the dataset where a file may be damaged: at the latest that is found when cells are folded, and measured by
        # the run after. At once, while the job of one that was killed may still be ending.
        target = "dataset" if fault.kind == "corrupt" else "cells"
        for _ in range(3):
            done = self._finished(target)
            said += done.stdout
            if done.returncode == 0 and not self.ledger.unmeasured():
                break
        else:
            found["left"] = [f"another run ended with {done.returncode}", *self.ledger.unmeasured()]
        found["repeated"] = [str(each) for each in self.ledger.repeated()]
        found["wrong"] = self.ledger.wrong(self._reference)
        found["leaked"] = self._stayed(before)
        found["gone"] = gone()
        self._note(fault, landed, f"{run.done}, {moment}", found)
        if any(found.values()):
            sys.stderr.write(said[-SAID:])

    def _prepare(self, random: Random) -> None:
        """Remove some cells, all those among them that nobody would keep, lest they are counted again."""
        cells = list(self.ledger.wanted)
        chosen = set(random.sample(cells, random.randint(1, len(cells))))
        for cell, spec in self.ledger.wanted.items():
            file = self.ledger.file(cell)
            content = read(file) or {}
            if cell in chosen or content.get("status") != "ok" or mistake(file, spec, self._reference[cell]):
                self.ledger.destroyed([cell], partial(file.unlink, missing_ok=True))
        # A link that a run has not needed is of an earlier iteration.
        shutil.rmtree(self._sweep.results / "rescued", ignore_errors=True)

    def _wait(self, run: Run, *, early: bool) -> str:
        """Wait for a random moment of a run, an `early` one also before there is any deployment; say which it was."""
        pace = self._target.pace
        stages = ("started", START), ("deploying", pace.deploying), ("measured", pace.cell)
        stage, longest = run.random.choice(stages if early else stages[1:])
        count = run.random.randint(1, 3)
        at_first = {file: file.stat().st_ino for file in self._sweep.cells()}

        def reached() -> bool:
            if stage == "started":
                return True
            if stage == "deploying":
                return self._target.up()
            now = {file: file.stat().st_ino for file in self._sweep.cells()}
            return len(now.items() - at_first.items()) >= count

        give_up = time.monotonic() + pace.hangs
        while not run.ended and time.monotonic() < give_up:
            with contextlib.suppress(FileNotFoundError):
                if reached():
                    break
            time.sleep(0.02)
        late = run.random.uniform(0, longest)
        time.sleep(late)
        return f"{late:.2f} s after {stage}{f' {count} cells' if stage == 'measured' else ''}"

    def _ends(self, run: Run) -> bool:
        """Whether a run ends; one that hangs is killed, with its jobs."""
        try:
            run.process.wait(self._target.pace.hangs)
        except subprocess.TimeoutExpired:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
            return False
        return True

    def _finished(self, target: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end, without doing anything to it."""
        command, hangs = self._sweep.command(target), self._target.pace.hangs
        try:
            return finished(command, hangs)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, -1, f"no end after {hangs:g} s\n")

    def _stayed(self, before: dict[str, set[str]]) -> list[str]:
        """What has stayed of deployments, when there was time for it to go. It is not given again."""

        def left() -> dict[str, set[str]]:
            now = self._target.present()
            return {what: stayed for what, names in now.items() if (stayed := names - before[what])}

        with contextlib.suppress(AssertionError):
            wait_until(lambda: not left(), "nothing has stayed", self._target.pace.goes)
        found = left()
        for what, names in found.items():
            before[what] |= names
        return sorted(f"{what}: {name}" for what, names in found.items() for name in names)

    def _note(self, fault: Fault, landed: bool, done: str, found: dict[str, list[str]]) -> None:
        self.tally.iterations[fault.name] += 1
        self.tally.landed[fault.name] += landed
        for name, each in found.items():
            self.tally.found[name][fault.name] += len(each)
        number = self.tally.iterations.total()
        outcome = "; ".join(f"{name}: {', '.join(each)}" for name, each in found.items() if each) or "well"
        sys.stderr.write(f"{number}: {done}{'' if landed else ' (the run had ended)'}: {outcome}\n")


def campaign(target: Target, folder: Path, minutes: float, seed: int) -> Tally:
    """Iterate for some minutes, and write the table. A seed makes the same choices; moments are never the same."""
    sys.stderr.write(f"seed {seed}, {minutes:g} min\n")
    whole = Campaign(target, folder, seed)
    try:
        whole.run(60 * minutes)
    finally:
        sys.stdout.write(whole.tally.table(whole.faults) + "\n")
    return whole.tally


def main(description: str | None, made: Callable[[Path], AbstractContextManager[Target]]) -> int:
    """Iterate as the command line says, on the target that is made with a folder for what it needs; the exit status."""
    asked = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("minutes", type=float, nargs="?", default=30.0)
    asked.add_argument("seed", type=int, nargs="?", default=int(time.time()))
    given = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))  # in order, as by Ctrl-C
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))
    results = folder / "results"
    results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "campaign", str(results)], check=True)
    try:
        with made(folder) as target:
            return 0 if campaign(target, folder, given.minutes, given.seed).clean else 1
    finally:
        subprocess.run(["umount", "--lazy", str(results)], check=True)
        shutil.rmtree(folder)


@contextlib.contextmanager
def sleeping(command: Sequence[str]) -> Iterator[psutil.Process]:
    """A process that does nothing, started by the beginning of a command line."""
    process = subprocess.Popen([*command, "sleep", "infinity"], start_new_session=True)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def lives(process: psutil.Process) -> bool:
    """Whether a process is there and can run."""
    with contextlib.suppress(psutil.Error):
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED)
    return False
