# SPDX-License-Identifier: Apache-2.0
"""Build what the tests on clusters run: Kubernetes itself, the pause image, the testbed's images.

Nothing is downloaded but Go modules, Debian packages and Python packages, by their ordinary clients. Everything is
kept under `$TPCSWEEP_CACHE` (else ~/.cache/tpcsweep) by the hash of what it was made from, so that only a first call
takes long: `python -m tests.cluster.local.build` makes everything, and says how far it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from envs.image.building import debian, image
from envs.image.building.messages import ImageError
from envs.image.building.private import in_private
from envs.image.building.venv import REQUIREMENTS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KUBERNETES = "v1.34.4"
IMAGES = ROOT / "envs" / "image"
IMAGE = "localhost/tpcsweep:site"
WORKFLOW = "localhost/tpcsweep:workflow"
PAUSE = "localhost/pause:1"
RELEASE = "5.8.1"
"""Of XRootD, beside Debian 12's own in the testbed's image: unpacked from Debian 13 in seconds."""
KEPT = 4
"""How many of each are kept, beside those in use."""

VERSION = {"gitVersion": KUBERNETES, "gitMajor": "1", "gitMinor": "34", "gitTreeState": "clean"}
LINK = " ".join(
    ["-s -w"]
    + [
        f"-X {package}.{key}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for key, value in VERSION.items()
    ]
)
# Without inlining, Kubernetes' own packages compile in a quarter less time; what they are built on keeps it.
COMPILE = ["-gcflags=all=-dwarf=false", "-gcflags=k8s.io/...=-dwarf=false -l"]
FLAGS = ["-trimpath", *COMPILE, f"-ldflags={LINK}"]
GO = HERE / "go"
PACKAGES = ["./kube", "./coredns", "sigs.k8s.io/kwok/cmd/kwok"]
"""Programs of one module, made by one call: what they have in common, which is most of kwok, is compiled once."""
GONE, VALUE = (
    "metav1.InitialEventsListBlueprintAnnotationKey",
    '"kubernetes.io/initial-events-list-blueprint"',
)
MULTUS = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"
"""A module of its own: as a part of the other one it would have half of Kubernetes compiled with other libraries."""
SHOWN = 250
"""Of so many compiled packages one is named."""

ASIDE = 'echo 19 2>/dev/null >/proc/self/autogroup || true; exec nice -n 19 "$@"'
"""Where the kernel shares the CPUs among sessions (sched_autogroup), `nice` counts only inside of one."""

ENGINE = r"""
# What FROM names; TMPDIR is in memory too, for what the engine copies.
mmdebstrap --quiet --mode=root --variant=minbase --format=tar --skip=output/dev --dpkgopt=force-unsafe-io \
  "$SUITE" base.tar
engine() { buildah --root "$PWD/images" --runroot "$PWD/run" --storage-driver vfs "$@" >&2; }
printf 'FROM scratch\nADD base.tar /\n' >Base
engine build --isolation chroot --tag localhost/debian:12-slim --file Base .
rm base.tar
# pip asks where this machine's is told to ask.
cp /etc/ssl/certs/ca-certificates.crt .
{
  printf '[global]\ncert = /etc/pip.crt\n'
  $PIP config list | sed -nE "s/^global\.(.*)='(.*)'$/\1 = \2/p" | grep -v '^cert ' || true
} >pip.conf
engine build --isolation chroot --pull-never --target "$TARGET" --tag "$NAME" \
  --volume "$PWD/pip.conf:/etc/pip.conf:ro" --volume "$PWD/ca-certificates.crt:/etc/pip.crt:ro" \
  --file "$ROOT/envs/image/Containerfile" "$ROOT"
engine push --quiet --compression-format zstd "$NAME" "oci-archive:$OUT:$NAME"
"""


class BuildError(RuntimeError):
    """Something a cluster needs could not be built."""


def cache() -> Path:
    """Where everything built and downloaded is kept."""
    return Path(os.environ.get("TPCSWEEP_CACHE") or Path.home() / ".cache" / "tpcsweep").absolute()


def kubernetes() -> Path:
    """The folder with `kube` (every Kubernetes program, and etcd), `coredns`, and `kwok`, which plays nodes."""
    sources = [GO / "go.mod", GO / "go.sum", *(GO / each for each in ("kube/main.go", "coredns/main.go"))]
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
        program = folder / "pause"
        run(["gcc", "-static", "-Os", "-s", "-o", str(program), str(source)])
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            tar.add(program, "pause", filter=_anonymous)
        pack(folder / "image.tar", PAUSE, layer.getvalue(), {"Entrypoint": ["/pause"]})

    return cached("pause", [source], make) / "image.tar"


def site_image() -> Path:
    """The archive of the testbed's own image, made by envs/image/build.py."""

    def make(made: Path) -> None:
        _image(made / "image.tar", "site", IMAGE, "--xrootd", RELEASE)

    programs = [IMAGES / "build.py", *sorted((IMAGES / "building").glob("*.py"))]
    return cached("site", [*programs, *_site_inputs()], make, [RELEASE]) / "image.tar"


