# SPDX-License-Identifier: Apache-2.0
"""The part of this package that pods run, as an archive that Python imports from, so no image needs to contain it."""

from __future__ import annotations

import functools
import io
import zipfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[3]
"""The folder with this package."""
PARTS = (
    ".",
    *("client", "linux", "measure", "paths", "tools", "xrootd"),
    *("testbeds", "testbeds/node", "testbeds/kubernetes/pod"),
)
"""Folders of the package whose modules pods import."""
ZERO = (1980, 1, 1, 0, 0, 0)
"""The earliest time of a file in an archive: the same code makes the same archive."""


@functools.cache
def package_archive() -> bytes:
    """Return a zip file of some 200 KiB; a ConfigMap may have a MiB."""
    held = io.BytesIO()
    package = HOME / "tpcsweep"
    files = {
        file for part in PARTS for file in (package / part).glob("*.*") if file.suffix in (".py", ".toml")
    }
    files.add(package / "testbeds/kubernetes/__init__.py")
    with zipfile.ZipFile(held, "w") as made:
        for file in sorted(files):
            entry = zipfile.ZipInfo(str(file.relative_to(HOME)), ZERO)
            made.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return held.getvalue()
