# SPDX-License-Identifier: Apache-2.0
"""What the machine is and must have for layers to be made on it."""

from __future__ import annotations

import os
import platform
import shutil

from .messages import ImageError

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "tar": "tar",
    "zstd": "zstd",
}
"""What building the cached layers runs, and the Debian packages that have it."""


def architecture() -> str:
    """This machine's, as OCI and Debian call it. Raises ImageError for one that no image is built for."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise ImageError(f"this machine is {machine}; images are built for {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[machine]


def require_machine() -> None:
    """Raises ImageError where a program is not there, or this is not root."""
    missing = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if missing:
        raise ImageError(
            f"making the image's layers needs {', '.join(missing)}; apt-get install {' '.join(missing)}"
        )
    if os.geteuid() != 0:
        raise ImageError(
            "making the image's layers needs root, for mounts of its own: run this as root, or build with an engine "
            "from envs/image/Containerfile"
        )
