# SPDX-License-Identifier: Apache-2.0
"""Releases of XRootD: names, origins, and command lines of their programs.

Standard library only, because pods import it.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tpcsweep.common import processes
from tpcsweep.common.installation import SHIPPED

SYSTEM = "system"  # the release that is installed on the machine or in the image
FROM_SOURCE = "-source"  # suffix of a version that is built from source although Debian has it
DEBIAN: Mapping[str, str] = {"5.5.3": "bookworm", "5.8.1": "trixie"}
"""Versions that are unpacked from a Debian release, with its code name."""
RECOMMENDED = "5.8.1"  # best release in Debian, with fewer crashes than Debian 12's; see docs/studies.md
PROGRAMS = ("xrootd", "cmsd", "xrdcp")
FIRST_HTTP_CLIENT = (6, 2)  # first version whose xrdcp makes third-party copies by HTTP
FIRST_MIRAGE = (6, 2)  # first version that is built with XrdOssMirage, which exists since 6.1.0
HTTP_CLIENT = "6.2.1"
"""Release whose xrdcp copies by HTTP where the installed one is older."""
IN_IMAGE = Path("/opt/xrootd")  # folder of a container image's releases
LOADER = "loader"
"""Subfolder of a release with a link to its loader for each program, so that processes have its name."""
RECORD = "release.json"  # file in a release's folder with the record of its build
SOURCES = SHIPPED / "envs/xrootd.txt"
"""List of versions with known source archives, each with its hash."""
_PINNED = re.compile(r"xrootd==(?P<version>\S+) --hash=sha256:(?P<digest>[0-9a-f]{64})")
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+\S*)")


class ReleaseError(Exception):
    """A release cannot be made, or differs from its name; the message has the reason and the fix."""


@dataclass(frozen=True)
class Release:
    name: str  # value of the parameter `xrootd`
    folder: Path | None = None  # folder with its bin/ and lib/, or None for the programs in PATH
    record: Mapping[str, Any] = field(default_factory=dict)  # record of its build, for provenance
    environment: Mapping[str, str] | None = field(default=None, compare=False)
    """Environment of its programs, as in an image, or None for that of the system's commands."""

    def command(self, program: str) -> list[str]:
        """Return the start of a command line for one of PROGRAMS, with a path, which XRootD needs.

        A folder with a loader has all libraries that its programs need. A folder without, as from `make install`, has
        XRootD's own libraries and uses the machine's for the rest.
        """
        if self.folder is None:
            return [shutil.which(program) or program]
        path = str(self.folder / "bin" / program)
        libraries = ":".join(str(self.folder / name) for name in ("lib", "lib64"))
        loader = self.folder / LOADER / program
        if not loader.exists():
            return ["/usr/bin/env", f"LD_LIBRARY_PATH={libraries}", path]
        return [str(loader), "--argv0", program, "--library-path", libraries, path]

    def client_version(self) -> str:
        """Return the version of its xrdcp; "" without one."""
        try:
            return self.version("xrdcp", "--version")
        except ReleaseError:
            return ""

    def copies_by_http(self) -> bool:
        """Return whether it has an xrdcp that makes third-party copies by HTTP."""
        return version_number(self.client_version()) >= FIRST_HTTP_CLIENT

    def version(self, program: str = "xrootd", option: str = "-v") -> str:
        """Return the version that a program prints, such as 5.9.9. Raises ReleaseError without one."""
        command = [*self.command(program), option]
        try:
            done = processes.run(command, self.environment, timeout=20)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReleaseError(f"xrootd {self.name}: {' '.join(command)}: {error}") from error
        output = (done.stdout + done.stderr).strip()
        version = _VERSION.fullmatch(output)
        if version is None:
            raise ReleaseError(
                f"xrootd {self.name}: {' '.join(command)} ended with {done.returncode} and printed {output[:300]!r}, "
                "allowed: a version such as v5.9.9"
            )
        return version[1]

    def describe(self) -> dict[str, Any]:
        return {"release": self.name, "version": self.version(), **self.record}


def known_releases(own: Iterable[str] = ()) -> list[str]:
    """Return the possible values of `xrootd`, a testbed's own names first and the newest versions last."""
    versions = sorted({*DEBIAN, *sources()}, key=version_number)
    return [SYSTEM, *own, *versions, *(f"{version}{FROM_SOURCE}" for version in versions)]


def sources() -> dict[str, str]:
    """Return the versions that can be built from source, with the SHA-256 of their archives."""
    matches = _PINNED.finditer(SOURCES.read_text())
    return {match["version"]: match["digest"] for match in matches}


def version_number(version: str) -> tuple[int, ...]:
    """Return a version as comparable numbers: 5.10.0 is after 5.9.9."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def release_in(name: str, folder: Path) -> Release:
    """Return the release in a folder. Raises ReleaseError if a program is missing."""
    for program in PROGRAMS:
        if not (folder / "bin" / program).exists():
            raise ReleaseError(
                f"xrootd {name}: {folder}/bin/{program} is not there: allowed is a folder as `make install` of "
                f"XRootD leaves it, with bin/{', bin/'.join(PROGRAMS)} and its libraries in lib/ or lib64/"
            )
    record = folder / RECORD
    return Release(name, folder, json.loads(record.read_text()) if record.exists() else {})


def in_image(name: str) -> Release:
    """Return a release of the surrounding container image. Raises ReleaseError if the image lacks it."""
    if name == SYSTEM:
        return Release(SYSTEM, environment=processes.full_environment())
    folder = IN_IMAGE / name
    if not folder.is_dir():
        there = ", ".join(sorted(path.name for path in IN_IMAGE.glob("*"))) or "none"
        raise ReleaseError(
            f"xrootd {name}: the image has no {folder}; it has {SYSTEM} and of others {there}: "
            f"add it to the image (envs/image/README.md), or correct `releases` of the testbed"
        )
    return replace(release_in(name, folder), environment=processes.full_environment())
