# SPDX-License-Identifier: Apache-2.0
"""Get a release of XRootD from a shared cache, unpacked from Debian's archive or built from source.

The cache has a folder `RELEASE-KEY` for each release, with bin/, lib/ and release.json; the key is a hash of all
inputs. lib/ has all libraries that the programs need including the loader, so that a release runs on any Linux and in
any container image.
"""

import gzip
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
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpcsweep.common import locks, processes
from tpcsweep.common.extras import missing_extras
from tpcsweep.common.files import copy_into, write_json
from tpcsweep.deploying.xrootd import releases
from tpcsweep.deploying.xrootd.releases import (
    FROM_SOURCE,
    PROGRAMS,
    SYSTEM,
    Release,
    ReleaseError,
    release_in,
    sources,
    version_number,
)

EXTRA = "xrootd"  # the extra of set-up with the programs that a build needs
TARGETS = ("XrdCryptossl", "XrdHttp", "XrdHttpTPC", "XrdMacaroons", "XrdSec", "XrdSecProt", "XrdSecunix")
"""Plugins that sweeps load, without the suffix for the major version."""
UNUSED = ("CEPH", "FUSE", "KRB5", "PYTHON", "READLINE", "SCITOKENS", "TESTS", "VOMS", "XRDCLHTTP", "XRDEC")
OPTIONS = (
    # Symbols for core dumps; optimised as in Debian.
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    *(f"-DENABLE_{feature}=OFF" for feature in UNUSED),
)
WITH_HTTP_CLIENT = "-DENABLE_XRDCLHTTP=ON"  # later options override earlier ones
PACKAGES = ("xrootd-server", "xrootd-server-plugins", "xrootd-plugins", "xrootd-client")
AS_USER = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
"""Prefix that runs a program as ordinary user.
It also works for root of a user namespace, who can give files to nobody."""
KILLED_WITH_PARENT = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
"""Prefix that ends a command's processes and mounts with the process that started it, even by kill -9."""
LAST_LINES = 8  # of a failed command's log, which errors quote
_STEP = re.compile(rb"\[(\d+)/(\d+)\]")
_WRONG = re.compile(r"error:|CMake Error|undefined reference", re.IGNORECASE)
SHARED = Path("/var/cache/tpcsweep")
Stage = Callable[[str], None]  # reports progress to the user


@processes.readable_umask()
def obtain(name: str, own: Mapping[str, Path], stage: Stage) -> Release:
    """Return a release, creating it if the cache lacks it. Raises ReleaseError.

    Its name is SYSTEM, a version, a version followed by FROM_SOURCE, or that of one of the site's `own` releases.
    """
    if name == SYSTEM:
        return Release(SYSTEM)
    if name in own:
        folder = own[name]
        return replace(release_in(name, folder), record={"folder": str(folder), "digest": _digest(folder)})
    folder = _place(name)
    if not folder.exists():
        with _making(folder.parent):
            if not folder.exists():  # no concurrent process has made it meanwhile
                _make(name, folder, stage)
    return release_in(name, folder)


def obtain_client(stage: Stage) -> Release:
    """Return a release whose xrdcp copies by HTTP: the installed one, or else HTTP_CLIENT. Raises ReleaseError."""
    installed = Release(SYSTEM)
    return installed if installed.copies_by_http() else obtain(releases.HTTP_CLIENT, {}, stage)


def to_build(name: str, own: Mapping[str, Path]) -> bool:
    return name != SYSTEM and name not in own and name not in releases.DEBIAN and not _place(name).exists()


def cache() -> Path:
    """Return the folder of the releases; the servers' user can read root's."""
    chosen = os.environ.get("TPCSWEEP_CACHE")
    own = SHARED if _by_root() else Path.home() / ".cache/tpcsweep"
    return (Path(chosen) if chosen else own) / "xrootd"


def _by_root() -> bool:
    """Return whether the machine's root runs this, as opposed to root of a user namespace."""
    return os.access(SHARED.parent, os.W_OK)


def _place(name: str) -> Path:
    """Return the folder of a release in the cache, or in root's cache if that has it."""
    version = name.removesuffix(FROM_SOURCE)
    built = [sources().get(version), *recipe(version)]
    inputs = [releases.DEBIAN[name], PACKAGES] if name in releases.DEBIAN else built
    text = json.dumps([*inputs, releases.LOADER, platform.machine()])
    key = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    shared = SHARED / "xrootd" / key
    return shared if "TPCSWEEP_CACHE" not in os.environ and shared.exists() else cache() / key


