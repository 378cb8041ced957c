# SPDX-License-Identifier: Apache-2.0
"""Get a release of XRootD into a cache that all checkouts share: unpacked from Debian's archive, or built from source.

What is in the cache is whole, and stays: a folder `RELEASE-KEY` with bin/, lib/ and release.json, where the key stands
for everything that it was made from. All libraries that its programs need are in lib/, the loader too, so that it runs
on this machine, on its successor and in a container image alike.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpcsweep.extras import missing
from tpcsweep.files import write_json
from tpcsweep.xrootd.releases import (
    DEBIAN,
    FROM_SOURCE,
    PROGRAMS,
    RECORD,
    SOURCES,
    SYSTEM,
    Release,
    ReleaseError,
    read,
    sources,
)

EXTRA = "xrootd"
"""The extra of set-up that has what building from source takes."""
PACKAGES = ("xrootd-server", "xrootd-server-plugins", "xrootd-plugins", "xrootd-client")
TARGETS = ("XrdCryptossl", "XrdHttp", "XrdHttpTPC", "XrdMacaroons", "XrdSec", "XrdSecProt", "XrdSecunix")
"""The plugins that sweeps load, without the number that follows their names: that of the major version."""
UNUSED = ("CEPH", "FUSE", "KRB5", "PYTHON", "READLINE", "SCITOKENS", "TESTS", "VOMS", "XRDCLHTTP", "XRDEC")
OPTIONS = (
    # Symbols, for who has a core dump; optimised as Debian does it.
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    *(f"-DENABLE_{feature}=OFF" for feature in UNUSED),
)
ALONE = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
"""A command's processes and mounts end with whoever started it, kill -9 included."""
SAID_LAST = 8
"""Lines of what a failed command said that errors quote."""
_STEP = re.compile(rb"\[(\d+)/(\d+)\]")
_WRONG = re.compile(r"error:|CMake Error|undefined reference", re.IGNORECASE)

Stage = Callable[[str], None]


def obtain(name: str, own: Mapping[str, Path], stage: Stage) -> Release:
    """Give a release, made first where the cache has it not.

    Args:
        name: SYSTEM, a version, a version with FROM_SOURCE behind it, or one of `own`.
        own: folders of releases that a site has built itself, by name.
        stage: tells people what takes long.

    Raises:
        ReleaseError: if it cannot be had.
    """
    if name == SYSTEM:
        return Release(SYSTEM)
    if name in own:
        folder = own[name]
        return Release(name, read(name, folder).folder, {"folder": str(folder), "digest": _digest(folder)})
    folder = _place(name)
    if not folder.exists():
        with _making(folder.parent):
            if not folder.exists():  # nobody else has made it meanwhile
                _make(name, folder, stage)
    return read(name, folder)


def to_build(name: str, own: Mapping[str, Path]) -> bool:
    """Say whether a release would have to be built from source first."""
    return name != SYSTEM and name not in own and name not in DEBIAN and not _place(name).exists()


def cache() -> Path:
    """Give the folder of the releases: root's is where users that servers run as may read it."""
    chosen = os.environ.get("TPCSWEEP_CACHE")
    shared = Path("/var/cache/tpcsweep") if os.geteuid() == 0 else Path.home() / ".cache/tpcsweep"
    return (Path(chosen) if chosen else shared) / "xrootd"


def _place(name: str) -> Path:
    """Give the folder of a release in the cache, which another recipe or archive does not share."""
    version = name.removesuffix(FROM_SOURCE)
    inputs: list[Any] = (
        [DEBIAN[name], PACKAGES] if name in DEBIAN else [sources().get(version), TARGETS, OPTIONS]
    )
    text = json.dumps([*inputs, platform.machine()])
    return cache() / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@contextmanager
def _making(folder: Path) -> Iterator[None]:
    """One release at a time is made, whoever asks."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise ReleaseError(f"{folder}: {error.strerror}; TPCSWEEP_CACHE names another cache") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(name: str, folder: Path, stage: Stage) -> None:
    """Make a release in a folder of its own beside its place, and rename it.

    The working folder stays when a build fails or is killed: the next one goes on there.
    """
    if name not in DEBIAN and name.removesuffix(FROM_SOURCE) not in sources():
        raise ReleaseError(f"xrootd {name}: no source archive of it is known in {SOURCES}")
    if os.geteuid() != 0:
        raise ReleaseError(f"xrootd {name}: only root can unpack and build releases: run this as root")
    work = folder.with_name(f"{folder.name}.part")
    if name in DEBIAN:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        record = _from_debian(name, work, stage)
    else:
        work.mkdir(exist_ok=True)
        record = _from_source(name.removesuffix(FROM_SOURCE), work, stage)
    made = work / "release"
    write_json(made / RECORD, record)
    for path in (made, *made.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    made.rename(folder)
    shutil.rmtree(work)


# Debian


def _from_debian(version: str, work: Path, stage: Stage) -> dict[str, Any]:
    """Unpack a release from Debian's archive, with what it depends on. apt checks the signatures."""
    suite = DEBIAN[version]
    stage(f"unpacking XRootD {version} of Debian {suite}")
    if shutil.which("mmdebstrap") is None:
        raise ReleaseError(f"xrootd {version}: mmdebstrap is missing; run `make setup`")
    packages = [f"{package}={version}-*" for package in PACKAGES]
    root, log = work / "root", work / "log"
    # Point releases may mend it, which changes what follows the version.
    command = [
        "mmdebstrap",
        "--mode=root",
        "--variant=extract",
        f"--include={','.join(packages)}",
        suite,
        str(root),
    ]
    if code := _logged([*ALONE, *command], log):
        raise ReleaseError(
            f"xrootd {version}: mmdebstrap could not unpack it from Debian {suite} (exit code {code}): "
            f"{_last(log)}; {version}{FROM_SOURCE} is the same release, built here"
        )
    made = work / "release"
    for name in PROGRAMS:
        _copy(root / "usr/bin" / name, made / "bin")
    for library in root.glob("usr/lib/*-linux-gnu/*.so*"):
        _copy(library, made / "lib")
    for library in root.glob("lib/*-linux-gnu/*.so*"):  # where Debian's libraries of C were until trixie
        _copy(library, made / "lib")
    changes = root / "usr/share/doc/xrootd-server/changelog.Debian.gz"
    newest = subprocess.run(["zcat", changes], capture_output=True, text=True, check=True).stdout
    package = re.search(r"\((.*?)\)", newest)
    return {"debian": suite, "package": package[1] if package else version}


