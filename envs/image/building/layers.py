# SPDX-License-Identifier: Apache-2.0
"""Layers of an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .digests import digest_of
from .tars import File, tar

KIND = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True)
class Layer:
    """One layer: as a zstd-compressed tar file of the cache, or as a small tar in memory.

    `digest` is that of the content as it is, `whole` that of the tar file without compression.
    """

    content: Path | bytes
    digest: str
    whole: str
    note: str

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    @property
    def kind(self) -> str:
        """The media type."""
        return KIND if isinstance(self.content, bytes) else f"{KIND}+zstd"

    @property
    def file(self) -> Path:
        """That of the cache; what is in memory has none."""
        assert isinstance(self.content, Path)
        return self.content


def in_memory(files: Mapping[str, File], note: str, *more: str) -> Layer:
    """The layer of these files, their folders and `more` folders."""
    content = tar(files, *more)
    digest = digest_of(content)
    return Layer(content, digest, digest, note)
