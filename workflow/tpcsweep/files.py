# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there: written beside their place, then renamed. Standard library alone."""

from __future__ import annotations

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
    """Give a name in the folder of `path`, which is made; what is written there becomes `path` at the end.

    The name is nobody else's, so that several may write the same file: the last one stays. If anything is raised,
    what was written is removed and `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(3)}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write plain values for people and programs, whole or not at all.

    Raises:
        ValueError: for a number that JSON has not; `number` makes null of it.
    """
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def is_file(path: Path) -> bool:
    """Say whether a file is there. Where a name is longer than any file's can be, there is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def copy_into(folder: Path, path: Path) -> None:
    """Copy a file, or a link as it is, into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, folder / path.name, follow_symlinks=False)


def number(value: float, digits: int | None = None) -> float | None:
    """Give a number as JSON has it: None for NaN and infinity; with so many significant digits, where that is said."""
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")
