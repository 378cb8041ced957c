# SPDX-License-Identifier: Apache-2.0
"""Releases of XRootD: what their names mean, where each comes from, and how its programs are started.

Standard library only: pods start servers by this too.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SYSTEM = "system"
"""The release that the machine, or the image, has installed."""
FROM_SOURCE = "-source"
"""What follows a version that is to be built from source where Debian has it too."""
DEBIAN: Mapping[str, str] = {"5.5.3": "bookworm", "5.8.1": "trixie"}
"""Versions that a Debian release has, by its code name: unpacked in seconds."""
RECOMMENDED = "5.8.1"
"""The best release that is there in seconds. It crashes less than what Debian 12 has; see docs/crashes.md."""
PROGRAMS = ("xrootd", "cmsd", "xrdcp")
IN_IMAGE = Path("/opt/xrootd")
"""Where a container image has its releases, a folder each."""
LOADER = "loader"
"""The folder of a release with a link to its loader for each program: the kernel calls a process by the link's name."""
RECORD = "release.json"
"""The file in a release's folder that says how it came to be."""
SOURCES = Path(__file__).resolve().parents[3] / "envs/xrootd.txt"
"""Versions whose source archives are known, each with its hash."""
_PINNED = re.compile(r"xrootd==(?P<version>\S+) --hash=sha256:(?P<digest>[0-9a-f]{64})")
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+\S*)")


class ReleaseError(Exception):
    """A release cannot be had, or is not what it is called; the message says why, and what to do."""


@dataclass(frozen=True)
class Release:
    """An XRootD whose programs can be started here."""

    name: str
    """As the parameter `xrootd` has it."""
    folder: Path | None = None
    """What has its bin/ and lib/; None: the programs that the PATH finds."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """How it came to be, for provenance."""

    def command(self, program: str) -> list[str]:
        """Give the beginning of a command line for one of PROGRAMS, with a path: XRootD looks for its own in no PATH.

        A folder with a loader has all libraries that its programs need, and so runs on any Linux; one without, such
        as what `make install` leaves, has XRootD's own and takes the others from the machine.
        """
        if self.folder is None:
            return [shutil.which(program) or program]
        path = str(self.folder / "bin" / program)
        libraries = ":".join(str(self.folder / name) for name in ("lib", "lib64"))
        loader = self.folder / LOADER / program
        if not loader.exists():
            return ["/usr/bin/env", f"LD_LIBRARY_PATH={libraries}", path]
        return [str(loader), "--argv0", program, "--library-path", libraries, path]

    def version(self) -> str:
        """Ask the program itself for its version, such as 5.9.9.

        Raises:
            ReleaseError: if it does not run, or does not say one.
        """
        command = [*self.command("xrootd"), "-v"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReleaseError(f"xrootd {self.name}: {' '.join(command)}: {error}") from error
        said = (done.stdout + done.stderr).strip()
        version = _VERSION.fullmatch(said)
        if version is None:
            raise ReleaseError(
                f"xrootd {self.name}: {' '.join(command)} ended with {done.returncode} and said {said[:300]!r}, "
                "allowed: a version such as v5.9.9"
            )
        return version[1]

    def describe(self) -> dict[str, Any]:
        """Give what provenance has of it: its name, what its program says it is, how it came to be."""
        return {"release": self.name, "version": self.version(), **self.record}


def known(own: Iterable[str] = ()) -> list[str]:
    """List the names that `xrootd` may have, newest versions last: a testbed's own names come first."""
    versions = sorted({*DEBIAN, *sources()}, key=number)
    return [SYSTEM, *own, *versions, *(f"{version}{FROM_SOURCE}" for version in versions)]


def sources() -> dict[str, str]:
    """Give the versions that can be built from source, with the SHA-256 of their archives."""
    matches = _PINNED.finditer(SOURCES.read_text())
    return {match["version"]: match["digest"] for match in matches}


def number(version: str) -> tuple[int, ...]:
    """Give a version as numbers that compare: 5.10.0 is after 5.9.9."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def read(name: str, folder: Path) -> Release:
    """Give the release in a folder, with its record where it has one.

    Raises:
        ReleaseError: if a program is not there.
    """
    for program in PROGRAMS:
        if not (folder / "bin" / program).exists():
            raise ReleaseError(
                f"xrootd {name}: {folder}/bin/{program} is not there: allowed is a folder as `make install` of "
                f"XRootD leaves it, with bin/{', bin/'.join(PROGRAMS)} and its libraries in lib/ or lib64/"
            )
    record = folder / RECORD
    return Release(name, folder, json.loads(record.read_text()) if record.exists() else {})


def in_image(name: str) -> Release:
    """Give a release of the container image that this runs in.

    Raises:
        ReleaseError: if the image has none of that name.
    """
    if name == SYSTEM:
        return Release(SYSTEM)
    folder = IN_IMAGE / name
    if not folder.is_dir():
        there = ", ".join(sorted(path.name for path in IN_IMAGE.glob("*"))) or "none"
        raise ReleaseError(
            f"xrootd {name}: the image has no {folder}; it has {SYSTEM} and of others {there}: "
            f"build it with --xrootd {name} (envs/image/README.md), or correct `releases` of the testbed"
        )
    return read(name, folder)