def recipe(version: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the plugins and the options of a build. Plugins of a release are in its key, so older keys must last."""
    if version_number(version) < releases.FIRST_HTTP_CLIENT:
        return TARGETS, OPTIONS
    return (*TARGETS, "XrdClHttp", "XrdOssMirage"), (*OPTIONS, WITH_HTTP_CLIENT)


@contextmanager
def _making(folder: Path) -> Iterator[None]:
    """Hold the lock of the cache, so that one release at a time is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = locks.lock_file(folder / "lock", waiting=lambda _: None)
    except OSError as error:
        raise ReleaseError(f"{folder}: {error.strerror}; TPCSWEEP_CACHE names another cache") from error
    try:
        yield
    finally:
        os.close(lock)


def _make(name: str, folder: Path, stage: Stage) -> None:
    """Make a release in a temporary folder next to its place, and rename it.

    A build that failed or was killed keeps its folder, where the next build continues.
    """
    version = name.removesuffix(FROM_SOURCE)
    if name not in releases.DEBIAN and version not in sources():
        raise ReleaseError(f"xrootd {name}: no source archive of it is known in {releases.SOURCES}")
    work = folder.with_name(f"{folder.name}.part")
    if name in releases.DEBIAN:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        record = _unpack(name, work, stage)
    else:
        work.mkdir(exist_ok=True)
        record = _build(version, sources()[version], work, stage)
    made = work / "release"
    write_json(made / releases.RECORD, record)
    loader = next((made / "lib").glob("ld-linux*.so.*"))
    (made / releases.LOADER).mkdir()
    for program in PROGRAMS:
        (made / releases.LOADER / program).symlink_to(f"../lib/{loader.name}")
    made.rename(folder)
    shutil.rmtree(work)


def _digest(folder: Path) -> str:
    """Return a hash of a release's programs and libraries; a site may rebuild its own under one name."""
    total = hashlib.sha256()
    paths = [folder / "bin" / name for name in PROGRAMS]
    paths += sorted(path for name in ("lib", "lib64") for path in (folder / name).glob("libXrd*.so*"))
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _build(version: str, digest: str, work: Path, stage: Stage) -> dict[str, Any]:
    """Build a release in the subfolder `release` of `work`, and return the record of its build.

    `digest` is the SHA-256 of its source archive. A build continues where an earlier one in the folder ended.
    """
    if lacking := missing_extras([EXTRA]):
        raise ReleaseError(f"xrootd {version}: {lacking[0]}")
    archive, source, objects, log = (work / name for name in ("archive", "source", "build", "log"))
    if not source.exists():
        stage(f"fetching the source of XRootD {version}")
        fetch(version, digest, archive, log)
        unpacked = work / "unpacked"
        unpacked.mkdir(exist_ok=True)
        # Debian 12's own Python lacks the filter argument of tarfile.
        extract = ["tar", "--extract", "--no-same-owner", "--file", str(next(archive.glob("*.tar.gz")))]
        processes.run([*extract, "--directory", str(unpacked)], check=True)
        (unpacked / f"xrootd-{version}").rename(source)
    stage(f"building XRootD {version} from source, some minutes; its log is {log}")
    plugins, options = recipe(version)
    cmake = ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(objects), *options]
    _run(cmake, log, f"xrootd {version}: cmake failed")
    major = version.partition(".")[0]
    targets = [*PROGRAMS, *(f"{plugin}-{major}" for plugin in plugins)]
    ninja = ["ninja", "-C", str(objects), *targets]
    _run(ninja, log, f"xrootd {version}: the build failed", _progress(version, stage))
    _collect(objects, work / "release")
    compiler = processes.run(["c++", "--version"], check=True).stdout.partition("\n")[0]
    cache = (objects / "CMakeCache.txt").read_text()
    flags = re.findall(r"^CMAKE_CXX_FLAGS(?:_RELWITHDEBINFO)?:STRING=(.+)$", cache, re.MULTILINE)
    return {"sha256": digest, "compiler": compiler, "flags": " ".join(flags), "options": list(options)}


