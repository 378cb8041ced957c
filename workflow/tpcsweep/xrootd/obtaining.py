# SPDX-License-Identifier: Apache-2.0
"""Get a release of XRootD into a cache that all checkouts share: unpacked from Debian's archive, or built from source.

What is in the cache is whole, and stays: a folder `RELEASE-KEY` with bin/, lib/ and release.json, where the key stands
for everything that it was made from. All libraries that its programs need are in lib/, the loader too, so that it runs
on this machine, on its successor and in a container image alike.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tpcsweep import locks
from tpcsweep.files import write_json
from tpcsweep.xrootd.building import OPTIONS, TARGETS, build
from tpcsweep.xrootd.releases import (
    DEBIAN,
    FROM_SOURCE,
    LOADER,
    PROGRAMS,
    RECORD,
    SOURCES,
    SYSTEM,
    Release,
    ReleaseError,
    read,
    sources,
)
from tpcsweep.xrootd.unpacking import PACKAGES, unpack

SHARED = Path("/var/cache/tpcsweep")
Stage = Callable[[str], None]


def obtain(name: str, own: Mapping[str, Path], stage: Stage) -> Release:
    """Give a release, made first where the cache has it not.

    Args:
        name: SYSTEM, a version, a version with FROM_SOURCE behind it, or one of `own`.
        own: folders of releases that a site has built itself, by name.
        stage: tells people what takes long.

    Raises:
        ReleaseError: if it cannot be had.
    """
    if name == SYSTEM:
        return Release(SYSTEM)
    if name in own:
        folder = own[name]
        return Release(name, read(name, folder).folder, {"folder": str(folder), "digest": _digest(folder)})
    folder = _place(name)
    if not folder.exists():
        with _making(folder.parent):
            if not folder.exists():  # nobody else has made it meanwhile
                _make(name, folder, stage)
    return read(name, folder)


def to_build(name: str, own: Mapping[str, Path]) -> bool:
    """Say whether a release would have to be built from source first."""
    return name != SYSTEM and name not in own and name not in DEBIAN and not _place(name).exists()


def cache() -> Path:
    """Give the folder of the releases: root's is where users that servers run as may read it."""
    chosen = os.environ.get("TPCSWEEP_CACHE")
    own = SHARED if _by_root() else Path.home() / ".cache/tpcsweep"
    return (Path(chosen) if chosen else own) / "xrootd"


def _by_root() -> bool:
    """Whether the machine's root runs this: who is root of a user namespace alone has that number, and no rights."""
    return os.access(SHARED.parent, os.W_OK)


def _place(name: str) -> Path:
    """Give the folder of a release in the cache, which another recipe or archive does not share.

    Where root has made it already, another user has it from there.
    """
    version = name.removesuffix(FROM_SOURCE)
    inputs: list[Any] = (
        [DEBIAN[name], PACKAGES] if name in DEBIAN else [sources().get(version), TARGETS, OPTIONS]
    )
    text = json.dumps([*inputs, LOADER, platform.machine()])
    key = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    shared = SHARED / "xrootd" / key
    return shared if "TPCSWEEP_CACHE" not in os.environ and shared.exists() else cache() / key


@contextmanager
def _making(folder: Path) -> Iterator[None]:
    """One release at a time is made, whoever asks."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = locks.take(folder / "lock", waiting=lambda _: None)
    except OSError as error:
        raise ReleaseError(f"{folder}: {error.strerror}; TPCSWEEP_CACHE names another cache") from error
    try:
        yield
    finally:
        os.close(lock)


def _make(name: str, folder: Path, stage: Stage) -> None:
    """Make a release in a folder of its own beside its place, and rename it.

    The working folder stays when a build fails or is killed: the next one goes on there.
    """
    version = name.removesuffix(FROM_SOURCE)
    if name not in DEBIAN and version not in sources():
        raise ReleaseError(f"xrootd {name}: no source archive of it is known in {SOURCES}")
    work = folder.with_name(f"{folder.name}.part")
    record: dict[str, Any]
    if name in DEBIAN:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        record = unpack(name, work, stage, by_root=_by_root())
    else:
        work.mkdir(exist_ok=True)
        record = build(version, sources()[version], work, stage)
    made = work / "release"
    write_json(made / RECORD, record)
    loader = next((made / "lib").glob("ld-linux*.so.*"))
    (made / LOADER).mkdir()
    for program in PROGRAMS:
        (made / LOADER / program).symlink_to(f"../lib/{loader.name}")
    for path in (made, *made.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    made.rename(folder)
    shutil.rmtree(work)


def _digest(folder: Path) -> str:
    """Give a hash of a release's programs and libraries: a site may build its own anew under the same name."""
    total = hashlib.sha256()
    paths = [folder / "bin" / name for name in PROGRAMS]
    paths += sorted(path for name in ("lib", "lib64") for path in (folder / name).glob("libXrd*.so*"))
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()
