# SPDX-License-Identifier: Apache-2.0
"""The image: its layers in their order, and what it sets for those who run in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tpcsweep.measure.provenance import commit
from tpcsweep.xrootd.releases import RECOMMENDED

from .debian import SITE_LIST, WORKFLOW_LISTS, debian_layer, extra_layer, packages
from .layers import in_memory
from .messages import ImageError
from .oci import pack
from .places import HOME, VENV
from .releases import named, release_layer
from .repository import repository_files
from .tars import File
from .venv import venv_layer

TARGETS = ("site", "workflow")
USER = 10940
STATE = f"{HOME}/.snakemake"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}
WORKFLOW_ENVIRONMENT = {
    "PATH": f"/{VENV}/bin:{ENVIRONMENT['PATH']}",
    "HOME": "/tmp",  # noqa: S108 — in the container, for caches and for Jupyter
}


def build(out: Path, target: str, name: str, releases: Iterable[str] = ()) -> str:
    """Write the image as an archive in OCI layout; return the digest of its manifest, `sha256:…`.

    Args:
        out: The archive.
        target: One of TARGETS.
        name: The image's, with or without a tag.
        releases: Of XRootD beside Debian's: as `obtain` takes them, or NAME=FOLDER of one that a site has built.

    Raises ImageError, and leaves nothing behind then. What is found in the cache needs neither root nor network.
    """
    if target not in TARGETS:
        raise ImageError(f"target: given {target!r}, allowed: {', '.join(TARGETS)}")
    name = checked_name(name)
    beside = named(releases)
    if not out.parent.is_dir():
        raise ImageError(f"{out}: there is no folder {out.parent}; make it first")
    environment = dict(ENVIRONMENT)
    site = packages(SITE_LIST)
    debian = debian_layer(site)
    layers = [debian]
    if target == "workflow":
        extra = extra_layer(debian, site, packages(*WORKFLOW_LISTS))
        layers += [extra, venv_layer(debian, extra), release_layer(RECOMMENDED, None, in_cache=True)]
    layers += [release_layer(*release) for release in sorted(beside.items())]
    layers.append(in_memory({}, "where devices are mounted", "dev"))
    if target == "workflow":
        # Whoever runs it; what is not mounted there goes with the container.
        files = repository_files(debian) | {STATE: File(b"", 0o1777)}
        layers.append(in_memory(files, "the repository", STATE))
        environment |= WORKFLOW_ENVIRONMENT | {"TPCSWEEP_COMMIT": commit()}
    settings = {
        "User": f"{USER}:{USER}",
        "Env": [f"{key}={value}" for key, value in environment.items()],
        "Cmd": ["bash"],
        "WorkingDir": f"/{HOME}" if target == "workflow" else "/",
    }
    return pack(out, name, layers, settings)


def checked_name(name: str) -> str:
    """The name with its tag, which is `latest` where none is given; raises ImageError where it can be none."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.:-]*(/[a-z0-9][a-z0-9._-]*)+(:\w[\w.-]*)?", name, re.ASCII):
        raise ImageError(f"name: given {name!r}, allowed: HOST/NAME:TAG, such as localhost/tpcsweep:site")
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"
