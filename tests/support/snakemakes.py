# SPDX-License-Identifier: Apache-2.0
"""Snakemake's command line, again and again, in processes that have it loaded: for what is planned and not run."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.workflow import ROOT

LOADED = [
    "nbformat",
    "snakemake.cli",
    "snakemake.report.html_reporter",
    "tpcsweep.configuration.checks",
    "tpcsweep.running.internals",
    "tpcsweep.published.planned",
    "tpcsweep.running.rules",
    "tpcsweep.running.runner",
    "tpcsweep.testbeds.kubernetes.limits",
    "tpcsweep.testbeds.netns.limits",
]
"""What every process has from the one that it is forked from, instead of loading it for a second or two."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(LOADED)


def snakemake(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run `snakemake` in the repository's root to its end; standard error is in `stdout` too."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        process = _processes.Process(target=_main, args=(arguments, output))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["snakemake", *arguments], timeout, output.read_bytes())
        return subprocess.CompletedProcess(["snakemake", *arguments], process.exitcode, output.read_text())


def _main(arguments: tuple[str, ...], output: Path) -> None:
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(ROOT)
    sys.argv = ["snakemake", *arguments]
    from snakemake.cli import main  # type: ignore[import-untyped]

    main()
