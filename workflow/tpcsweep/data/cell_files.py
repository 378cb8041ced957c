# SPDX-License-Identifier: Apache-2.0
"""Cell files: read, check, and write atomically."""

import datetime
import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tpcsweep.common.files import replacing_file
from tpcsweep.data.cell_result import CellResult, NotMeasured
from tpcsweep.data.variables import NOT_MEASURED
from tpcsweep.sweeps.parameters import complete

_PLACEHOLDER = orjson.dumps({"status": NOT_MEASURED})[1:-1]
"""Bytes after the specification in a placeholder's file, within its first 64 KiB."""
_UNREADABLE = (errno.EISDIR, errno.EACCES, errno.EIO)
"""Errors for a folder in a file's place, a file without the right to read it, and a bad sector."""

_CHECKSUM = "checksum"  # last key of a file: the SHA-256 of the others


class DamagedError(ValueError):
    """Bytes that are not a complete cell file; the message names the damage."""


class CellFile(NamedTuple):
    """Content of a cell's file."""

    spec: dict[str, Any]  # see `sweeps.study.Specification`
    format: int | None
    result: CellResult | NotMeasured


def format_cell(spec: Mapping[str, Any], result: CellResult | NotMeasured) -> bytes:
    """Return the bytes of a cell's file. The specification and the status come first, for `stale`."""
    content = result.to_json()
    return format_content(
        {"spec": spec, "status": content.pop("status"), "format": spec["format"], **content}
    )


def parse_cell(text: bytes) -> CellFile:
    """Return the content of a cell's file. Raises DamagedError if `parse_content` does, or if it is no cell."""
    content = parse_content(text)
    try:
        result: CellResult | NotMeasured
        if content.get("status") != NOT_MEASURED:
            result = CellResult.from_json(content)
        elif not isinstance(message := content.get("message"), str):
            raise DamagedError("without message as cells have them")
        else:
            result = NotMeasured(message, content.get("tried", ""))
    except ValueError as error:
        raise DamagedError(str(error)) from error
    return CellFile(content["spec"], content.get("format"), result)


def format_content(content: Mapping[str, Any]) -> bytes:
    """Return JSON with the content in its order, then the checksum."""
    return orjson.dumps({**content, _CHECKSUM: _checksum(content)})


def parse_content(text: bytes) -> dict[str, Any]:
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
    head = orjson.dumps({"spec": wanted})[:-1] + b","  # in the format of `format_cell`
    try:
        text = _read(path)
        if text.startswith(head) and not text.startswith(_PLACEHOLDER, len(head)) and _is_intact(text):
            return False
        cell = parse_cell(text)
        return isinstance(cell.result, NotMeasured) or complete(cell.spec) != complete(wanted)
    except (FileNotFoundError, DamagedError, TypeError):
        return True


def read_cell(path: Path) -> CellFile:
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


def same_bytes(one: Path, other: Path) -> bool:
    """Return whether both files exist, are readable and have equal content."""
    try:
        return _read(one) == _read(other)
    except (FileNotFoundError, DamagedError):
        return False


def damage(path: Path) -> str:
    """Describe the damage of a cell's file; "" if the file is intact or missing."""
    try:
        read_cell(path)
    except FileNotFoundError:
        return ""
    except DamagedError as error:
        return str(error)
    return ""


def unmeasured_reason(path: Path) -> str | None:
    """Return why a cell could not be measured, if its file is a placeholder; otherwise None."""
    try:
        with path.open("rb") as file:  # files of measured cells are large
            if _PLACEHOLDER not in file.read(1 << 16):
                return None
        result = read_cell(path).result
    except (OSError, DamagedError):
        return None
    return result.message if isinstance(result, NotMeasured) else None


def write_cell(path: Path, spec: Mapping[str, Any], result: CellResult | NotMeasured) -> None:
    """Write a cell's file atomically, synced to disk."""
    with replacing_file(path) as part, part.open("wb") as file:
        file.write(format_cell(spec, result))
        file.flush()
        os.fsync(file.fileno())


def utc_timestamp() -> str:
    """Return the current time in the format of cell files."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
