# SPDX-License-Identifier: Apache-2.0
"""Functions that the scripts of rules share: errors without a traceback, and output that goes to the log."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

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
