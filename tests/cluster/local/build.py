# SPDX-License-Identifier: Apache-2.0
"""Build what the tests on clusters run: Kubernetes itself, the pause image, the testbed's images.

Nothing is downloaded but Go modules, Debian packages and Python packages, by their ordinary clients. Everything is
kept under `$TPCSWEEP_CACHE` (else ~/.cache/tpcsweep) by the hash of what it was made from, so that only a first call
takes long: `python -m tests.cluster.local.build` makes everything, and says how far it is.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tpcsweep.deploying.xrootd.obtaining import obtain
from tpcsweep.deploying.xrootd.releases import IN_IMAGE
from tpcsweep.measuring.provenance import commit

from tests.support.private import in_private

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KUBERNETES = "v1.34.4"
CONTAINERFILE = ROOT / "envs/image/Containerfile"
SITE_INPUTS = [CONTAINERFILE, *map(CONTAINERFILE.with_name, ("debian.txt", "dpkg.cfg", "finish.sh"))]
IMAGE = "localhost/tpcsweep:site"
WORKFLOW = "localhost/tpcsweep:workflow"
PACKAGES_IMAGE = "localhost/tpcsweep:environment"
PAUSE = "localhost/pause:1"
RELEASE = "5.8.1"
"""Of XRootD, in addition to Debian 12's own in the testbed's image: unpacked from Debian 13 in seconds."""
KEPT = 4  # how many of each are kept, in addition to those in use

VERSION = {"gitVersion": KUBERNETES, "gitMajor": "1", "gitMinor": "34", "gitTreeState": "clean"}
VERSIONED = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
SET = [f"-X {package}.{key}={value}" for package in VERSIONED for key, value in VERSION.items()]
LINK = " ".join(["-s -w", *SET])
# Without inlining, Kubernetes' own packages compile in a quarter less time; what they are built on keeps it.
COMPILE = ["-gcflags=all=-dwarf=false", "-gcflags=k8s.io/...=-dwarf=false -l"]
FLAGS = ["-trimpath", *COMPILE, f"-ldflags={LINK}"]
GO = HERE / "go"
PACKAGES = ["./kube", "./coredns", "sigs.k8s.io/kwok/cmd/kwok"]
"""Programs of one module, made by one call: what they have in common, which is most of kwok, is compiled once."""
GONE = "metav1.InitialEventsListBlueprintAnnotationKey"
VALUE = '"kubernetes.io/initial-events-list-blueprint"'
MULTUS = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"
"""A module of its own: as a part of the other one it would have half of Kubernetes compiled with other libraries."""
SHOWN = 250  # of so many compiled packages one is named

BASE = "bookworm"
ENGINE = r"""
engine() { buildah --root "$PWD/images" --runroot "$PWD/run" --storage-driver overlay "$@" >&2; }
build() { engine build --isolation chroot --pull-never "$@"; }
"""
FROM_DEBIAN = r"""
# What FROM names, without a registry; TMPDIR is in memory too, for what the engine copies.
mmdebstrap --quiet --mode=root --variant=minbase --format=tar --skip=output/dev --dpkgopt=force-unsafe-io \
  --customize-hook='rm -f "$1/etc/hostname" "$1/etc/resolv.conf"' "$BASE" base.tar
printf 'FROM scratch\nADD base.tar /\n' >Base
build --tag localhost/debian:12-slim --file Base .
rm base.tar
# pip asks where this machine's is told to ask.
cp /etc/ssl/certs/ca-certificates.crt .
{
  printf '[global]\ncert = /etc/pip.crt\n'
  $PIP config list | sed -nE "s/^global\.(.*)='(.*)'$/\1 = \2/p" | grep -v '^cert ' || true
} >pip.conf
build --target "$TARGET" --tag "$NAME" \
  --volume "$PWD/pip.conf:/etc/pip.conf:ro" --volume "$PWD/ca-certificates.crt:/etc/pip.crt:ro" \
  --file "$ROOT/envs/image/Containerfile" "$ROOT"
"""
WITH_RELEASE = r"""
printf 'FROM %s\nCOPY . %s/\n' "$NAME" "$PLACE" | build --tag "$NAME" --file - "$RELEASE"
"""
WITH_REPOSITORY = r"""
engine pull --quiet "oci-archive:$ENVIRONMENT"
build --target workflow --build-arg "ENVIRONMENT=$PACKAGES" --build-arg "COMMIT=$COMMIT" --tag "$NAME" \
  --file "$ROOT/envs/image/Containerfile" "$ROOT"
