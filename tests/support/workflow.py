# SPDX-License-Identifier: Apache-2.0
"""Run the workflow as a user does: `snakemake` from the repository's root, with results elsewhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

Environment = Mapping[str, str] | None
"""Of a process; None: that of this process."""
ROOT = Path(__file__).resolve().parents[2]
TPCSWEEP = [sys.executable, "-c", "from tpcsweep.cli import main; main()"]
"""The command line of `tpcsweep`, without its options."""
HANGS = 1800.0
"""Seconds after which a command hangs: a busy machine takes several times as long as an idle one."""


@dataclass(frozen=True)
class Sweep:
    folder: Path
    name: str = "probe"

    def define(self, **content: object) -> Sweep:
        """Write the sweep's file. Every run has the same order, unless `seed` says otherwise."""
        (self.folder / f"{self.name}.yaml").write_text(yaml.safe_dump({"seed": 0, **content}))
        return self

    @property
    def results(self) -> Path:
        return self.folder / "results" / self.name

    def command(self, *arguments: str) -> list[str]:
        """The command line; targets and flags go in `arguments`."""
        config = [f"sweep={self.folder / self.name}.yaml", f"results={self.folder / 'results'}"]
        snakemake = [sys.executable, "-m", "snakemake"]
        return [*snakemake, *arguments, "--config", *config]

    def asking(self, *arguments: str) -> list[str]:
        about = ["--sweep", f"{self.folder / self.name}.yaml", "--results", f"{self.folder}/results"]
        return [*TPCSWEEP, *arguments, *about]

    def run(self, *arguments: str, timeout: float = HANGS) -> subprocess.CompletedProcess[str]:
        return finished(self.command(*arguments), timeout)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start it as a terminal would; its output goes to `output.log`."""
        return started(self.command(*arguments), self.folder / "output.log")

    def output(self) -> str:
        return (self.folder / "output.log").read_text()

    def cells(self) -> list[Path]:
        return sorted((self.results / "cells").rglob("*.json"))

    def staged(self) -> list[Path]:
        return sorted((self.results / "staging").rglob("*.json"))


def finished(
    command: list[str], timeout: float = HANGS, *, cwd: Path = ROOT, env: Environment = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; standard error is in `stdout` too."""
    nothing, pipe, same = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    streams: dict[str, Any] = {"stdin": nothing, "stdout": pipe, "stderr": same, "text": True}
    return subprocess.run(command, cwd=cwd, env=env, timeout=timeout, check=False, **streams)


def succeeded(command: list[str], *, cwd: Path = ROOT, env: Environment = None) -> str:
    """Run a command that must end well, and return what it printed."""
    done = finished(command, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout
    return done.stdout


def started(command: list[str], output: Path, env: Environment = None) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, with its output in a file."""
    with output.open("wb") as file:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
        return subprocess.Popen(command, cwd=ROOT, env=env, **streams, start_new_session=True)


@contextlib.contextmanager
def background(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end of a `with`, if it has not ended by then."""
    with subprocess.Popen(command, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(
    condition: Callable[[], object], what: str, seconds: float = 600.0, pause: float = 0.02
) -> None:
    """Poll, and fail the test when it does not come true, however busy the machine is."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"not within {seconds:g} s: {what}"
        time.sleep(pause)


def free_port() -> int:
    """A port that nobody uses now: servers of other tests may run beside these."""
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def fill(folder: Path, over: Callable[[], bool], left: int = 0) -> None:
    """Leave no room, or so many bytes, where a folder is; what is given back meanwhile is taken too."""
    target = folder / "filled"
    with target.open("wb") as file:
        while not over():
            with contextlib.suppress(OSError):
                free = shutil.disk_usage(folder).free
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), max(1, free - left))
            time.sleep(0.02)
    target.unlink()


def jobs(snakemake: subprocess.Popen[bytes], *, recursive: bool = False) -> list[psutil.Process]:
    """The jobs of a run that deploy; `recursive`: and the processes forked from them."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(snakemake.pid).children(recursive):
            with contextlib.suppress(psutil.Error):
                if "deployment.py" in " ".join(process.cmdline()):
                    found.append(process)
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended, though nobody may have asked after it yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
