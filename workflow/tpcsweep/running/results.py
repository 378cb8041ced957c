# SPDX-License-Identifier: Apache-2.0
"""Cells' files: read, judged stale, written so that nobody ever sees half of one, and kept when a job fails."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import psutil

from tpcsweep import locks
from tpcsweep.configuration.parameters import complete
from tpcsweep.files import replacing
from tpcsweep.variables import NOT_MEASURED

_HOLE = b'{"status":"not_measured",'
"""How the file of such a cell begins."""


def stale(path: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether a cell must be measured: the file is missing, unreadable, of another specification or no measurement."""
    head = orjson.dumps({"spec": wanted})[:-1] + b","  # as `publish` writes it
    try:
        with path.open("rb") as file:
            if file.read(len(head)) == head:  # nearly always, and 10⁵ whole files are not read for it
                return False
        content = read(path)
        return complete(content["spec"]) != complete(wanted) or content.get("status") == NOT_MEASURED
    except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
        return True


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads(path.read_bytes())
    return content


def publish(path: Path, spec: Mapping[str, Any], result: Mapping[str, Any], rescue: Path) -> None:
    """Write a cell beside its place and rename it, with a second link in the `rescue` folder.

    The specification comes first in the file, so that `stale` need not read the rest.

    Snakemake removes the new files of a job that fails, those of complete cells too; `recover` puts them back.
    """
    kept = _rescued(rescue, path)
    kept.unlink(missing_ok=True)
    with _written(path, {"spec": spec, **result}) as part:
        while not kept.exists():
            with contextlib.suppress(FileExistsError):
                rescue.mkdir()
            # A job beside this one may have removed the folder, when it was empty.
            with contextlib.suppress(FileNotFoundError):
                os.link(part, kept)


def leave_out(path: Path, spec: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Write that a cell was not measured, for which `message` of the record says why. The cell stays stale."""
    with _written(path, {"status": NOT_MEASURED, "spec": spec, **record}):
        pass


def left_out(path: Path) -> bool:
    """Whether a file says that its cell was not measured."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HOLE)) == _HOLE
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _written(path: Path, content: Mapping[str, Any]) -> Iterator[Path]:
    """Write a file beside its place and safely to the disk; it takes the place at the end of the `with`."""
    with replacing(path) as part:
        with part.open("wb") as file:
            file.write(orjson.dumps(content))
            file.flush()
            os.fsync(file.fileno())
        yield part


def recover(path: Path, wanted: Mapping[str, Any], rescue: Path) -> bool:
    """Put back a cell that an interrupted job had finished; False when there is none or it is stale too."""
    kept = _rescued(rescue, path)
    if stale(kept, wanted):
        return False
    with replacing(path) as part:
        os.link(kept, part)
    return True


def measured(path: Path, wanted: Mapping[str, Any], rescue: Path) -> bool:
    """Whether a cell is there, or `recover` would put it back."""
    return not (stale(path, wanted) and stale(_rescued(rescue, path), wanted))


def forget(paths: list[Path], rescue: Path) -> None:
    """Drop the second links of cells whose job has ended well."""
    for path in paths:
        _rescued(rescue, path).unlink(missing_ok=True)
    try:
        rescue.rmdir()
    except OSError as error:  # jobs run side by side: others may have cells in it, or have removed it
        if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
            raise


class ResultsInUseError(Exception):
    """Another run writes to the same results."""


def hold(folder: Path) -> None:
    """Keep other runs out of a results folder for the life of this process.

    The kernel drops the lock with its holder, so that after kill -9 the next run simply works; Snakemake's own lock
    files stay and need --unlock. A run that the holder has started writes in its name.

    Raises:
        ResultsInUseError: where another run has the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        locks.take(folder / ".lock")  # never closed: held until the end
    except locks.HeldError as held:
        if held.pid not in {process.pid for process in psutil.Process().parents()}:
            raise ResultsInUseError(
                f"{folder}: another snakemake ({held}) writes here: wait for its end"
            ) from None


def _rescued(rescue: Path, path: Path) -> Path:
    return rescue / f"{hashlib.sha256(str(path).encode()).hexdigest()[:24]}.json"
