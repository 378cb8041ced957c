# SPDX-License-Identifier: Apache-2.0
"""What the scripts of rules share: errors that need no traceback, where the rest goes, and a second Snakemake."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGKILL
from typing import Any, NoReturn

from tpcsweep.linux.signals import end_with, held

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def reported(log: str, *expected: type[Exception], about: str = "") -> Iterator[None]:
    """Turn expected errors into the end of the process, with the error's text on standard error and in the log.

    The text begins with what it is about, such as the sweep's name. A disk that is full is always expected.
    """
    try:
        yield
    except expected as error:
        _end(log, str(error), about)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        where = f"{error.filename or 'results or temporary files'}: {error.strerror}"
        _end(log, f"{where}: make room and run snakemake again, which keeps what was measured", about)


def _end(log: str, text: str, about: str) -> NoReturn:
    said = f"{about}: {text}" if about else text
    # Snakemake has removed the log before the job. It may be on the disk that is full.
    with contextlib.suppress(OSError), Path(log).open("a") as file:
        file.write(f"{said}\n")
    sys.exit(said)


@contextlib.contextmanager
def written_to(log: str) -> Iterator[None]:
    """Write to the log what this process and those that it starts say meanwhile."""
    streams = (sys.stdout.fileno(), sys.stderr.fileno())
    copies = [os.dup(stream) for stream in streams]
    with Path(log).open("a") as file:
        try:
            for stream in streams:
                os.dup2(file.fileno(), stream)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, copy in zip(streams, copies, strict=True):
                os.dup2(copy, stream)
                os.close(copy)


def make(beginning: Sequence[str], config: Mapping[str, Any], targets: Sequence[str]) -> int:
    """Make targets by the workflow's own rules with a configuration of their own; returns Snakemake's exit code.

    It is for cells that are not known before the workflow runs, or of another sweep. `Internals.inner` gives the
    beginning of its command line.
    """
    settings = (f"{key}={value}" for key, value in config.items())
    return start([*beginning, "--config", *settings, "--", *targets])


def start(argv: Sequence[str]) -> int:
    """Run a command to its end, well or not, and return its exit code.

    It is ended in order when this process ends, and killed when this one is: what a Snakemake has started then ends.
    """
    child: subprocess.Popen[bytes] | None = None
    try:
        with held():  # or the end may come when it runs and is not yet known here
            # In a session of its own: Ctrl-C reaches it once, from here.
            tied = partial(end_with, os.getpid(), SIGKILL)
            child = subprocess.Popen(argv, start_new_session=True, preexec_fn=tied)
        return child.wait()
    finally:
        if child and child.poll() is None:
            os.killpg(child.pid, SIGINT)
            child.wait()
