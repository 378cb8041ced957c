# SPDX-License-Identifier: Apache-2.0
"""The jobs of a run in Slurm's queue.

They are no children of their Snakemake and outlive it. So its results have a mark with the name that its jobs have in
the queue, and whoever has these results next ends them first.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tpcsweep.running.results import ResultsError

PATIENCE = 120.0
"""Seconds that jobs have to end in. Slurm kills them after its KillWait, which is 30 s unless a site says otherwise."""
_MARK = ".slurm-"


def note(folder: Path, run: str) -> None:
    """Mark a results folder with the name that the jobs of a run have in the queue."""
    (folder / f"{_MARK}{run}").touch()


def end(folder: Path, run: str = "*") -> int:
    """End the jobs of a run that has marked a results folder, or of all runs that have, and wait until they are gone.

    Returns:
        How many there were.

    Raises:
        ResultsError: Where Slurm does not answer, or jobs do not end.
    """
    ended = 0
    for mark in sorted(folder.glob(f"{_MARK}{run}")):
        name, give_up = mark.name.removeprefix(_MARK), time.monotonic() + PATIENCE
        jobs = _jobs(name, mark)
        if jobs:
            _ask("scancel", name, mark)
            ended += len(jobs)
        while jobs:
            if time.monotonic() > give_up:
                lasting = f"Slurm's jobs {', '.join(jobs)} of an ended snakemake have not gone"
                raise ResultsError(f"{folder}: {lasting} within {PATIENCE:.0f} s: see squeue, then run again")
            time.sleep(1.0)
            jobs = _jobs(name, mark)
        mark.unlink()
    return ended


def _jobs(name: str, mark: Path) -> Sequence[str]:
    """The jobs of that name that wait, run or are ending."""
    return _ask("squeue", name, mark, "--noheader", "--format=%i").split()


def _ask(command: str, name: str, mark: Path, *options: str) -> str:
    asked = [command, f"--name={name}", f"--user={os.geteuid()}", *options]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error.strerror
        unknown = f"a snakemake that has ended may have left jobs in Slurm's queue ({command}: {said})"
        what = "run where Slurm answers; delete the file if none are left"
        raise ResultsError(f"{mark}: {unknown}: {what}") from None
