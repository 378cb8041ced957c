# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of files, under a temporary name that is then renamed.

Standard library only.
"""

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_KINDS = {
    b"PK\x03\x04": "a ZIP file, such as a workbook of Excel (.xlsx) or LibreOffice (.ods)",
    b"\xd0\xcf\x11\xe0": "a workbook of Excel (.xls)",
    b"PAR1\x15": "a Parquet file; its name needs .parquet",
    b"\x89HDF": "a file of HDF5 or NetCDF 4",
    b"CDF\x01": "a file of NetCDF 3",
    b"CDF\x02": "a file of NetCDF 3",
    b"%PDF": "a PDF file",
    b"<!DOCTY": "a web page",
}
"""Kinds of files that are no text table, by their first bytes."""


def file_kind(content: bytes) -> str:
    """Return the kind of a file that is no text table, or ""."""
    return next((kind for begin, kind in _KINDS.items() if content.startswith(begin)), "")


def make_folder(folder: Path) -> None:
    """Create a folder if it is missing. The OSError of a link to nowhere, or of a file, names it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        for path in (folder, *folder.parents):
            if path.is_symlink() and not path.exists():
                why = f"a link to {path.readlink()}, which does not exist"
                raise FileNotFoundError(errno.ENOENT, why, str(path)) from error
        raise NotADirectoryError(errno.ENOTDIR, "a file, not a folder", error.filename) from error


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield the name of a file next to `path` that replaces `path` at the end; create the folder.

    Several processes may write the same file: the last one wins. After an error the new file is deleted, and `path`
    keeps its content. Raises OSError if the disk or the user's quota is full, for any error of the writing library.
    """
    make_folder(path.parent)
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(3)}.part")
    try:
        yield part
        part.replace(path)
    except Exception as error:
        try:
            with part.open("ab") as file:
                file.write(bytes(1 << 16))
        except OSError as full:
            raise OSError(full.errno, full.strerror, str(path)) from error
        raise
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def creating_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder that is renamed to the missing `folder` at the end, or deleted after an error."""
    make_folder(folder.parent)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.{secrets.token_hex(3)}.part")
    try:
        part.mkdir()
        yield part
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def is_file(path: Path) -> bool:
    """Return whether a file exists; False for an unreadable folder or an impossible name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_up_to_date(product: Path, source: Path) -> bool:
    """Return whether a product exists and is at least as new as its source."""
    return is_file(product) and product.stat().st_mtime >= source.stat().st_mtime


def write_text(path: Path, text: str) -> None:
    with replacing_file(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write plain values atomically. Raises ValueError for NaN and infinity; see `common.numbers.json_number`."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def note_checksum(path: Path) -> None:
    """Write the SHA-256 of a file next to it, in the format of `sha256sum --check`."""
    write_text(path.with_name(f"{path.name}.sha256"), f"{checksum(path)}  {path.name}\n")


def copy_into(folder: Path, path: Path) -> None:
    """Copy a file, or a link as link, into a folder, which is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, folder / path.name, follow_symlinks=False)


def state_folder() -> Path:
    """Return the folder of what tpcsweep keeps for a user between runs (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "tpcsweep"
