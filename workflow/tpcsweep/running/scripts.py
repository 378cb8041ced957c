# SPDX-License-Identifier: Apache-2.0
"""Helpers of rules' scripts: errors without a traceback, and output in the log."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path


class ChangedError(Exception):
    """The configuration changed after the run started."""


def require_unchanged(now: str, planned: str) -> None:
    """Raise ChangedError unless a digest equals the one with which Snakemake planned a job.

    Otherwise Snakemake would record the planned digest for files of another configuration.
    """
    if now != planned:
        raise ChangedError("the configuration has changed since this run began: run snakemake again")


@contextlib.contextmanager
def reported(log: str, *expected: type[Exception], about: str = "") -> Iterator[None]:
    """Exit the process on expected errors, with the error's text on standard error and in the log.

    The text starts with `about`, such as the sweep's name. A full disk and ChangedError are always expected.
    """
    known: tuple[type[Exception], ...] = (*expected, ChangedError)
    try:
        yield
    except known as error:
        text = str(error)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"{error.filename or 'results or temporary files'}: {error.strerror}"
        text = f"{where}: make room and run snakemake again, which keeps the measured cells"
    else:
        return
    said = f"{about}: {text}" if about else text
    # Snakemake removed the log before the job. It may be on the full disk.
    with contextlib.suppress(OSError), Path(log).open("a") as file:
        file.write(f"{said}\n")
    sys.exit(said)


@contextlib.contextmanager
def written_to(log: str) -> Iterator[None]:
    """Redirect the output of this process and its children to the log."""
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
