# SPDX-License-Identifier: Apache-2.0
"""Tar files that depend on nothing but what is in them, and what one has that another has not."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

EPOCH = 1735689600
"""2025-01-01, the latest time that any file is given: the same packages make the same bytes on any day."""


@dataclass(frozen=True)
class File:
    """A file of a layer that is made each time; one with a `link` is a symbolic link."""

    content: bytes
    mode: int = 0o644
    link: str = ""


def read(path: Path) -> File | None:
    """What is at a path of this machine; None where that is neither a file nor a symbolic link."""
    if path.is_symlink():
        return File(b"", link=str(path.readlink()))
    if path.is_file():
        return File(path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    return None


def tar(files: Mapping[str, File], *more: str) -> bytes:
    """Files, their folders and `more`, as a tar file that depends on nothing else: sorted, root's, of one time."""
    folders = {str(folder) for path in files for folder in Path(path).parents} - {"."} | {*more}
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folders | files.keys()):
            file = files.get(path, File(b"", 0o755))
            each = entry(path, len(file.content), file.mode)
            if path in folders:
                each.type = tarfile.DIRTYPE
            elif file.link:
                each.type, each.linkname, each.mode = tarfile.SYMTYPE, file.link, 0o777
            archive.addfile(each, io.BytesIO(file.content))
    return held.getvalue()


def entry(path: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    """The header of a regular file of so many bytes: root's, and of EPOCH."""
    made = tarfile.TarInfo(path)
    made.size, made.mode, made.mtime = size, mode, EPOCH
    return made


def difference(base: bytes, whole: bytes) -> bytes:
    """What must be laid over the tar file `base` to have `whole`: a tar file, its entries copied as they are.

    What `base` alone has becomes a whiteout, as OCI's image-spec has it.
    """
    old, new = _entries(base), _entries(whole)
    parts = [
        whole[place] for name, place in new.items() if name not in old or base[old[name]] != whole[place]
    ]
    for gone in map(Path, sorted(old.keys() - new.keys())):
        if str(gone.parent) in {".", *new}:  # else it goes with its folder
            parts.append(entry(str(gone.with_name(f".wh.{gone.name}")), 0).tobuf(tarfile.GNU_FORMAT))
    return b"".join([*parts, bytes(2 * tarfile.BLOCKSIZE)])


def _entries(content: bytes) -> dict[str, slice]:
    """Where each entry of a tar file lies, with the headers before it."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = archive.getmembers()
    # An entry's data end at the next one's headers; the last one's are padded to whole blocks.
    ends = [member.offset for member in members[1:]]
    last = members[-1]
    size = last.size if last.isreg() else 0
    ends.append(last.offset_data + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
    return {member.name: slice(member.offset, end) for member, end in zip(members, ends, strict=True)}