def fetch(version: str, digest: str, folder: Path, log: Path) -> None:
    """Fetch a source archive with pip, from pip's configured index, and check its hash."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    wanted = folder / "wanted.txt"
    wanted.write_text(f"xrootd=={version} --hash=sha256:{digest}\n")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "xrootd", "--require-hashes"]
    command = [*pip, "--requirement", str(wanted), "--dest", str(folder)]
    _run(command, log, f"xrootd {version}: pip download failed")


def _unpack(version: str, work: Path, stage: Stage) -> dict[str, Any]:
    """Unpack a release, verified by apt, into the subfolder `release` of `work`, and return its record."""
    suite = releases.DEBIAN[version]
    stage(f"unpacking XRootD {version} of Debian {suite}")
    if shutil.which("mmdebstrap") is None:
        raise ReleaseError(
            f"xrootd {version}: mmdebstrap is missing; run `make setup`, or where no package has it ask for "
            f"{SYSTEM}, the installed programs, or {version}{FROM_SOURCE}, built here"
        )
    root, log, made = work / "root", work / "log", work / "release"
    # Point releases may fix it, which changes the part after the version.
    packages = ",".join(f"{package}={version}-*" for package in PACKAGES)
    mode = ("mmdebstrap", "--mode=root") if _by_root() else (*AS_USER, "mmdebstrap", "--mode=chrootless")
    failure = (
        f"xrootd {version}: mmdebstrap could not unpack it from Debian {suite} ({version}{FROM_SOURCE} is the same "
        f"release, built here, and {SYSTEM} what the machine has)"
    )
    _run([*mode, "--variant=extract", f"--include={packages}", suite, str(root)], log, failure)
    for name in PROGRAMS:
        copy_into(made / "bin", root / "usr/bin" / name)
    for folder in ("usr/lib", "lib"):  # the latter has the C libraries before trixie
        for library in root.glob(f"{folder}/*-linux-gnu/*.so*"):
            copy_into(made / "lib", library)
    newest = gzip.decompress((root / "usr/share/doc/xrootd-server/changelog.Debian.gz").read_bytes()).decode()
    package = re.search(r"\((.*?)\)", newest)
    return {"debian": suite, "package": package[1] if package else version}


def _run(command: Sequence[str], log: Path, failure: str, on_line: Callable[[bytes], object] = bool) -> None:
    """Run a command with its output in a new log; `on_line` gets each line.

    Raises ReleaseError with `failure` and the first line of the log that reports an error, or its last lines.
    """
    with (
        log.open("wb") as file,
        processes.start(
            [*KILLED_WITH_PARENT, *command],
            processes.build_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout
        try:
            for line in process.stdout:
                file.write(line)
                on_line(line)
        except BaseException:
            process.kill()  # its own processes end with it
            raise
    if process.returncode:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        why = next((line for line in lines if _WRONG.search(line)), " | ".join(lines[-LAST_LINES:]))
        raise ReleaseError(f"{failure} (exit code {process.returncode}): {why}; all of it is in {log}")


def _collect(objects: Path, made: Path) -> None:
    shutil.rmtree(made, ignore_errors=True)
    for name in PROGRAMS:
        program = next(path for path in objects.rglob(name) if path.is_file() and os.access(path, os.X_OK))
        copy_into(made / "bin", program)
    for library in objects.rglob("libXrd*.so*"):
        copy_into(made / "lib", library)
    needed: set[Path] = set()
    found = {**processes.system_environment(), "LD_LIBRARY_PATH": str(made / "lib")}
    for binary in (*(made / "bin").iterdir(), *(made / "lib").iterdir()):
        listed = processes.run(["ldd", str(binary)], check=True, env=found).stdout
        needed |= {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listed, re.MULTILINE)}
    for library in needed:
        if not library.is_relative_to(made):
            shutil.copy2(library, made / "lib" / library.name)


def _progress(version: str, stage: Stage) -> Callable[[bytes], None]:
    reported = 0

    def report(line: bytes) -> None:
        nonlocal reported
        if step := _STEP.match(line):
            done, all_steps = map(int, step.groups())
            if done * 5 // all_steps > reported:
                reported = done * 5 // all_steps
                stage(f"building XRootD {version}: {done} of {all_steps} steps")

    return report
