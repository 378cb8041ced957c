# SPDX-License-Identifier: Apache-2.0
"""The testbed's image, built from the Containerfile: programs of pods start as their user on a read-only root."""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.testbeds.kubernetes import archive

from tests.cluster.local import build
from tests.support.private import WORK

pytestmark = pytest.mark.cluster

PACKAGE = "package.zip"
BROUGHT = f"PYTHONPATH=/{PACKAGE}"
PRIVATE = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
ENTER = """
mount --bind "$0" "$0"
mount --rbind /dev "$0/dev"
mount -t proc proc "$0/proc"
mount -t tmpfs tmpfs "$0/tmp"
mount -o remount,bind,ro "$0"
exec env -i $ENVIRONMENT chroot --userspec=10940:10940 "$0" "$@"
"""
IMPORT = """
trap 'kill %1 && wait' EXIT
containerd --config config.toml >containerd.log 2>&1 &
until ctr --address "$PWD/socket" version >/dev/null 2>&1; do sleep 0.1; done
ctr --address "$PWD/socket" --namespace k8s.io images import "$1" >&2
ctr --address "$PWD/socket" --namespace k8s.io images ls
"""


@pytest.fixture(scope="module")
def built() -> Path:
    """The archive of the site image."""
    return build.site_image()


@pytest.fixture(scope="module")
def run(built: Path) -> Iterator[Callable[..., str]]:
    """Run a command inside the image as its user; returns all that it said."""
    with entered(built) as inside:
        yield inside


@contextlib.contextmanager
def entered(built: Path) -> Iterator[Callable[..., str]]:
    """A way to run commands in an image with the package beside it, in memory and in a namespace of this process."""
    command = [*PRIVATE, "bash", "-euc", f"mount -t tmpfs -o mode=755 tmpfs {WORK}; echo; read"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        root = Path(f"/proc/{holder.pid}/root{WORK}")
        environment = unpack(built, root)
        (root / PACKAGE).write_bytes(archive.content())
        yield functools.partial(inside, holder.pid, environment)
        holder.kill()


def unpack(built: Path, root: Path) -> str:
    """Lay an image's layers over one another; return its environment as words for `env`."""
    with tarfile.open(built) as tar:

        def content(name: str) -> bytes:
            return tar.extractfile(name).read()  # type: ignore[union-attr]

        def blob(descriptor: dict[str, Any]) -> bytes:
            return content(f"blobs/{descriptor['digest'].replace(':', '/')}")

        (index,) = json.loads(content("index.json"))["manifests"]
        manifest = json.loads(blob(index))
        for layer in manifest["layers"]:
            flags = [f"--{kind}" for kind in ("zstd", "gzip") if layer["mediaType"].endswith(f"+{kind}")]
            extract = ["tar", *flags, "-C", str(root), "--xattrs", "-xf", "-"]
            subprocess.run(extract, input=blob(layer), check=True)
            for gone in [path for path in root.rglob(".wh.*") if not path.is_symlink()]:
                hidden = gone.with_name(gone.name.removeprefix(".wh."))
                gone.unlink()
                shutil.rmtree(hidden) if hidden.is_dir() else hidden.unlink(missing_ok=True)
        return " ".join(json.loads(blob(manifest["config"]))["config"]["Env"])


def inside(holder: int, environment: str, *command: str) -> str:
    done = subprocess.run(
        ["nsenter", f"--target={holder}", "--mount", *PRIVATE, "bash", "-euc", ENTER, WORK, *command],
        env={**os.environ, "ENVIRONMENT": environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("xrootd -v", "v5."),
        ("cmsd -v", "v5."),
        ("gfal-copy --version", "gfal2"),
        ("curl --version", "https"),
        ("iperf3 --version", "iperf 3"),
        ("davix-get --version", "Version: 0."),
        ("openssl version", "OpenSSL 3"),
        ("tc -V", "iproute2"),
        ("ethtool --version", "ethtool"),
        ("ping -V", "iputils"),
        ("id", "uid=10940(tpcsweep) gid=10940(tpcsweep)"),
    ],
)
def test_what_pods_run_is_there(run: Callable[..., str], command: str, said: str) -> None:
    assert said.lower() in run(*command.split()).lower()


def test_the_binding_of_gfal2_is_there(run: Callable[..., str]) -> None:
    assert run("python3", "-c", "import gfal2; print(gfal2.get_version())").startswith("2.")


def test_what_pods_run_needs_the_standard_library_alone(run: Callable[..., str]) -> None:
    modules = [name for name in archive.modules() if not name.startswith("tpcsweep.tools.")]
    say = "print(tpcsweep.client.__file__)"
    assert run("env", BROUGHT, "python3", "-c", f"import {', '.join(modules)}; {say}").startswith(
        f"/{PACKAGE}"
    )


def test_a_release_beside_the_systems_runs_and_says_its_version(run: Callable[..., str]) -> None:
    ask = f"from tpcsweep.xrootd.releases import in_image; print(in_image({build.RELEASE!r}).describe())"
    said = ast.literal_eval(run("env", BROUGHT, "python3", "-c", ask))
    assert (said["release"], said["version"], said["debian"]) == (build.RELEASE, build.RELEASE, "trixie")


def test_nothing_of_the_machine_that_built_is_in_it(run: Callable[..., str]) -> None:
    run("sh", "-c", "! [ -s /etc/hostname ] && ! [ -s /etc/resolv.conf ] && ! [ -s /etc/machine-id ]")
    assert run("find", "/var/log", "/tmp", "-type", "f") == ""


def digest(built: Path) -> str:
    """Of the manifest, which says all that is in it."""
    with tarfile.open(built) as tar:
        (index,) = json.load(tar.extractfile("index.json"))["manifests"]  # type: ignore[arg-type]
    return str(index["digest"])


def test_containerd_imports_it_under_its_name_and_digest(built: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"root": tmp_path / "root", "state": tmp_path / "state"}
    lines = ["version = 2", 'disabled_plugins = ["io.containerd.grpc.v1.cri"]']
    lines += [f'{key} = "{value}"' for key, value in settings.items()]
    lines += ["[grpc]", f'address = "{tmp_path}/socket"']
    (tmp_path / "config.toml").write_text("\n".join(lines))
    done = subprocess.run(
        [*PRIVATE, "bash", "-euc", IMPORT, "import", str(built)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    shutil.rmtree(tmp_path / "root", ignore_errors=True)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()[1:]
    assert line.split()[0] == build.IMAGE
    assert digest(built) in line
