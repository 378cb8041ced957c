"""A second Snakemake within a target, for cells that are not known before it runs, or of another sweep."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from signal import SIGINT
from typing import Any

from tpcsweep.linux.signals import held


def command(
    python: str, snakefile: str, config: Mapping[str, Any], testbeds: int, cores: int, targets: Sequence[str]
) -> list[str]:
    """The Snakemake that makes some targets by the workflow's own rules, with a configuration of its own.

    testbeds, cores: as many as the outer one has, where the profile would say otherwise.
    """
    given = [f"{name}={value}" for name, value in config.items()]
    return [
        *(
            python,
            "-m",
            "snakemake",
            "--snakefile",
            snakefile,
            "--nolock",
            "--quiet",
            "rules",
            "host",
            "progress",
        ),
        *("--cores", str(cores), "--resources", f"testbed={testbeds}", "--config", *given, "--", *targets),
    ]


def start(argv: Sequence[str]) -> int:
    """Run a Snakemake to its end, well or not, and return its exit code.

    It is ended in order when this process is to end.
    """
    child: subprocess.Popen[bytes] | None = None
    try:
        with held():  # or the end may come when it runs and is not yet known here
            # In a session of its own: Ctrl-C reaches it once, from here.
            child = subprocess.Popen(argv, start_new_session=True)
        return child.wait()
    finally:
        if child and child.poll() is None:
            os.killpg(child.pid, SIGINT)
            child.wait()
