# SPDX-License-Identifier: Apache-2.0
"""Layers that take long to make, kept by the hash of what they are made of."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from .digests import as_json, hash_of
from .layers import Layer
from .machine import architecture, require_machine
from .messages import ImageError, say
from .tars import EPOCH

COMPRESS = ("zstd", "-3", "--single-thread", "--quiet", "--force")
"""Imported sooner than gzip or no compression (on two cores, in memory: 2.5, 4 and 4 s), and a third of the size."""


def home() -> Path:
    """Where layers are kept; all of it may be deleted at any time but during a build."""
    chosen = os.environ.get("TPCSWEEP_CACHE")
    return (Path(chosen) if chosen else Path.home() / ".cache/tpcsweep") / "image"


def kept(kind: str, inputs: Any, make: Callable[[IO[bytes]], object], note: str) -> Layer:
    """The layer of these inputs from the cache, made first where it is not there.

    A file's name has the hash of its inputs and its digests, so that a rename publishes all of it. One build at a
    time makes layers; what a killed one left is written over by the next.

    Args:
        kind: How its file's name begins; without a hyphen.
        inputs: All that it is made of and by, as JSON has it.
        make: Writes it as a tar file.
        note: What the image says of it.

    Raises ImageError where the cache cannot be written to, or where this machine cannot make layers.
    """
    key = hashlib.sha256(as_json([inputs, COMPRESS, EPOCH, architecture()])).hexdigest()[:16]
    folder = home()
    if found := _find(folder, kind, key, note):
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise ImageError(f"cache: {error}; TPCSWEEP_CACHE names another folder") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found := _find(folder, kind, key, note):
            return found
        require_machine()
        say(f"making the layer {kind} ({note[:60]}…)")
        plain, packed = folder / "partial.tar", folder / "partial.tar.zst"
        try:
            with plain.open("wb") as file:
                make(file)
            subprocess.run([*COMPRESS, "-o", str(packed), str(plain)], check=True)
            packed.rename(folder / f"{kind}-{key}-{hash_of(plain)}-{hash_of(packed)}.tar.zst")
        except subprocess.CalledProcessError as error:
            raise ImageError(f"zstd failed with {error.returncode}; is there room in {folder}?") from error
        finally:
            plain.unlink(missing_ok=True)
            packed.unlink(missing_ok=True)
        found = _find(folder, kind, key, note)
        assert found is not None
        return found


def unpacked(layer: Layer) -> bytes:
    """A kept layer's tar file."""
    command = ["zstd", "--decompress", "--stdout", "--quiet", str(layer.file)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def _find(folder: Path, kind: str, key: str, note: str) -> Layer | None:
    for file in folder.glob(f"{kind}-{key}-*.tar.zst"):
        _, _, whole, digest = file.name.removesuffix(".tar.zst").split("-")
        return Layer(file, f"sha256:{digest}", f"sha256:{whole}", note)
    return None
