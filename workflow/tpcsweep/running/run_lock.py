# SPDX-License-Identifier: Apache-2.0
"""Lock of a results folder, by which two runs exclude each other."""

import os
from pathlib import Path

from tpcsweep.common import locks
from tpcsweep.common.files import make_folder

LOCK = ".lock"  # name of the file in a results folder that a run locks


class ResultsError(Exception):
    """Results cannot be written; the text contains place and fix."""


class HeldError(ResultsError):
    """A run is under way in the results folder."""


def lock_results(folder: Path) -> None:
    """Lock a results folder for the life of this process; the kernel releases it, even after kill -9.

    Raises HeldError if another run holds the lock, and ResultsError if the folder is not writable.
    """
    elsewhere = "choose another folder with --config results=FOLDER"
    try:
        make_folder(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ResultsError(f"{folder}: user {os.geteuid()} cannot write to it: {elsewhere}")
        locks.lock_file(folder / LOCK)  # never closed
    except locks.LockedError as held:
        raise HeldError(f"{folder}: another snakemake ({held}) writes here: wait for its end") from None
    except OSError as error:
        raise ResultsError(f"{error.filename or folder / LOCK}: {error.strerror}: {elsewhere}") from error
