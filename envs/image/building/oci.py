# SPDX-License-Identifier: Apache-2.0
"""An image as an archive in OCI layout (image-spec 1.0)."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpcsweep.files import replacing

from .digests import as_json, digest_of
from .layers import Layer
from .machine import architecture
from .tars import entry

CREATED = "2025-01-01T00:00:00Z"  # EPOCH
KIND = "application/vnd.oci.image"


def pack(out: Path, name: str, layers: Iterable[Layer], settings: Mapping[str, Any]) -> str:
    """Write the archive of an image, beside and renamed; return its manifest's digest."""
    layers = list(layers)
    system = {"architecture": architecture(), "os": "linux"}
    configuration = as_json(_configuration(layers, settings, system))
    manifest = as_json(_manifest(layers, configuration))
    digest = digest_of(manifest)
    contents: dict[str, Path | bytes] = {
        "oci-layout": as_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": as_json(_index(name, manifest, system)),
        _blob(digest): manifest,
        _blob(digest_of(configuration)): configuration,
    }
    contents |= {_blob(layer.digest): layer.content for layer in layers}
    with replacing(out) as part, tarfile.open(part, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, content in contents.items():
            if isinstance(content, bytes):
                archive.addfile(entry(path, len(content)), io.BytesIO(content))
            else:
                with content.open("rb") as source:
                    archive.addfile(entry(path, content.stat().st_size), source)
    return digest


def _configuration(
    layers: Sequence[Layer], settings: Mapping[str, Any], system: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "created": CREATED,
        **system,
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [layer.whole for layer in layers]},
        "history": [{"created": CREATED, "comment": layer.note} for layer in layers],
    }


def _manifest(layers: Sequence[Layer], configuration: bytes) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": f"{KIND}.manifest.v1+json",
        "config": _descriptor(f"{KIND}.config.v1+json", digest_of(configuration), len(configuration)),
        "layers": [_descriptor(layer.kind, layer.digest, layer.size) for layer in layers],
    }


def _index(name: str, manifest: bytes, system: Mapping[str, str]) -> dict[str, Any]:
    described = _descriptor(f"{KIND}.manifest.v1+json", digest_of(manifest), len(manifest))
    names = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
    annotations = dict.fromkeys(names, name)
    return {"schemaVersion": 2, "manifests": [{**described, "platform": system, "annotations": annotations}]}


def _descriptor(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest, "size": size}


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