"""
WITH_CHANGES = r"""
engine pull --quiet "oci-archive:$SITE"
printf 'FROM %s\nUSER 0:0\n%s\n' "$SITE_NAME" "$STEPS" | build --tag "$NAME" --file - .
"""
FROM_SCRATCH = r"""
cp "$PROGRAM" program
printf 'FROM scratch\nCOPY program /\nENTRYPOINT ["/program"]\n' | build --tag "$NAME" --file - .
"""
PUSH = """
engine push --quiet --compression-format zstd "$NAME" "oci-archive:$OUT:$NAME"
"""
"""Scripts for bash: buildah makes the images from the Containerfile, and has its storage in memory."""


class BuildError(RuntimeError):
    """Something a cluster needs could not be built."""


def cache() -> Path:
    return Path(os.environ.get("TPCSWEEP_CACHE") or Path.home() / ".cache" / "tpcsweep").absolute()


def kubernetes() -> Path:
    """The folder with `kube` (every Kubernetes program, and etcd), `coredns`, and `kwok`, which plays nodes."""
    sources = [GO / file for file in ("go.mod", "go.sum", "kube/main.go", "coredns/main.go")]
    return cached("kubernetes", sources, _compile, [*FLAGS, *PACKAGES, GONE, VALUE])


def multus() -> Path:
    """The folder with Multus, a CNI plugin that attaches pods to several networks, each by a plugin of its own."""
    module = HERE / "multus"

    def make(folder: Path) -> None:
        require_go(module)
        go(["build", "-v", *FLAGS, "-o", f"{folder}/", MULTUS], module, environment())

    return cached("multus", [module / "go.mod", module / "go.sum"], make, [*FLAGS, MULTUS])


def pause_image() -> Path:
    """The archive of the image that holds a pod's namespaces."""
    source = HERE / "pause.c"

    def make(folder: Path) -> None:
        run(["gcc", "-static", "-Os", "-s", "-o", str(folder / "pause"), str(source)])
        _build(FROM_SCRATCH, folder / "image.tar", PAUSE, PROGRAM=str(folder / "pause"))

    return cached("pause", [source], make, [ENGINE, FROM_SCRATCH]) / "image.tar"


def site_image() -> Path:
    """The archive of the testbed's own image, with a release of XRootD next to Debian's."""

    def make(made: Path) -> None:
        places = _release(IN_IMAGE / RELEASE)
        _build(FROM_DEBIAN + WITH_RELEASE, made / "image.tar", IMAGE, TARGET="site", **places)

    return cached("site", SITE_INPUTS, make, [ENGINE, FROM_DEBIAN, WITH_RELEASE, RELEASE]) / "image.tar"


def changed_image(out: Path, name: str, steps: str) -> None:
    """Write the archive of the testbed's image after steps of a Containerfile, which run as root."""
    _build(WITH_CHANGES, out, name, SITE=str(site_image()), SITE_NAME=IMAGE, STEPS=steps)


def workflow_image(out: Path) -> None:
    """Write the archive of the image with the whole workflow, which has the repository as it is now."""
    packages = {"ENVIRONMENT": str(_environment()), "PACKAGES": PACKAGES_IMAGE, "COMMIT": commit()}
    _build(WITH_REPOSITORY + WITH_RELEASE, out, WORKFLOW, **packages, **_release())


def _release(place: Path | None = None) -> dict[str, str]:
    """The variables of WITH_RELEASE; `place` is the release's folder in the image, if not that on this machine."""
    folder = obtain(RELEASE, {}, say).folder
    assert folder is not None
    return {"RELEASE": str(folder), "PLACE": str(place or folder)}


def _environment() -> Path:
    """The archive of the workflow's packages, which take minutes."""

    def make(made: Path) -> None:
        _build(FROM_DEBIAN, made / "image.tar", PACKAGES_IMAGE, TARGET="environment")

    packages = [ROOT / name for name in re.findall(r"envs/[\w-]+\.txt", CONTAINERFILE.read_text())]
    return cached("environment", [*SITE_INPUTS, *packages], make, [ENGINE, FROM_DEBIAN]) / "image.tar"


def _build(script: str, out: Path, name: str, **variables: str) -> None:
    if shutil.which("buildah") is None:
        raise BuildError("there is no `buildah`; apt-get install buildah")
    variables |= {"BASE": BASE, "ROOT": str(ROOT), "OUT": str(out), "NAME": name}
    variables["PIP"] = f"{sys.executable} -m pip"
    try:
        in_private(ENGINE + script + PUSH, variables)
    except RuntimeError as error:
        raise BuildError(f"{name}: {error}") from error


