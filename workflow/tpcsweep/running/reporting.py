"""What the scripts of rules say: errors that need no traceback, and where the rest goes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def reported(log: str, *expected: type[Exception], about: str = "") -> Iterator[None]:
    """Turn expected errors into the end of the process, with the error's text on standard error and in the log.

    Args:
        log: the job's log, which Snakemake has removed before it started the job.
        *expected: the errors.
        about: what the text begins with, such as the sweep's name.
    """
    try:
        yield
    except expected as error:
        text = f"{about}: {error}" if about else str(error)
        with Path(log).open("a") as file:
            file.write(f"{text}\n")
        sys.exit(text)


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
