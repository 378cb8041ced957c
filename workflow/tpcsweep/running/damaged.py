# SPDX-License-Identifier: Apache-2.0
"""Files in cells' places that are no whole cells: they are set aside, so that the cells are measured again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.running import progress, results

SUFFIX = ".damaged"
LOG = "logs/damaged.log"
"""In a sweep's folder: a line for each such file."""


def search(configuration: Configuration, files: Iterable[Path]) -> None:
    """Read files of cells whole, and set aside those that are damaged."""
    for file in files:
        if reason := results.damage(file):
            set_aside(configuration, file, reason)


def set_aside(configuration: Configuration, file: Path, reason: str) -> None:
    """Rename a damaged file, and leave out its cell. It is said now, at the end of the run, and in LOG.

    Args:
        configuration: the run's.
        file: in the place of one of its cells.
        reason: in what way it is damaged.
    """
    folder = configuration.folder
    cell = configuration.grid.by_path[str(file.relative_to(folder / "cells").with_suffix(""))]
    aside = _free(file)
    file.rename(aside)
    results.leave_out(file, wanted(configuration, cell), f"its file was damaged: {reason}")
    said = f"{file} was damaged ({reason}), and is {aside.name} now"
    log = folder / LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as opened:
        opened.write(f"{results.now()} {said}\n")
    progress.damaged(folder, cell.path, said)


def _free(file: Path) -> Path:
    """A name for a damaged file that no other has."""
    first = file.with_name(f"{file.name}{SUFFIX}")
    others = (first.with_name(f"{first.name}{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([first], others) if not path.exists())
