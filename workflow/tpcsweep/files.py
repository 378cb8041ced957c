# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or missing: written beside their place, then renamed.

Standard library alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a file beside `path`, which takes the place of `path` at the end; make the folder.

    Several processes may write the same file: the last one wins. After an error the new file is deleted, and `path`
    keeps its content.

    Raises:
        OSError: if the disk or the user's quota is full, whatever error the writing library raised.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
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
def making(folder: Path) -> Iterator[Path]:
    """Yield a folder that takes the name of a missing one at the end; delete it after an error."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.{secrets.token_hex(3)}.part")
    try:
        part.mkdir()
        yield part
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def is_file(path: Path) -> bool:
    """Whether a file exists; False for a folder that may not be read, and for an impossible name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_made_of(product: Path, source: Path) -> bool:
    """Whether a product exists and is not older than the file that it is made of."""
    return is_file(product) and product.stat().st_mtime >= source.stat().st_mtime


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write plain values, whole or not at all. Raise ValueError for NaN and infinity, for which `number` is."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def note_checksum(path: Path) -> None:
    """Write the SHA-256 of a file to one beside it, as `sha256sum --check` reads it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    write_text(path.with_name(f"{path.name}.sha256"), f"{digest}  {path.name}\n")


def copy_into(folder: Path, path: Path) -> None:
    """Copy a file, or a link as it is, into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, folder / path.name, follow_symlinks=False)


def number(value: float, digits: int | None = None) -> float | None:
    """Return a number for JSON: None for NaN and infinity, otherwise with so many significant digits, or all."""
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")
