# SPDX-License-Identifier: Apache-2.0
"""Build the container image without an engine and without a registry.

    python envs/image/build.py OUT.tar [--target site|workflow] [--name localhost/tpcsweep:site] [--xrootd 5.8.1] …

Debian packages come by mmdebstrap, Python packages by pip, releases of XRootD beside Debian's from the cache that
sweeps on this machine take theirs from; the result is an archive in OCI layout, as
`ctr images import` takes it. The layers that take long to make are kept in a cache, by the hash of what they
are made of; the last ones, such as that with this repository, are made each time. What is unpacked lies in memory, in
a mount namespace of its own: it is gone with its processes, however those end.

One line is printed: the name and the digest of the manifest, which says what is in the image to the byte.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import io
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "workflow"))
from tpcsweep.files import replacing  # noqa: E402 — not installed for Debian's Python
from tpcsweep.xrootd.obtaining import obtain  # noqa: E402
from tpcsweep.xrootd.releases import (  # noqa: E402
    IN_IMAGE,
    LOADER,
    RECOMMENDED,
    RECORD,
    SYSTEM,
    Release,
    ReleaseError,
)

REQUIREMENTS = tuple(
    ROOT / f"envs/requirements{extra}.txt"
    for extra in ("", "-crate", "-history", "-kubernetes", "-models", "-parquet", "-zarr")
)
"""What every sweep needs, and every extra from PyPI: a Job runs any target."""
DEBIAN_LISTS = (
    HERE / "debian-workflow.txt",
    *(ROOT / f"envs/debian{extra}.txt" for extra in ("", "-globus", "-ns3", "-simulation")),
)
"""The same from Debian, so that it also measures and simulates where it is; what `xrootd` compiles with is left out."""

TARGETS = ("site", "workflow")
SUITE = "bookworm"
EPOCH = 1735689600
"""2025-01-01, the latest time that any file is given: the same packages make the same bytes on any day."""
USER = 10940
WORK = "/media"
"""Where the private mount namespaces have their memory: empty on every Debian, and reachable for apt's user."""
LAYER = "application/vnd.oci.image.layer.v1.tar"
HOME = "opt/tpcsweep"
STATE = f"{HOME}/.snakemake"
CACHE = Path("/var/cache/tpcsweep/xrootd")
"""Where sweeps on one machine look for a release, as root; the workflow has the one that they run by default."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "tar": "tar",
    "zstd": "zstd",
}
"""What building the cached layers runs, and the Debian packages that have it."""

COMPRESS = ("zstd", "-3", "--single-thread", "--quiet", "--force")
"""Imported sooner than gzip or no compression (on two cores, in memory: 2.5, 4 and 4 s), and a third of the size."""

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}
WORKFLOW_ENVIRONMENT = {
    "PATH": f"/{HOME}/.venv/bin:{ENVIRONMENT['PATH']}",
    "HOME": "/tmp",  # noqa: S108 — in the container, for caches and for Jupyter
}

DEBIAN = """
mmdebstrap --quiet --mode=root --variant=minbase --format=tar --skip=output/dev --include="$PACKAGES" \
  --dpkgopt=force-unsafe-io --dpkgopt="$DPKG_OPTIONS" \
  --customize-hook='chroot "$1" sh -c "$FINISH"' \
  --customize-hook='rm -f "$1/etc/hostname" "$1/etc/resolv.conf"' "$SUITE" -
"""
VENV = """
mkdir -p root/dev
zstd --decompress --stdout --quiet "$DEBIAN" "$EXTRA" |
  tar --extract --ignore-zeros --directory=root --xattrs --xattrs-include='*'
# The image's own pip chooses what fits its Python, and asks where this machine's pip asks. None of this is kept.
mount --rbind /dev root/dev
mount -t proc proc root/proc
for here in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs "$HOME"/.{config/pip,pip}/pip.conf; do
  if [ -d "$here" ]; then
    mkdir -p "root$here" && mount --bind "$here" "root$here"
  elif [ -e "$here" ]; then
    mkdir -p "root${here%/*}" && rm -f "root$here" && cp -L "$here" "root$here"
  fi
