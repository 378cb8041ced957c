# SPDX-License-Identifier: Apache-2.0
"""Unpack a release of XRootD from Debian's archive, with all that it depends on. apt checks the signatures."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tpcsweep.files import copy_into
from tpcsweep.xrootd.logged import last_words, run
from tpcsweep.xrootd.releases import DEBIAN, FROM_SOURCE, PROGRAMS, SYSTEM, ReleaseError

PACKAGES = ("xrootd-server", "xrootd-server-plugins", "xrootd-plugins", "xrootd-client")


AS_USER = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
"""Runs a program as an ordinary user, also for one who is root of a user namespace and can give files to nobody."""


def unpack(version: str, work: Path, stage: Callable[[str], None], *, by_root: bool) -> dict[str, str]:
    """Unpack a release into `release` of a folder for work; returns how it came to be.

    `by_root` is whether the machine's root does it.

    Raises:
        ReleaseError: if Debian's archive cannot be reached, or has that version no more.
    """
    suite = DEBIAN[version]
    stage(f"unpacking XRootD {version} of Debian {suite}")
    if shutil.which("mmdebstrap") is None:
        raise ReleaseError(
            f"xrootd {version}: mmdebstrap is missing; run `make setup`, or where no package has it ask for "
            f"{SYSTEM}, what the machine has, or {version}{FROM_SOURCE}, built here"
        )
    packages = [f"{package}={version}-*" for package in PACKAGES]
    root, log = work / "root", work / "log"
    # Point releases may mend it, which changes what follows the version.
    command = [
        *(("mmdebstrap", "--mode=root") if by_root else (*AS_USER, "mmdebstrap", "--mode=chrootless")),
        "--variant=extract",
        f"--include={','.join(packages)}",
        suite,
        str(root),
    ]
    if code := run(command, log):
        raise ReleaseError(
            f"xrootd {version}: mmdebstrap could not unpack it from Debian {suite} (exit code {code}): "
            f"{last_words(log)}; {version}{FROM_SOURCE} is the same release, built here, and {SYSTEM} "
            "what the machine has"
        )
    made = work / "release"
    for name in PROGRAMS:
        copy_into(made / "bin", root / "usr/bin" / name)
    for library in root.glob("usr/lib/*-linux-gnu/*.so*"):
        copy_into(made / "lib", library)
    for library in root.glob("lib/*-linux-gnu/*.so*"):  # where Debian's libraries of C were until trixie
        copy_into(made / "lib", library)
    changes = root / "usr/share/doc/xrootd-server/changelog.Debian.gz"
    newest = subprocess.run(["zcat", changes], capture_output=True, text=True, check=True).stdout
    package = re.search(r"\((.*?)\)", newest)
    return {"debian": suite, "package": package[1] if package else version}
