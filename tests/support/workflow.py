# SPDX-License-Identifier: Apache-2.0
"""Run the workflow as a user does: `snakemake` from the repository's root, with results elsewhere."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[2]
TPCSWEEP = [sys.executable, "-c", "from tpcsweep.cli import main; main()"]
"""The command line of `tpcsweep`, without its options."""
HANGS = 1800.0
"""Seconds after which a command hangs: a busy machine takes several times as long as an idle one."""


@dataclass(frozen=True)
class Sweep:
    """A sweep of a test's own, with its results in the test's folder."""

    folder: Path
    name: str = "probe"

    def define(self, **content: object) -> Sweep:
        """Write the sweep's file."""
        (self.folder / f"{self.name}.yaml").write_text(yaml.safe_dump(content))
        return self

    @property
    def results(self) -> Path:
        """Where its results go."""
        return self.folder / "results" / self.name

    def command(self, *arguments: str) -> list[str]:
        """The command line; targets and flags go in `arguments`."""
        config = [f"sweep={self.folder / self.name}.yaml", f"results={self.folder / 'results'}"]
        snakemake = [sys.executable, "-m", "snakemake"]
        return [*snakemake, *arguments, "--config", *config]

    def asking(self, *arguments: str) -> list[str]:
        """Return a command line of `tpcsweep` about this sweep."""
        return [
            *TPCSWEEP,
            *arguments,
            "--sweep",
            f"{self.folder / self.name}.yaml",
            "--results",
            f"{self.folder}/results",
        ]

    def run(self, *arguments: str, timeout: float = HANGS) -> subprocess.CompletedProcess[str]:
        """Run to the end; standard error is in `stdout` too."""
        return finished(self.command(*arguments), timeout)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start it in a session of its own, as a terminal would; its output goes to `output.log`."""
        with (self.folder / "output.log").open("wb") as output:
            return subprocess.Popen(
                self.command(*arguments),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def output(self) -> str:
        """What a started run has said so far."""
        return (self.folder / "output.log").read_text()

    def cells(self) -> list[Path]:
        """Return the files of cells in their places."""
        return sorted((self.results / "cells").rglob("*.json"))

    def staged(self) -> list[Path]:
        """Return the files of cells in staging."""
        return sorted((self.results / "staging").rglob("*.json"))


def finished(
    command: list[str], timeout: float = HANGS, *, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; standard error is in `stdout` too."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout,
    )


def wait_until(condition: Callable[[], object], what: str, seconds: float = 600.0) -> None:
    """Poll, and fail the test when it does not come true, however busy the machine is."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether a process has ended, though nobody may have asked after it yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