def engine_image(target: str) -> Path:
    """The archive of an image made by an engine, buildah, from the Containerfile; `localhost/engine:TARGET`.

    Its base is Debian without a registry. All that is unpacked is in memory, in namespaces of its own. A workflow's
    repository may be that of an earlier call: what the Containerfile does with it is the same.
    """
    name = f"localhost/engine:{target}"

    def make(made: Path) -> None:
        places = {"ROOT": str(ROOT), "OUT": str(made / "image.tar")}
        environment = {"SUITE": debian.SUITE, "TARGET": target, "NAME": name, **places}
        environment["PIP"] = f"{sys.executable} -m pip"
        with tempfile.TemporaryFile() as out:
            in_private(ENGINE, environment, out, "buildah")

    if shutil.which("buildah") is None:
        raise BuildError("there is no `buildah`; apt-get install buildah")
    inputs = [IMAGES / "Containerfile", *_site_inputs()]
    if target == "workflow":
        inputs += [*debian.WORKFLOW_LISTS, *REQUIREMENTS, ROOT / "pyproject.toml"]
    return cached(f"engine-{target}", inputs, make, [ENGINE]) / "image.tar"


def workflow_image(out: Path) -> None:
    """Write the archive of the image with the whole workflow; its layers that take long are kept."""
    _image(out, "workflow", WORKFLOW)


def _image(out: Path, target: str, name: str, *more: str) -> None:
    how = ["--target", target, "--name", name, *more]
    run(aside([sys.executable, str(IMAGES / "build.py"), str(out), *how]), start_new_session=True)


def _site_inputs() -> list[Path]:
    return [IMAGES / name for name in ("debian.txt", "dpkg.cfg", "finish.sh")]


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


def _compile(folder: Path) -> None:
    """Build the programs. The toolchain's version is not part of the key: any will do that is new enough."""
    require_go()
    with scratch("module") as beside:
        module = f"-modfile={_reconciled(beside)}"
        go(["build", "-v", module, *FLAGS, "-o", f"{folder}/", *PACKAGES], GO, environment())


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
    """Run `go` behind everything else that this machine does; raises BuildError with the lines that it stopped at."""
    begun = time.monotonic()
    command = aside(["go", *arguments])
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


def aside(command: list[str]) -> list[str]:
    """A command that yields to everything else and ends with this process; in a session of its own."""
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", ASIDE, "aside", *command]


def say(what: str) -> None:
    """Tell how far it is."""
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


@contextlib.contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A folder that is gone afterwards; what killed ones have left of the same name goes first."""
    home = cache() / "cluster"
    home.mkdir(parents=True, exist_ok=True)
    for left in home.glob(f"{name}.*/"):
        with contextlib.suppress(BlockingIOError):
            os.close(hold(left, fcntl.LOCK_EX | fcntl.LOCK_NB))
            shutil.rmtree(left)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=home))
    held = hold(folder)
    try:
        yield folder
    finally:
        os.close(held)
        shutil.rmtree(folder)


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


def everything() -> None:
    """Make all that the tests need; what a second time needs only to be found."""
    require_go()

    def images() -> None:
        from tests.cluster.local.images import unpacked  # which needs this module

        say(str(unpacked([pause_image(), site_image()])))
        for target in image.TARGETS:
            say(str(engine_image(target)))
        with scratch("workflow") as folder:
            workflow_image(folder / "workflow.tar")

    def programs() -> Path:
        made = kubernetes()
        multus()  # most of which is compiled with that
        return made

    # Images are mostly fetched, unpacked and written by one process each, and compiling has the rest.
    with ThreadPoolExecutor(2) as pool:
        compiling, packing = pool.submit(programs), pool.submit(images)
    packing.result()
    sys.stdout.write(f"{compiling.result()}\n")


if __name__ == "__main__":
    os.nice(19)
    try:
        everything()
    except (BuildError, ImageError) as error:
        sys.exit(f"build: {error}")
