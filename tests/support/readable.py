# SPDX-License-Identifier: Apache-2.0
"""Folders that every user can get to, though the way there is root's alone, as that of a Python below /root is."""

import shlex
from pathlib import Path


def readable(*folders: Path) -> str:
    """Give the lines of a shell for root, in a namespace of its own for mounts, where /mnt is an empty tmpfs."""
    closed = {shlex.quote(str(folder)): way for folder in folders if (way := _closed(folder))}
    places = {folder: f"/mnt/open{number}" for number, folder in enumerate(closed)}
    lines = [f"mkdir {place} && mount --bind {folder} {place}" for folder, place in places.items()]
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(way)}" for way in sorted({*closed.values()})]
    lines += [f"mkdir -p {folder} && mount --bind {place} {folder}" for folder, place in places.items()]
    return "".join(f"{line} || exit 1\n" for line in lines)


def _closed(folder: Path) -> str:
    """The folder on the way, from the top, that others than its owner cannot go through; "" where there is none."""
    way = [*reversed(folder.parents), folder]
    return next((str(step) for step in way if not step.stat().st_mode & 1), "")
