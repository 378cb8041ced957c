# SPDX-License-Identifier: Apache-2.0
"""Snakemake's command line in processes that have it loaded: a fork instead of seconds of imports."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.support.workflow import ROOT

LOADED = ["tests.support.warm", "snakemake.report.html_reporter", "tpcsweep.running.hooks"]
LOADED += [f"tpcsweep.{name}.checks" for name in ("configuration", "testbeds.kubernetes", "testbeds.netns")]

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(LOADED)


def snakemake(
    *arguments: str, timeout: float = 300, folder: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `snakemake` in a folder to its end; standard error is in `stdout` too."""
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary, "output")
        process = start(*arguments, output=output, folder=folder, env=env)
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["snakemake", *arguments], timeout, output.read_bytes())
        return subprocess.CompletedProcess(["snakemake", *arguments], process.exitcode, output.read_text())


def start(*arguments: str, output: Path, folder: Path, env: Mapping[str, str] | None) -> BaseProcess:
    process = _processes.Process(target=_main, args=(arguments, output, folder, dict(env or {})))
    process.start()
    return process


def _main(arguments: tuple[str, ...], output: Path, folder: Path, env: dict[str, str]) -> None:
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    os.environ.update(env)
    sys.argv = ["snakemake", *arguments]
    from tests.support import fakes

    fakes.install()
    from snakemake.cli import main

    main()
