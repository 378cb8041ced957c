# SPDX-License-Identifier: Apache-2.0
"""Releases of XRootD beside Debian's, from the cache that sweeps on this machine take theirs from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tpcsweep.xrootd.obtaining import SHARED, obtain
from tpcsweep.xrootd.releases import IN_IMAGE, LOADER, RECORD, SYSTEM, Release, ReleaseError

from .cache import kept
from .digests import as_json, digest_of
from .layers import Layer
from .messages import ImageError, say
from .tars import File, read, tar

CACHE = SHARED / "xrootd"
"""Where sweeps on one machine look for a release, as root; the workflow has the one that they run by default."""


def named(releases: Iterable[str]) -> dict[str, Path | None]:
    """The folders of releases by their names; None where `obtain` knows it."""
    folders: dict[str, Path | None] = {}
    for given in releases:
        name, own, folder = given.partition("=")
        if (
            not re.fullmatch(r"\w[\w.-]*", name)
            or name == SYSTEM
            or name in folders
            or bool(own) != bool(folder)
        ):
            raise ImageError(
                f"--xrootd: given {given!r}, allowed: a version, or NAME=/FOLDER, each once; {SYSTEM} is in any image"
            )
        folders[name] = Path(folder) if own else None
    return folders


def release_layer(name: str, folder: Path | None, in_cache: bool = False) -> Layer:
    """A release of XRootD beside Debian's, got or built first where the cache of releases has it not.

    Pods look for it by its name, sweeps on one machine by the name that it has in the cache.
    """
    try:
        release = obtain(name, {name: folder} if folder else {}, say)
    except ReleaseError as error:
        raise ImageError(str(error)) from error
    assert release.folder is not None
    content = tar(release_files(release, CACHE / release.folder.name if in_cache else IN_IMAGE / name))
    return kept("xrootd", [digest_of(content)], lambda out: out.write(content), f"XRootD {name}")


def release_files(release: Release, place: Path) -> dict[str, File]:
    """A release's programs and libraries, and its record, in a folder of the image."""
    assert release.folder is not None
    home = str(place).lstrip("/")
    files = {f"{home}/{RECORD}": File(as_json(release.record))}
    for folder in ("bin", "lib", "lib64", LOADER):
        for path in (release.folder / folder).rglob("*"):
            if file := read(path):
                files[f"{home}/{path.relative_to(release.folder)}"] = file
    return files
