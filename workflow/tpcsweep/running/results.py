# SPDX-License-Identifier: Apache-2.0
"""Cells' files: read, judged stale, written so that nobody ever sees half of one, and kept when a job fails."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import psutil

from tpcsweep import locks
from tpcsweep.configuration import cell_file
from tpcsweep.configuration.cell_file import DamagedError
from tpcsweep.configuration.parameters import complete
from tpcsweep.files import replacing
from tpcsweep.variables import NOT_MEASURED

LOCK = ".lock"
"""The file in a folder of results that a run holds."""
_HOLE = b'{"status":"not_measured",'
"""How the file of such a cell begins."""
_OF_HOLE = {"message": str}
_OF_MEASUREMENT = {"status": str, "flags": list, "summary": dict, "provenance": dict}
"""What a run asks files for, beside their specification."""


def stale(path: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether a cell must be measured: the file is missing, damaged, of another specification or no measurement.

    A file that begins and ends as a whole one may yet be damaged: `damage` reads all of it.
    """
    head = orjson.dumps({"spec": wanted})[:-1] + b","  # as `publish` writes it
    try:
        with path.open("rb") as file:
            if file.read(len(head)) == head:  # nearly always, and 10⁵ whole files are not read for it
                file.seek(-1, os.SEEK_END)
                if file.read() == b"}":
                    return False
        content = read(path)
        return complete(content["spec"]) != complete(wanted) or content.get("status") == NOT_MEASURED
    except (FileNotFoundError, IsADirectoryError, DamagedError, TypeError):
        return True


def read(path: Path) -> dict[str, Any]:
    """Read a cell's file.

    Raises:
        DamagedError: for what is no whole cell file.
    """
    try:
        return cell_file.content_of(path.read_bytes())
    except IsADirectoryError:
        raise DamagedError("a folder") from None


def damage(path: Path) -> str:
    """Say in what way a file is no whole cell's, as far as a run needs it; nothing of one that is, or is not there."""
    try:
        content = read(path)
    except FileNotFoundError:
        return ""
    except DamagedError as error:
        return str(error)
    needed = _OF_HOLE if content.get("status") == NOT_MEASURED else _OF_MEASUREMENT
    lacking = [name for name, kind in needed.items() if not isinstance(content.get(name), kind)]
    return f"without {' and '.join(lacking)} as cells have them" if lacking else ""


def publish(
    path: Path, spec: Mapping[str, Any], result: Mapping[str, Any], rescue: Path, *, again: bool = False
) -> None:
    """Write a cell beside its place and rename it, with a second link in the `rescue` folder.

    A cell that is current by then stays as it is, as another job has measured it; unless it was measured `again`.

    The specification comes first in the file, so that `stale` need not read the rest.

    Snakemake removes the new files of a job that fails, those of complete cells too. `recover` and `settle` put
    them back.
    """
    if not (again or stale(path, spec)):
        return
    kept = _rescued(rescue, path)
    kept.unlink(missing_ok=True)
    with _written(path, {"spec": spec, **result}) as part:
        while not kept.exists():
            with contextlib.suppress(FileExistsError):
                rescue.mkdir()
            # The next run may have removed the folder, when it was empty, while this job of a killed one ends.
            with contextlib.suppress(FileNotFoundError):
                os.link(part, kept)


def leave_out(path: Path, spec: Mapping[str, Any], why: str) -> None:
    """Write that a cell was not measured, and why; one that is current by then stays as it is. The cell stays stale."""
    record = {"format": spec["format"], "message": why, "tried": now()}
    if stale(path, spec):
        with _written(path, {"status": NOT_MEASURED, "spec": spec, **record}):
            pass


def left_out(path: Path) -> bool:
    """Whether a file says that its cell was not measured."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HOLE)) == _HOLE and not damage(path)
    except (FileNotFoundError, IsADirectoryError):
        return False


@contextlib.contextmanager
def _written(path: Path, content: Mapping[str, Any]) -> Iterator[Path]:
    """Write a file beside its place and safely to the disk; it takes the place at the end of the `with`."""
    with replacing(path) as part:
        with part.open("wb") as file:
            file.write(cell_file.text_of(content))
            file.flush()
            os.fsync(file.fileno())
        yield part


def recover(path: Path, wanted: Mapping[str, Any], rescue: Path) -> bool:
    """Put back a cell that was finished; False when there is none, or it is stale too or damaged."""
    kept = _rescued(rescue, path)
    if stale(kept, wanted) or damage(kept):
        return False
    with replacing(path) as part:
        os.link(kept, part)
    return True


def settle(wanted: Iterable[tuple[Path, Mapping[str, Any]]], rescue: Path) -> int:
    """Put back those cells that were finished and are stale now, then drop their second links.

    Only while no job runs, and none has ended that Snakemake has not looked at: one that ended well fails after all if
    any of its files is gone by then, and Snakemake removes the others. Damaged files stay where they are, to be set
    aside, and what they were keeps its link.

    Args:
        wanted: Cells' files, each with the specification that its cell is to be measured under.
        rescue: Where the second links are.

    Returns:
        How many were put back.
    """
    if not rescue.is_dir():
        return 0
    back = 0
    for path, spec in wanted:
        if stale(path, spec):
            if damage(path):
                continue
            back += recover(path, spec, rescue)
        _rescued(rescue, path).unlink(missing_ok=True)
    with contextlib.suppress(
        OSError
    ):  # there are others in it: of damaged files, or of a sweep that was another
        rescue.rmdir()
    return back


def now() -> str:
    """Give the time, as cells' files have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


_ELSEWHERE = "have results elsewhere by --config results=FOLDER"


class ResultsError(Exception):
    """Results that cannot be written; the text says where, and what to do."""


class ResultsInUseError(ResultsError):
    """Another run writes to the same results."""


def hold(folder: Path) -> bool:
    """Keep other runs out of a results folder for the life of this process.

    The kernel drops the lock with its holder, so that after kill -9 the next run simply works; Snakemake's own lock
    files stay and need --unlock. A run that the holder has started writes in its name.

    Returns:
        Whether this process is the holder.

    Raises:
        ResultsInUseError: where another run has the folder.
        ResultsError: where nothing can be written to it.
    """
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        locks.take(path)  # never closed: held until the end
        return True
    except locks.HeldError as held:
        if held.pid not in {process.pid for process in psutil.Process().parents()}:
            raise ResultsInUseError(
                f"{folder}: another snakemake ({held}) writes here: wait for its end"
            ) from None
        return False
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}: {_ELSEWHERE}") from error


def require_folder(folder: Path) -> Path:
    """Give a folder, or the nearest around it that is there; raises ResultsError where a file is in its place."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.access(path, os.F_OK))
    if not there.is_dir():
        raise ResultsError(f"{folder}: {there} is no folder: {_ELSEWHERE}")
    return there


def require_writable(folder: Path) -> None:
    """Raise ResultsError where nothing can be written to a folder, which is made later if it is not there."""
    there = require_folder(folder)
    if not os.access(there, os.W_OK | os.X_OK):
        whose = f"{there} cannot be written to by user {os.geteuid()}"
        raise ResultsError(f"{folder}: {whose}: {_ELSEWHERE}")


def _rescued(rescue: Path, path: Path) -> Path:
    return rescue / f"{hashlib.sha256(str(path).encode()).hexdigest()[:24]}.json"
