"""A second Snakemake within a target, for cells that are not known before it runs, or of another sweep."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from signal import SIGINT
from typing import Any

from tpcsweep.linux.signals import held


def make(beginning: Sequence[str], config: Mapping[str, Any], targets: Sequence[str]) -> int:
    """Make targets by the workflow's own rules with a configuration of their own; returns Snakemake's exit code.

    Args:
        beginning: of the command line, see `Internals.inner`.
        config: what `--config` says.
        targets: rules and files.
    """
    return start(
        [*beginning, "--config", *(f"{key}={value}" for key, value in config.items()), "--", *targets]
    )


def start(argv: Sequence[str]) -> int:
    """Run a command to its end, well or not, and return its exit code. It is ended in order when this process ends."""
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