done
mkdir root/requirements
mapfile -t lists <<<"$REQUIREMENTS"
cp "${lists[@]}" root/requirements
export PYTHONHASHSEED=0
chroot root python3 -m venv "/$VENV" >&2
chroot root "/$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile \
  --require-hashes $(cd root && printf -- '--requirement /%s ' requirements/*) >&2
find "root/$VENV" -name __pycache__ -prune -exec rm -r {} +
# Some packages have files that are for other Pythons and do not compile. -S: what site imports, it compiles otherwise.
chroot root "/$VENV/bin/python" -S -m compileall -q --invalidation-mode unchecked-hash "/$VENV/lib" >&2 || true
tar --create --directory=root --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner --owner=0 --group=0 \
  --format=gnu "$VENV"
"""
COMPILE = """
import importlib.util, json, marshal, sys
header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")  # checked against no source (PEP 552)
for name, text in json.load(sys.stdin).items():
    source = text.encode()
    code = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
    print(name, (header + importlib.util.source_hash(source) + code).hex(), sep="\\0")
"""


COMPILE_INSIDE = """
mkdir root
tar --extract --file="$DEBIAN" --directory=root
chroot root python3 -SB -c "$COMPILE" <"$SOURCES"
"""


class ImageError(RuntimeError):
    """The image cannot be built; the text says what is missing and what to do."""


@dataclass(frozen=True)
class File:
    """A file of a layer that is made each time; one with a `link` is a symbolic link."""

    content: bytes
    mode: int = 0o644
    link: str = ""


@dataclass(frozen=True)
class Layer:
    """One layer: as a zstd-compressed tar file of the cache, or as a small tar in memory.

    `digest` is that of the content as it is, `whole` that of the tar file without compression.
    """

    content: Path | bytes
    digest: str
    whole: str
    note: str

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    @property
    def kind(self) -> str:
        """The media type."""
        return LAYER if isinstance(self.content, bytes) else f"{LAYER}+zstd"


def build(out: Path, target: str, name: str, releases: Iterable[str] = ()) -> str:
    """Write the image as an archive in OCI layout; return the digest of its manifest, `sha256:…`.

    Args:
        out: The archive.
        target: One of TARGETS.
        name: The image's, with or without a tag.
        releases: Of XRootD beside Debian's: as `obtain` takes them, or NAME=FOLDER of one that a site has built.

    Raises ImageError, and leaves nothing behind then. What is found in the cache needs neither root nor network.
    """
    if target not in TARGETS:
        raise ImageError(f"target: given {target!r}, allowed: {', '.join(TARGETS)}")
    name = checked_name(name)
    beside = named(releases)
    if not out.parent.is_dir():
        raise ImageError(f"{out}: there is no folder {out.parent}; make it first")
    environment = dict(ENVIRONMENT)
    site = packages(HERE / "debian.txt")
    layers = [_debian_layer(site)]
    if target == "workflow":
        layers.append(_extra_layer(layers[0], site, packages(*DEBIAN_LISTS)))
        layers.append(_venv_layer(*layers))
        layers.append(_release_layer(RECOMMENDED, None, in_cache=True))
    layers += [_release_layer(*release) for release in sorted(beside.items())]
    debian = layers[0]
    layers.append(_layer({}, "where devices are mounted", "dev"))
    if target == "workflow":
        # Whoever runs it; what is not mounted there goes with the container.
        files = repository_files(debian) | {STATE: File(b"", 0o1777)}
        layers.append(_layer(files, "the repository", STATE))
        environment |= WORKFLOW_ENVIRONMENT | {"TPCSWEEP_COMMIT": _commit()}
    settings = {
        "User": f"{USER}:{USER}",
        "Env": [f"{key}={value}" for key, value in environment.items()],
        "Cmd": ["bash"],
        "WorkingDir": f"/{HOME}" if target == "workflow" else "/",
    }
    return pack(out, name, layers, settings)


def checked_name(name: str) -> str:
    """The name with its tag, which is `latest` where none is given; raises ImageError where it can be none."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.:-]*(/[a-z0-9][a-z0-9._-]*)+(:\w[\w.-]*)?", name, re.ASCII):
        raise ImageError(f"name: given {name!r}, allowed: HOST/NAME:TAG, such as localhost/tpcsweep:site")
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def named(releases: Iterable[str]) -> dict[str, Path | None]:
    """The folders of releases by their names; None where `obtain` knows it."""
    folders: dict[str, Path | None] = {}
    for given in releases:
        name, own, folder = given.partition("=")
        if (
            not re.fullmatch(r"\w[\w.-]*", name)
            or name == SYSTEM
            or name in folders
            or bool(own) != bool(folder)
        ):
            raise ImageError(
                f"--xrootd: given {given!r}, allowed: a version, or NAME=/FOLDER, each once; {SYSTEM} is in any image"
            )
        folders[name] = Path(folder) if own else None
    return folders