# Source


def _from_source(version: str, work: Path, stage: Stage) -> dict[str, Any]:
    """Build what sweeps need of a release from its pinned archive."""
    pinned = sources()[version]
    if lacking := missing([EXTRA]):
        raise ReleaseError(f"xrootd {version}: {lacking[0]}")
    if find_spec("pip") is None:
        raise ReleaseError(
            f"xrootd {version}: pip fetches its source archive, and {sys.executable} has none: "
            "run this with .venv/bin/python, as `make setup` makes it"
        )
    archive, source, build, log = (work / name for name in ("archive", "source", "build", "log"))
    if not source.exists():
        stage(f"fetching the source of XRootD {version}")
        _fetch(version, pinned, archive, log)
        unpacked = work / "unpacked"
        unpacked.mkdir(exist_ok=True)
        # Debian 12's own Python has no filter for what its tarfile extracts.
        extract = ["tar", "--extract", "--no-same-owner", "--file", str(next(archive.glob("*.tar.gz")))]
        subprocess.run([*extract, "--directory", str(unpacked)], check=True)
        (unpacked / f"xrootd-{version}").rename(source)
    stage(f"building XRootD {version} from source, some minutes; its log is {log}")
    if code := _logged([*ALONE, "cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), *OPTIONS], log):
        raise ReleaseError(f"xrootd {version}: cmake ended with {code}: {_wrong(log)}; all of it is in {log}")
    major = version.partition(".")[0]
    targets = [*PROGRAMS, *(f"{target}-{major}" for target in TARGETS)]
    if code := _logged([*ALONE, "ninja", "-C", str(build), *targets], log, _progress(version, stage)):
        raise ReleaseError(
            f"xrootd {version}: the build ended with {code}: {_wrong(log)}; all of it is in {log}"
        )
    _collect(build, work / "release")
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout
    return {"sha256": pinned, "compiler": compiler.partition("\n")[0], "options": list(OPTIONS)}


def _fetch(version: str, digest: str, folder: Path, log: Path) -> None:
    """Fetch a source archive as pip does, from where pip is told to, and check its hash."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    wanted = folder / "wanted.txt"
    wanted.write_text(f"xrootd=={version} --hash=sha256:{digest}\n")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "xrootd", "--require-hashes"]
    if code := _logged([*ALONE, *pip, "--requirement", str(wanted), "--dest", str(folder)], log):
        raise ReleaseError(
            f"xrootd {version}: pip could not fetch its source archive (exit code {code}): {_last(log)}"
        )


def _collect(build: Path, made: Path) -> None:
    """Copy the programs and plugins that were built, and all libraries that they need, into a folder."""
    shutil.rmtree(made, ignore_errors=True)
    for name in PROGRAMS:
        _copy(
            next(path for path in build.rglob(name) if path.is_file() and os.access(path, os.X_OK)),
            made / "bin",
        )
    for library in build.rglob("libXrd*.so*"):
        _copy(library, made / "lib")
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


def _copy(path: Path, folder: Path) -> None:
    """Copy a file, or a link as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, folder / path.name, follow_symlinks=False)


def _progress(version: str, stage: Stage) -> Callable[[bytes], None]:
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


def _logged(command: Sequence[str], log: Path, hear: Callable[[bytes], object] = bool) -> int:
    """Run a command to its end, its words into a log that it begins anew; returns its exit code.

    Each line is told to `hear`, as it comes.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout
        try:
            for line in process.stdout:
                file.write(line)
                hear(line)
        except BaseException:
            process.kill()  # whatever it has started goes with it
            raise
    return process.returncode


def _last(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-SAID_LAST:])


def _wrong(log: Path) -> str:
    """Give the first line of a log that says what is wrong; else its last lines."""
    lines = log.read_text(errors="replace").splitlines()
    return next((line.strip() for line in lines if _WRONG.search(line)), _last(log))


def _digest(folder: Path) -> str:
    """Give a hash of a release's programs and libraries: a site may build its own anew under the same name."""
    total = hashlib.sha256()
    paths = [folder / "bin" / name for name in PROGRAMS]
    paths += sorted(path for name in ("lib", "lib64") for path in (folder / name).glob("libXrd*.so*"))
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()
