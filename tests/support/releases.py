# SPDX-License-Identifier: Apache-2.0
"""Releases of XRootD that only say which they are."""

from pathlib import Path

from tpcsweep.deploying.xrootd.releases import PROGRAMS


def folder_of(place: Path, said: str, libraries: str = "lib") -> Path:
    """A folder as `make install` leaves it, whose programs say the same of themselves."""
    (place / "bin").mkdir(parents=True)
    (place / libraries).mkdir()
    for name in PROGRAMS:
        program = place / "bin" / name
        program.write_text(f"#!/bin/sh\necho {said} >&2\n")
        program.chmod(0o755)
    return place