def _compile(folder: Path) -> None:
    """Build the programs. The toolchain's version is not part of the key: any will do that is new enough."""
    require_go()
    beside = folder / "module"
    beside.mkdir()
    module = f"-modfile={_reconciled(beside)}"
    go(["build", "-v", module, *FLAGS, "-o", f"{folder}/", *PACKAGES], GO, environment())
    shutil.rmtree(beside)


def _reconciled(folder: Path) -> Path:
    """The module with a kwok that it can be built with: one file names a constant that Kubernetes has no more."""
    go(["mod", "download", "sigs.k8s.io/kwok"], GO, environment())
    ask = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
    found = subprocess.run(ask, cwd=GO, env=environment(), capture_output=True, text=True, check=True)
    kwok = shutil.copytree(found.stdout.strip(), folder / "kwok")
    informer = kwok / "pkg/utils/informer/informer.go"
    informer.write_text(informer.read_text().replace(GONE, VALUE))
    shutil.copy(GO / "go.sum", folder)
    (folder / "go.mod").write_text(f"{(GO / 'go.mod').read_text()}\nreplace sigs.k8s.io/kwok => {kwok}\n")
    return folder / "go.mod"


def environment() -> dict[str, str]:
    """Of the compiler: nothing of the user's own, and no C."""
    return os.environ | {
        "GOMODCACHE": str(cache() / "go" / "mod"),
        "GOCACHE": str(cache() / "go" / "build"),
        "GOFLAGS": "-modcacherw -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOGC": "400",  # its processes last for seconds
    }


def require_go(module: Path = GO) -> None:
    """Raises BuildError where there is no Go, or one that is too old for the module, or this is not root."""
    asked = subprocess.run([HERE / "needs.sh", module], stderr=subprocess.PIPE, text=True)
    if asked.returncode != 0:
        raise BuildError(asked.stderr.strip())


def go(arguments: list[str], module: Path, environment: dict[str, str]) -> None:
    """Run `go`; raises BuildError with the lines that it stopped at.

    It ends with this process, in a session of its own: the kernel shares the CPUs among sessions.
    """
    begun = time.monotonic()
    command = ["setpriv", "--pdeathsig", "KILL", "go", *arguments]
    last: deque[str] = deque(maxlen=30)
    compiled = 0
    with subprocess.Popen(
        command, cwd=module, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if re.fullmatch(r"[\w./~-]+", line.strip()):  # the name of a package
                compiled += 1
                if compiled % SHOWN == 0:
                    say(f"{compiled} packages after {time.monotonic() - begun:.0f} s: {line.strip()}")
            elif not line.startswith("go: downloading"):
                last.append(line)
    if process.returncode != 0:
        raise BuildError(f"go {arguments[0]} in {module}: exit code {process.returncode}: {''.join(last)}")


def say(what: str) -> None:
    sys.stderr.write(f"build: {what}\n")
    sys.stderr.flush()


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
            for left in home.glob(f"{name}.*/"):  # by one that was killed: the lock is ours
                shutil.rmtree(left)
            beside = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=home))
            begun = time.monotonic()
            try:
                say(name)
                make(beside)
                say(f"{name} is made, in {time.monotonic() - begun:.0f} s")
                beside.chmod(0o755)
                beside.rename(target)
                made = sorted(home.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
                for old in made[:-KEPT]:
                    with contextlib.suppress(BlockingIOError):
                        os.close(hold(old, fcntl.LOCK_EX | fcntl.LOCK_NB))
                        # Out of its place first: half of it, left by one that is killed, would be taken for the whole.
                        shutil.rmtree(old.rename(home / f"{name}.{old.name}"))
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


def run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-4000:].strip()}")


def everything() -> None:
    """Make all that the tests need; what a second time needs only to be found."""
    from tests.cluster.local.images import unpacked  # which needs this module

    require_go()
    # Images are mostly fetched, unpacked and written by one process each, and compiling has the rest.
    with ThreadPoolExecutor(1) as pool:
        # The second is mostly compiled with the first.
        compiling = pool.submit(lambda: (kubernetes(), multus()))
        say(str(unpacked([pause_image(), site_image()])))
        say(str(_environment()))
    sys.stdout.write(f"{compiling.result()[0]}\n")


if __name__ == "__main__":
    try:
        everything()
    except BuildError as error:
        sys.exit(f"build: {error}")