def packages(*lists: Path) -> list[str]:
    """The Debian packages that are listed, each once."""
    lines = [line.strip() for file in lists for line in file.read_text().splitlines()]
    return sorted({line for line in lines if line and not line.startswith("#")})


# The archive


def pack(out: Path, name: str, layers: Iterable[Layer], settings: Mapping[str, Any]) -> str:
    """Write an archive in OCI layout (image-spec 1.0), beside and renamed; return its manifest's digest."""
    layers = list(layers)
    system = {"architecture": _architecture(), "os": "linux"}
    created = "2025-01-01T00:00:00Z"  # EPOCH
    configuration = _json(
        {
            "created": created,
            **system,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [layer.whole for layer in layers]},
            "history": [{"created": created, "comment": layer.note} for layer in layers],
        }
    )
    kind = "application/vnd.oci.image"
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": _descriptor(f"{kind}.config.v1+json", digest_of(configuration), len(configuration)),
            "layers": [_descriptor(layer.kind, layer.digest, layer.size) for layer in layers],
        }
    )
    digest = digest_of(manifest)
    index = _descriptor(f"{kind}.manifest.v1+json", digest, len(manifest)) | {
        "platform": system,
        "annotations": {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name,
        },
    }
    contents: dict[str, Path | bytes] = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [index]}),
        _blob(digest): manifest,
        _blob(digest_of(configuration)): configuration,
    }
    contents |= {_blob(layer.digest): layer.content for layer in layers}
    with replacing(out) as part, tarfile.open(part, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, content in contents.items():
            if isinstance(content, bytes):
                archive.addfile(_entry(path, len(content)), io.BytesIO(content))
            else:
                with content.open("rb") as source:
                    archive.addfile(_entry(path, content.stat().st_size), source)
    return digest


def digest_of(content: bytes) -> str:
    """As OCI writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _descriptor(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest, "size": size}


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _entry(path: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode, entry.mtime = size, mode, EPOCH
    return entry


def _architecture() -> str:
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise ImageError(f"this machine is {machine}; images are built for {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[machine]


# Layers that are made each time


def repository_files(debian: Layer) -> dict[str, File]:
    """The files that git knows, as they are now, and what makes the virtual environment import the package."""
    files = {}
    for name in filter(None, _git("ls-files", "-z").split("\0")):
        path = ROOT / name
        if path.is_symlink():
            files[f"{HOME}/{name}"] = File(b"", link=str(path.readlink()))
        elif path.is_file():
            files[f"{HOME}/{name}"] = File(path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    package = {path: file for path, file in files.items() if path.startswith(f"{HOME}/workflow/tpcsweep/")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    libraries = f"{HOME}/.venv/lib/python3.11/site-packages"
    information = f"{libraries}/{project['name']}-{project['version']}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    return {
        **files,
        **byte_code(package, debian),
        f"{libraries}/tpcsweep.pth": File(f"/{HOME}/workflow\n".encode()),
        f"{information}/METADATA": File(metadata.encode()),
        f"{information}/INSTALLER": File(b"envs/image/build.py\n"),
    }


def release_files(release: Release, place: Path) -> dict[str, File]:
    """A release's programs and libraries, and its record, in a folder of the image."""
    assert release.folder is not None
    home = str(place).lstrip("/")
    files = {f"{home}/{RECORD}": File(_json(release.record))}
    for folder in ("bin", "lib", "lib64", LOADER):
        for path in (release.folder / folder).rglob("*"):
            place = f"{home}/{path.relative_to(release.folder)}"
            if path.is_symlink():
                files[place] = File(b"", link=str(path.readlink()))
            elif path.is_file():
                files[place] = File(path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    return files


def byte_code(files: Mapping[str, File], debian: Layer) -> dict[str, File]:
    """What Python 3.11 makes of the .py files among these, under the paths where it looks for it.

    The image's own Python makes it where this machine has none of its version, as Debian 13 has not.
    """
    sources = {path: file.content.decode() for path, file in sorted(files.items()) if path.endswith(".py")}
    told = json.dumps({f"/{path}": text for path, text in sources.items()})
    python = _python()
    compiled = _compiled_by(python, told) if python else _compiled_inside(debian, told)
    made = {}
    for line in compiled.splitlines():
        name, _, code = line.partition("\0")
        path = Path(name[1:])
        made[str(path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc")] = File(bytes.fromhex(code))
    return made


def _python() -> str | None:
    return sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")


def _compiled_by(python: str, sources: str) -> str:
    """In a process of its own: what marshal writes depends on what else a process has seen."""
    done = subprocess.run(
        [python, "-SB", "-c", COMPILE],
        input=sources,
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ImageError(f"byte code: {' '.join(done.stderr.split()) or 'the compiler was killed'}")
    return done.stdout


def _compiled_inside(debian: Layer, sources: str) -> str:
    """In the image, unpacked in memory: a few seconds."""
    _require_machine()
    with tempfile.NamedTemporaryFile("w") as told, tempfile.TemporaryFile() as out:
        told.write(sources)
        told.flush()
        environment = {
            "DEBIAN": str(_path(debian)),
            "SOURCES": told.name,
            "COMPILE": COMPILE,
            "PYTHONHASHSEED": "0",
        }
        _in_private(COMPILE_INSIDE, environment, out, "the image's Python")
        out.seek(0)
        return out.read().decode()


def tar(files: Mapping[str, File], *more: str) -> bytes:
    """Files, their folders and `more`, as a tar file that depends on nothing else: sorted, root's, of one time."""
    folders = {str(folder) for path in files for folder in Path(path).parents} - {"."} | {*more}
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folders | files.keys()):
            file = files.get(path, File(b"", 0o755))
            entry = _entry(path, len(file.content), file.mode)
            if path in folders:
                entry.type = tarfile.DIRTYPE
            elif file.link:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, file.link, 0o777
            archive.addfile(entry, io.BytesIO(file.content))
    return held.getvalue()


def _layer(files: Mapping[str, File], note: str, *more: str) -> Layer:
    content = tar(files, *more)
    return Layer(content, digest_of(content), digest_of(content), note)


def _git(*arguments: str) -> str:
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise ImageError("the workflow target needs git (Debian: git)") from None
    except subprocess.CalledProcessError as error:
        raise ImageError(
            f"the workflow target needs a checkout of the repository: {error.stderr.strip()}"
        ) from error


def _commit() -> str:
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return _git("rev-parse", "HEAD").strip() + ("+changes" if changes else "")


# Layers that are kept


def cache() -> Path:
    """Where layers are kept; all of it may be deleted at any time but during a build."""
    chosen = os.environ.get("TPCSWEEP_CACHE")
    return (Path(chosen) if chosen else Path.home() / ".cache/tpcsweep") / "image"


def difference(base: bytes, whole: bytes) -> bytes:
    """What must be laid over the tar file `base` to have `whole`: a tar file, its entries copied as they are.

    What `base` alone has becomes a whiteout, as OCI's image-spec has it.
    """
    old, new = _entries(base), _entries(whole)
    parts = [
        whole[place] for name, place in new.items() if name not in old or base[old[name]] != whole[place]
    ]
    for gone in map(Path, sorted(old.keys() - new.keys())):
        if str(gone.parent) in {".", *new}:  # else it goes with its folder
            parts.append(_entry(str(gone.with_name(f".wh.{gone.name}")), 0).tobuf(tarfile.GNU_FORMAT))
    return b"".join([*parts, bytes(2 * tarfile.BLOCKSIZE)])


def _debian_layer(names: list[str]) -> Layer:
    """Debian with these packages: half a minute, once for each list of packages."""
    inputs = _debian_inputs(names)
    return _kept("debian", inputs, lambda out: _debian(names, out), f"Debian {SUITE}: {' '.join(names)}")


def _extra_layer(base: Layer, site: list[str], extra: list[str]) -> Layer:
    """What more packages add to Debian with those of `site`."""
    names = sorted({*site, *extra})

    def make(out: IO[bytes]) -> None:
        with tempfile.TemporaryFile() as whole:
            _debian(names, whole)
            whole.seek(0)
            out.write(difference(_unpacked(base), whole.read()))

    return _kept("extra", [base.digest, _debian_inputs(names)], make, f"Debian {SUITE}: {' '.join(extra)}")


def _debian_inputs(names: list[str]) -> list[Any]:
    return [DEBIAN, SUITE, names, *((HERE / file).read_text() for file in ("finish.sh", "dpkg.cfg"))]


def _debian(names: list[str], out: IO[bytes]) -> None:
    environment = {
        "SUITE": SUITE,
        "PACKAGES": ",".join(names),
        "FINISH": (HERE / "finish.sh").read_text(),
        "DPKG_OPTIONS": str(HERE / "dpkg.cfg"),
    }
    _in_private(DEBIAN, environment, out, "mmdebstrap")


def _venv_layer(debian: Layer, extra: Layer) -> Layer:
    """The pinned Python packages, as the image's own pip installs them."""
    requirements = [file.read_text() for file in REQUIREMENTS]

    def make(out: IO[bytes]) -> None:
        environment = {
            "DEBIAN": str(_path(debian)),
            "EXTRA": str(_path(extra)),
            "REQUIREMENTS": "\n".join(map(str, REQUIREMENTS)),
            "VENV": f"{HOME}/.venv",
        }
        _in_private(VENV, environment, out, "pip")

    inputs = [VENV, debian.digest, extra.digest, requirements]
    return _kept("venv", inputs, make, "envs/requirements*.txt")


def _release_layer(name: str, folder: Path | None, in_cache: bool = False) -> Layer:
    """A release of XRootD beside Debian's, got or built first where the cache of releases has it not.

    Pods look for it by its name, sweeps on one machine by the name that it has in the cache.
    """
    try:
        release = obtain(name, {name: folder} if folder else {}, _say)
    except ReleaseError as error:
        raise ImageError(str(error)) from error
    assert release.folder is not None
    content = tar(release_files(release, CACHE / release.folder.name if in_cache else IN_IMAGE / name))
    return _kept("xrootd", [digest_of(content)], lambda out: out.write(content), f"XRootD {name}")


def _kept(kind: str, inputs: Any, make: Callable[[IO[bytes]], object], note: str) -> Layer:
    """The layer of these inputs from the cache, made first where it is not there.

    A file's name has the hash of its inputs and its digests, so that a rename publishes all of it. One build at a
    time makes layers; what a killed one left is written over by the next.
    """
    key = hashlib.sha256(_json([inputs, COMPRESS, EPOCH, _architecture()])).hexdigest()[:16]
    folder = cache()
    if kept := _find(folder, kind, key, note):
        return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise ImageError(f"cache: {error}; TPCSWEEP_CACHE names another folder") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept := _find(folder, kind, key, note):
            return kept
        _require_machine()
        _say(f"making the layer {kind} ({note[:60]}…)")
        plain, packed = folder / "partial.tar", folder / "partial.tar.zst"
        try:
            with plain.open("wb") as file:
                make(file)
            subprocess.run([*COMPRESS, "-o", str(packed), str(plain)], check=True)
            packed.rename(folder / f"{kind}-{key}-{_digest(plain)}-{_digest(packed)}.tar.zst")
        except subprocess.CalledProcessError as error:
            raise ImageError(f"zstd failed with {error.returncode}; is there room in {folder}?") from error
        finally:
            plain.unlink(missing_ok=True)
            packed.unlink(missing_ok=True)
        kept = _find(folder, kind, key, note)
        assert kept is not None
        return kept


def _find(folder: Path, kind: str, key: str, note: str) -> Layer | None:
    for file in folder.glob(f"{kind}-{key}-*.tar.zst"):
        _, _, whole, digest = file.name.removesuffix(".tar.zst").split("-")
        return Layer(file, f"sha256:{digest}", f"sha256:{whole}", note)
    return None


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _unpacked(layer: Layer) -> bytes:
    command = ["zstd", "--decompress", "--stdout", "--quiet", str(_path(layer))]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def _path(layer: Layer) -> Path:
    assert isinstance(layer.content, Path)
    return layer.content


def _in_private(script: str, environment: Mapping[str, str], out: IO[bytes], program: str) -> None:
    """Run a script as root in mount and process namespaces of its own, in an empty folder in memory.

    The kernel ends all of it with this process, however that ends: the first process of the namespace is killed
    with its parent, the others with it, and the mounts go with the last.
    """
    setup = f"umask 022; mount -t tmpfs -o mode=755 tpcsweep {WORK}; cd {WORK}\n"
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LC_"))}
    fixed = {"TMPDIR": WORK, "SOURCE_DATE_EPOCH": str(EPOCH), "LANG": "C.UTF-8"}
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", *namespaces, "bash", "-euo", "pipefail", "-c", setup + script],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=said,
            env={**own, **fixed, **environment},
            check=False,
        )
        said.seek(0)
        last = "\n  ".join(said.read().decode(errors="replace").splitlines()[-15:])
    if done.returncode != 0:
        raise ImageError(f"{program} failed with {done.returncode}; it said last:\n  {last}")


def _require_machine() -> None:
    missing = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if missing:
        raise ImageError(
            f"making the image's layers needs {', '.join(missing)}; apt-get install {' '.join(missing)}"
        )
    if os.geteuid() != 0:
        raise ImageError(
            "making the image's layers needs root, for mounts of its own: run this as root, or build with an engine "
            "from envs/image/Containerfile"
        )


def _entries(content: bytes) -> dict[str, slice]:
    """Where each entry of a tar file lies, with the headers before it."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = archive.getmembers()
    # An entry's data end at the next one's headers; the last one's are padded to whole blocks.
    ends = [member.offset for member in members[1:]]
    last = members[-1]
    size = last.size if last.isreg() else 0
    ends.append(last.offset_data + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
    return {member.name: slice(member.offset, end) for member, end in zip(members, ends, strict=True)}


# The command


def _say(text: str) -> None:
    sys.stderr.write(f"image: {text}\n")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Build the container image of pods and workflow.")
    parser.add_argument(
        "out", type=Path, help="the archive to write, for `ctr --namespace k8s.io images import`"
    )
    parser.add_argument(
        "--target", choices=TARGETS, default="site", help="what pods run, or the whole workflow"
    )
    parser.add_argument(
        "--xrootd",
        action="append",
        default=[],
        metavar="RELEASE",
        help="a release of XRootD beside Debian's, such as 5.8.1, or NAME=/FOLDER of one built here; repeatable",
    )
    parser.add_argument("--name", help="the image's name (default: localhost/tpcsweep:TARGET)")
    arguments = parser.parse_args()
    name = arguments.name or f"localhost/tpcsweep:{arguments.target}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        digest = build(arguments.out, arguments.target, name, arguments.xrootd)
    except (ImageError, OSError) as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    sys.stdout.write(f"{checked_name(name)} {digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
