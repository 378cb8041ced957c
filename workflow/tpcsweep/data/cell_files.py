# SPDX-License-Identifier: Apache-2.0
"""Cell files: read, check, write atomically, and keep in staging until the dataset contains them."""

import contextlib
import datetime
import errno
import hashlib
import itertools
import os
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tpcsweep.common import locks
from tpcsweep.common.files import make_folder, replacing_file
from tpcsweep.common.installation import PACKAGE
from tpcsweep.data.flags import FLAGS, IMPLAUSIBLE, implausible
from tpcsweep.data.variables import NOT_MEASURED, SUMMARY
from tpcsweep.sweeps.parameters import complete
from tpcsweep.sweeps.study import Configuration, cell_spec
from tpcsweep.sweeps.sweep import Cell

FILES = tomllib.loads((PACKAGE / "data/results.toml").read_text(encoding="utf-8"))
LOCK = ".lock"  # name of the file in a results folder that a run locks
_PLACEHOLDER = orjson.dumps({"status": NOT_MEASURED})[1:-1]
"""Bytes after the specification in a placeholder's file, within its first 64 KiB."""
_OF_PLACEHOLDER = {"message": str}
_OF_MEASUREMENT = {"status": str, "flags": list, "summary": dict, "provenance": dict}
"""Required keys of a file in addition to its specification."""
_UNREADABLE = (errno.EISDIR, errno.EACCES, errno.EIO)
"""Errors for a folder in a file's place, a file without the right to read it, and a bad sector."""

_CHECKSUM = "checksum"  # last key of a file: the SHA-256 of the others


class DamagedError(ValueError):
    """Bytes that are not a complete cell file; the message names the damage."""


