# SPDX-License-Identifier: Apache-2.0
"""Releases of XRootD: their names, their origins, and the command lines of their programs.

Standard library only, as it also runs in pods.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tpcsweep import processes

SYSTEM = "system"  # the release that is installed on the machine or in the image
FROM_SOURCE = "-source"  # follows a version that is built from source though Debian has it
DEBIAN: Mapping[str, str] = {"5.5.3": "bookworm", "5.8.1": "trixie"}
"""Versions that are unpacked from a Debian release, given by its code name."""
RECOMMENDED = "5.8.1"
"""The best release of Debian. It crashes less than Debian 12's; see docs/studies.md."""
PROGRAMS = ("xrootd", "cmsd", "xrdcp")
IN_IMAGE = Path("/opt/xrootd")  # the folder of a container image's releases
LOADER = "loader"
"""The folder of a release with a link to its loader for each program: the kernel calls a process by the link's name."""
RECORD = "release.json"
"""The file in a release's folder with the record of its making."""
SOURCES = Path(__file__).resolve().parents[3] / "envs/xrootd.txt"
"""Versions whose source archives are known, each with its hash."""
_PINNED = re.compile(r"xrootd==(?P<version>\S+) --hash=sha256:(?P<digest>[0-9a-f]{64})")
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+\S*)")


class ReleaseError(Exception):
    """A release cannot be made, or is not what its name says; the message has the reason and a remedy."""


@dataclass(frozen=True)
class Release:
    """A release whose programs can be started on this machine."""

    name: str
    """The value of the parameter `xrootd`."""
    folder: Path | None = None
    """The folder with its bin/ and lib/; None: the programs that the PATH finds."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """The record of its making, for provenance."""
    environment: Mapping[str, str] | None = field(default=None, compare=False)
    """The environment of its programs where they ask for one, as in an image; None: that of the system's commands."""

    def command(self, program: str) -> list[str]:
        """Return the beginning of a command line for one of PROGRAMS, with a path, which XRootD needs.

        A folder with a loader has all libraries that its programs need. One without, as `make install` leaves it, has
        XRootD's own and uses the machine's for the others.
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
        """Return the version that the program prints, such as 5.9.9; raises ReleaseError without one."""
        command = [*self.command("xrootd"), "-v"]
        try:
            done = processes.run(command, self.environment, timeout=20)
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
        """Return its provenance: name, version, and the record of its making."""
        return {"release": self.name, "version": self.version(), **self.record}


def known(own: Iterable[str] = ()) -> list[str]:
    """Return the possible values of `xrootd`, a testbed's own names first and the newest versions last."""
    versions = sorted({*DEBIAN, *sources()}, key=version_number)
    return [SYSTEM, *own, *versions, *(f"{version}{FROM_SOURCE}" for version in versions)]


def sources() -> dict[str, str]:
    """Return the versions that can be built from source, with the SHA-256 of their archives."""
    matches = _PINNED.finditer(SOURCES.read_text())
    return {match["version"]: match["digest"] for match in matches}


def version_number(version: str) -> tuple[int, ...]:
    """Return a version as numbers that compare: 5.10.0 is after 5.9.9."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def release_in(name: str, folder: Path) -> Release:
    """Return the release in a folder; raises ReleaseError if a program is missing."""
    for program in PROGRAMS:
        if not (folder / "bin" / program).exists():
            raise ReleaseError(
                f"xrootd {name}: {folder}/bin/{program} is not there: allowed is a folder as `make install` of "
                f"XRootD leaves it, with bin/{', bin/'.join(PROGRAMS)} and its libraries in lib/ or lib64/"
            )
    record = folder / RECORD
    return Release(name, folder, json.loads(record.read_text()) if record.exists() else {})


def in_image(name: str) -> Release:
    """Return a release of the container image that this runs in; raises ReleaseError if the image lacks it."""
    if name == SYSTEM:
        return Release(SYSTEM, environment=processes.whole())
    folder = IN_IMAGE / name
    if not folder.is_dir():
        there = ", ".join(sorted(path.name for path in IN_IMAGE.glob("*"))) or "none"
        raise ReleaseError(
            f"xrootd {name}: the image has no {folder}; it has {SYSTEM} and of others {there}: "
            f"add it to the image (envs/image/README.md), or correct `releases` of the testbed"
        )
    return replace(release_in(name, folder), environment=processes.whole())
