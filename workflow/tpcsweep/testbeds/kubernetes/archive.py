# SPDX-License-Identifier: Apache-2.0
"""The part of this package that pods run, as an archive that Python imports from, so no image needs to contain it."""

import io
import zipfile
from pathlib import Path

PARTS = (
    *("*.py", "*.toml"),
    *(f"{folder}/*.py" for folder in ("client", "linux", "measure", "paths", "tools", "xrootd")),
    *("testbeds/*.py", "testbeds/node/*.py"),
    *("testbeds/kubernetes/__init__.py", "testbeds/kubernetes/pod/*.py"),
)
"""Files of the package that pods import."""
ZERO = (1980, 1, 1, 0, 0, 0)
"""The earliest time of a file in an archive: the same code makes the same archive."""


def package_archive() -> bytes:
    """Return a zip file of some 200 KiB; a ConfigMap may have a MiB."""
    package = Path(__file__).resolve().parents[2]
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        for file in sorted(file for part in PARTS for file in package.glob(part)):
            entry = zipfile.ZipInfo(str(file.relative_to(package.parent)), ZERO)
            made.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return held.getvalue()