def format_cell(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a cell's file: the content in its order, then the checksum."""
    return orjson.dumps({**content, _CHECKSUM: _checksum(content)})


def parse_cell(text: bytes) -> dict[str, Any]:
    """Return the content of a cell's file without its checksum.

    Raises DamagedError for bytes that are not JSON, contain no specification, or have no or another checksum.
    """
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise DamagedError(f"not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("spec"), dict):
        raise DamagedError("no specification is in it")
    if content.pop(_CHECKSUM, None) != _checksum(content):
        raise DamagedError("changed after it was written: its checksum is not that of its content")
    return content


def _checksum(content: Mapping[str, Any]) -> str:
    # independent of the layout of the file's JSON
    return hashlib.sha256(orjson.dumps(content)).hexdigest()


def _is_intact(text: bytes) -> bool:
    """Return whether bytes end with their checksum, as `format_cell` writes them; this parses no JSON."""
    body, mark, noted = text.rpartition(b',"%s":"' % _CHECKSUM.encode())
    return bool(mark) and noted == hashlib.sha256(body + b"}").hexdigest().encode() + b'"}'


def stale(path: Path, wanted: Mapping[str, Any]) -> bool:
    """Return whether a cell's file is missing, damaged, of another specification or a placeholder."""
    head = orjson.dumps({"spec": wanted})[:-1] + b","  # in the format of `write_cell`
    try:
        text = _read(path)
        if text.startswith(head) and not text.startswith(_PLACEHOLDER, len(head)) and _is_intact(text):
            return False
        content = parse_cell(text)
        if complete(content["spec"]) != complete(wanted) or content.get("status") == NOT_MEASURED:
            return True
        return bool(_lacking(content))
    except (FileNotFoundError, DamagedError, TypeError):
        return True


def read_cell(path: Path) -> dict[str, Any]:
    """Read a cell's file. Raises DamagedError if it is damaged, and FileNotFoundError if it is missing."""
    return parse_cell(_read(path))


def _read(path: Path) -> bytes:
    """Return the bytes of a file. Raises DamagedError for a folder and other things that cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise DamagedError("not a file")
        return path.read_bytes()
    except NotADirectoryError as error:
        raise FileNotFoundError(*error.args) from error
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
        raise DamagedError(f"cannot be read: {error.strerror}") from error


def damage(path: Path) -> str:
    """Describe the damage of a cell's file; "" if the file is intact or missing."""
    try:
        return _lacking(read_cell(path))
    except FileNotFoundError:
        return ""
    except DamagedError as error:
        return str(error)


def _lacking(content: Mapping[str, Any]) -> str:
    """Describe what folding would miss in a cell file's content, or not know; "" if there is nothing."""
    needed = _OF_PLACEHOLDER if content.get("status") == NOT_MEASURED else _OF_MEASUREMENT
    if lacking := [name for name, kind in needed.items() if not isinstance(content.get(name), kind)]:
        return f"without {' and '.join(lacking)} as cells have them"
    # Folding rejects these, too.
    unknown = {*content.get("summary", ())} - SUMMARY.keys() | {*content.get("flags", ())} - FLAGS.keys()
    return f"with {' and '.join(sorted(unknown))}, which this version does not know" if unknown else ""


def is_placeholder(path: Path) -> bool:
    """Return whether a file represents a cell that could not be measured."""
    try:
        with path.open("rb") as file:  # files of measured cells are large
            if _PLACEHOLDER not in file.read(1 << 16):
                return False
        return read_cell(path).get("status") == NOT_MEASURED
    except (OSError, DamagedError):
        return False


def staging(configuration: Configuration) -> Path:
    """Return the folder of cells that the dataset does not contain yet.

    Snakemake deletes the new outputs of a failed or killed job, and of a job whose output a user deleted meanwhile. The
    next job adopts cells from this folder.
    """
    return configuration.folder / "staging"


def staged_file(configuration: Configuration, cell: Cell) -> Path:
    return staging(configuration) / f"{cell.path}.json"


def cell_record(
    spec: Mapping[str, Any], result: Mapping[str, Any], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of a cell's file without the specification; implausible figures get their flag."""
    wrong = implausible(result["status"], result["summary"], spec["parameters"]["bandwidth"])
    return {
        "format": spec["format"],
        **result,
        "flags": [*result["flags"], *([IMPLAUSIBLE] if wrong else [])],
        "summary": {**result["summary"], "attempts": 1},
        "provenance": provenance,
    }


def write_cell(path: Path, spec: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Write a cell's file atomically, synced to disk. The specification comes first, for `stale`."""
    with replacing_file(path) as part, part.open("wb") as file:
        file.write(format_cell({"spec": spec, **record}))
        file.flush()
        os.fsync(file.fileno())


def publish(staged: Path, path: Path, wanted: Mapping[str, Any]) -> bool:
    """Copy a staged cell to its place if needed; return whether it is current there.

    A damaged staged file is deleted; an old cell's file at the place is renamed.
    """
    if not stale(path, wanted):
        return True
    if damage(staged):
        shutil.rmtree(staged) if staged.is_dir() else staged.unlink()
    if stale(staged, wanted):
        return False
    _keep_measurement(path)
    with replacing_file(path) as part:
        shutil.copyfile(staged, part)
    return True


def write_placeholder(path: Path, spec: Mapping[str, Any], why: str) -> None:
    """Write a file for a cell that could not be measured, with the reason; rename an old cell's file."""
    _keep_measurement(path)
    record = {"status": NOT_MEASURED, "format": spec["format"], "message": why, "tried": utc_timestamp()}
    write_cell(path, spec, record)


def _keep_measurement(path: Path) -> None:
    if path.exists() and not is_placeholder(path):
        rename_rejected(path, "damaged" if damage(path) else "stale")


def rename_rejected(path: Path, reason: str) -> Path:
    """Rename a file that is no current cell, so that Snakemake measures the cell; return the new path."""
    numbers = itertools.chain([""], itertools.count(2))
    names = (path.with_name(f"{path.name}.{reason}{number}") for number in numbers)
    return path.rename(next(name for name in names if not name.exists()))


def utc_timestamp() -> str:
    """Return the current time in the format of cell files."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


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


def adopt(configuration: Configuration) -> None:
    """Copy the current cells of an interrupted run from staging to their places."""
    for cell in configuration.grid.cells:
        place = configuration.cell_file(cell)
        publish(staged_file(configuration, cell), place, cell_spec(configuration, cell))


def empty_staging(configuration: Configuration) -> None:
    """Delete the staged cells that equal their published files, which the dataset contains."""
    folder = staging(configuration)
    for cell in configuration.grid.cells:
        staged = staged_file(configuration, cell)
        with contextlib.suppress(FileNotFoundError, DamagedError):
            if _read(staged) == _read(configuration.cell_file(cell)):
                staged.unlink()
    for path in (*sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True), folder):
        with contextlib.suppress(OSError):
            path.rmdir()
