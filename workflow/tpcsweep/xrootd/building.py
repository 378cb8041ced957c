# SPDX-License-Identifier: Apache-2.0
"""Build what sweeps need of a release of XRootD from its pinned source archive."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpcsweep.extras import missing
from tpcsweep.files import copy_into
from tpcsweep.xrootd.logged import last_words, run, wrong
from tpcsweep.xrootd.releases import PROGRAMS, ReleaseError

EXTRA = "xrootd"
"""The extra of set-up that has what building from source takes."""
TARGETS = ("XrdCryptossl", "XrdHttp", "XrdHttpTPC", "XrdMacaroons", "XrdSec", "XrdSecProt", "XrdSecunix")
"""The plugins that sweeps load, without the number that follows their names: that of the major version."""
UNUSED = ("CEPH", "FUSE", "KRB5", "PYTHON", "READLINE", "SCITOKENS", "TESTS", "VOMS", "XRDCLHTTP", "XRDEC")
OPTIONS = (
    # Symbols, for who has a core dump; optimised as Debian does it.
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    *(f"-DENABLE_{feature}=OFF" for feature in UNUSED),
)
_STEP = re.compile(rb"\[(\d+)/(\d+)\]")


def build(version: str, digest: str, work: Path, stage: Callable[[str], None]) -> dict[str, Any]:
    """Build what sweeps need of a release into `release` of a folder for work; returns how it came to be.

    Where the folder has what an earlier build left, this one goes on there.

    Args:
        version: the release.
        digest: SHA-256 of its source archive.
        work: the folder.
        stage: tells people how far it is.

    Raises:
        ReleaseError: if it cannot be built, with the line that says why.
    """
    if lacking := missing([EXTRA]):
        raise ReleaseError(f"xrootd {version}: {lacking[0]}")
    if find_spec("pip") is None:
        raise ReleaseError(
            f"xrootd {version}: pip fetches its source archive, and {sys.executable} has none: "
            "run this with .venv/bin/python, as `make setup` makes it"
        )
    archive, source, objects, log = (work / name for name in ("archive", "source", "build", "log"))
    if not source.exists():
        stage(f"fetching the source of XRootD {version}")
        fetch(version, digest, archive, log)
        unpacked = work / "unpacked"
        unpacked.mkdir(exist_ok=True)
        # Debian 12's own Python has no filter for what its tarfile extracts.
        extract = ["tar", "--extract", "--no-same-owner", "--file", str(next(archive.glob("*.tar.gz")))]
        subprocess.run([*extract, "--directory", str(unpacked)], check=True)
        (unpacked / f"xrootd-{version}").rename(source)
    stage(f"building XRootD {version} from source, some minutes; its log is {log}")
    if code := run(["cmake", "-G", "Ninja", "-S", str(source), "-B", str(objects), *OPTIONS], log):
        raise ReleaseError(f"xrootd {version}: cmake ended with {code}: {wrong(log)}; all of it is in {log}")
    major = version.partition(".")[0]
    targets = [*PROGRAMS, *(f"{target}-{major}" for target in TARGETS)]
    if code := run(["ninja", "-C", str(objects), *targets], log, _progress(version, stage)):
        raise ReleaseError(
            f"xrootd {version}: the build ended with {code}: {wrong(log)}; all of it is in {log}"
        )
    _collect(objects, work / "release")
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout
    cache = (objects / "CMakeCache.txt").read_text()
    flags = re.findall(r"^CMAKE_CXX_FLAGS(?:_RELWITHDEBINFO)?:STRING=(.+)$", cache, re.MULTILINE)
    return {
        "sha256": digest,
        "compiler": compiler.partition("\n")[0],
        "flags": " ".join(flags),
        "options": list(OPTIONS),
    }


def fetch(version: str, digest: str, folder: Path, log: Path) -> None:
    """Fetch a source archive as pip does, from where pip is told to, and check its hash."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    wanted = folder / "wanted.txt"
    wanted.write_text(f"xrootd=={version} --hash=sha256:{digest}\n")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "xrootd", "--require-hashes"]
    if code := run([*pip, "--requirement", str(wanted), "--dest", str(folder)], log):
        raise ReleaseError(
            f"xrootd {version}: pip could not fetch its source archive (exit code {code}): {last_words(log)}"
        )


def _collect(objects: Path, made: Path) -> None:
    """Copy the programs and plugins that were built, and all libraries that they need, into a folder."""
    shutil.rmtree(made, ignore_errors=True)
    for name in PROGRAMS:
        program = next(path for path in objects.rglob(name) if path.is_file() and os.access(path, os.X_OK))
        copy_into(made / "bin", program)
    for library in objects.rglob("libXrd*.so*"):
        copy_into(made / "lib", library)
    needed: set[Path] = set()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(made / "lib")}
    for binary in (*(made / "bin").iterdir(), *(made / "lib").iterdir()):
        said = subprocess.run(
            ["ldd", binary], capture_output=True, text=True, check=True, env=environment
        ).stdout
        needed |= {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE)}
    for library in needed:
        if not library.is_relative_to(made):
            shutil.copy2(library, made / "lib" / library.name)


def _progress(version: str, stage: Callable[[str], None]) -> Callable[[bytes], None]:
    """Give what is told each line of ninja's and says each fifth of the work."""
    told = 0

    def hear(line: bytes) -> None:
        nonlocal told
        if step := _STEP.match(line):
            done, all_steps = map(int, step.groups())
            if done * 5 // all_steps > told:
                told = done * 5 // all_steps
                stage(f"building XRootD {version}: {done} of {all_steps} steps")

    return hear
