"""Build what a cluster on this machine runs: Kubernetes itself, the pause image, the testbed's image.

Nothing is downloaded but Go modules and Debian packages, by their ordinary clients. Everything is kept under
`$TPCSWEEP_CACHE` (else ~/.cache/tpcsweep) by the hash of what it was made from, so that only a first call takes
long: `python -m tests.cluster.local.build`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KUBERNETES = "v1.34.4"
IMAGE = "localhost/tpcsweep:site"
PAUSE = "localhost/pause:1"
KEPT = 4
"""How many of each are kept, beside those in use: the testbed's image changes with every change of the package."""

VERSION = {"gitVersion": KUBERNETES, "gitMajor": "1", "gitMinor": "34", "gitTreeState": "clean"}
LINK = " ".join(
    ["-s -w"]
    + [
        f"-X {package}.{key}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for key, value in VERSION.items()
    ]
)
FLAGS = ["-trimpath", "-gcflags=all=-dwarf=false", f"-ldflags={LINK}"]


class BuildError(RuntimeError):
    """Something a cluster needs could not be built."""


def cache() -> Path:
    """Where everything built and downloaded is kept."""
    return Path(os.environ.get("TPCSWEEP_CACHE") or Path.home() / ".cache" / "tpcsweep").absolute()


def kubernetes() -> Path:
    """The folder with `kube` (every Kubernetes program, and etcd) and `coredns`."""
    return _programs("kubernetes", HERE / "go", ["kube=.", "coredns=./coredns"])


def kwok() -> Path:
    """The folder with `kwok`, which plays nodes and pods that do not exist."""
    return _programs("kwok", HERE / "go" / "kwok", ["kwok=sigs.k8s.io/kwok/cmd/kwok"])


def pause_image() -> Path:
    """The archive of the image that holds a pod's namespaces."""
    source = HERE / "pause.c"

    def make(folder: Path) -> None:
        program = folder / "pause"
        run(["gcc", "-static", "-Os", "-s", "-o", str(program), str(source)])
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            tar.add(program, "pause", filter=_anonymous)
        pack(folder / "image.tar", PAUSE, layer.getvalue(), {"Entrypoint": ["/pause"]})

    return cached("pause", [source], make) / "image.tar"


def site_image() -> Path:
    """The archive of the testbed's own image, made by envs/image/build.py."""
    folder = ROOT / "envs" / "image"
    if not (folder / "build.py").exists():
        raise BuildError(f"{folder / 'build.py'} is missing; it makes the image {IMAGE}")
    places = (ROOT / "envs", ROOT / "workflow" / "tpcsweep")
    files = (path for place in places for path in sorted(place.rglob("*")))
    inputs = [path for path in files if path.is_file() and "__pycache__" not in path.parts]

    def make(made: Path) -> None:
        how = ["--target", "site", "--name", IMAGE]
        run([sys.executable, str(folder / "build.py"), str(made / "image.tar"), *how])

    return cached("site", inputs, make) / "image.tar"


def pack(out: Path, name: str, layer: bytes, config: dict[str, object]) -> None:
    """Write an image of one layer as an archive that `ctr images import` takes."""
    begun = "1970-01-01T00:00:00Z"
    described = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "created": begun,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": begun}],
    }
    configuration = json.dumps(described).encode()
    config_name = hashlib.sha256(configuration).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(out, "w") as tar:
        for member, data in (
            (config_name, configuration),
            ("layer.tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _programs(name: str, module: Path, wanted: list[str]) -> Path:
    """Build `program=./package` of a Go module. The toolchain's version is not part of the key: any will do."""

    def make(folder: Path) -> None:
        if shutil.which("go") is None:
            raise BuildError(f"{name}: no `go` on the PATH; Go 1.24 or later builds Kubernetes {KUBERNETES}")
        environment = os.environ | {
            "GOMODCACHE": str(cache() / "go" / "mod"),
            "GOCACHE": str(cache() / "go" / "build"),
            "GOFLAGS": "-modcacherw",
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
        }
        for each in wanted:
            program, _, package = each.partition("=")
            command = ["nice", "-n", "19", "go", "build", *FLAGS, "-o", str(folder / program), package]
            run(command, cwd=module, env=environment)

    sources = [*module.glob("*.go"), *module.glob("go.*")]
    for each in wanted:
        sources += (module / each.partition("=")[2]).glob("*.go")
    return cached(name, sorted(set(sources)), make, [*FLAGS, *wanted])


def cached(name: str, inputs: Iterable[Path], make: Callable[[Path], None], also: Iterable[str] = ()) -> Path:
    """The folder that `make` fills, made once for these inputs, whoever else is making it at the same time."""
    key = hashlib.sha256("\0".join(also).encode())
    for path in inputs:
        with path.open("rb") as file:
            key.update(f"{path.name}\0".encode() + hashlib.file_digest(file, "sha256").digest())
    home = cache() / "cluster"
    target = home / f"{name}-{key.hexdigest()[:16]}"
    if target.is_dir():
        return target
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            beside = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=home))
            try:
                sys.stderr.write(f"building {name}\n")
                make(beside)
                beside.chmod(0o755)
                beside.rename(target)
                made = sorted(home.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
                for old in made[:-KEPT]:
                    with contextlib.suppress(BlockingIOError):
                        os.close(hold(old, fcntl.LOCK_EX | fcntl.LOCK_NB))
                        shutil.rmtree(old)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    return target


def hold(folder: Path, how: int = fcntl.LOCK_SH) -> int:
    """Keep a folder of the cache from being removed, as long as the descriptor is open."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def run(command: list[str], **how: object) -> None:
    """Run a command to its end. Raises BuildError with what it said."""
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, **how
    )  # type: ignore[call-overload]
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-4000:].strip()}")


if __name__ == "__main__":
    for built in (kubernetes(), pause_image(), site_image()):
        sys.stdout.write(f"{built}\n")
