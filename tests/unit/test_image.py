# SPDX-License-Identifier: Apache-2.0
"""The image: what is packed is the same to the byte each time, and its digests are those of its content."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import marshal
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from tpcsweep.xrootd.releases import IN_IMAGE, Release

from envs.image import building
from envs.image.building import byte_code, cache, image, repository
from envs.image.building.debian import SITE_LIST, WORKFLOW_LISTS, packages
from envs.image.building.digests import digest_of
from envs.image.building.layers import Layer, in_memory
from envs.image.building.messages import ImageError
from envs.image.building.oci import pack
from envs.image.building.places import IMAGE, ROOT
from envs.image.building.releases import release_files, release_layer
from envs.image.building.tars import EPOCH, File, difference, tar

compiles = pytest.mark.skipif(
    byte_code.interpreter() is None, reason="the image's own Python compiles, in tests/cluster/test_image.py"
)
UNUSED = Layer(b"", "", "", "what would compile, were there no Python 3.11")


def layer(**files: str) -> Layer:
    return in_memory({name: File(text.encode()) for name, text in files.items()}, "a test")


def opened(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def made(base: dict[str, str]) -> bytes:
    return tar({name: File(text.encode()) for name, text in base.items()})


def test_modules_import_only_such_as_are_listed_above_them() -> None:
    listed = re.findall(r"^    (\w+)  +\w", building.__doc__ or "", re.MULTILINE)
    sources = {file.stem: file for file in (IMAGE / "building").glob("[!_]*.py")}
    assert sorted(listed) == sorted(sources)
    for place, name in enumerate(listed):
        nodes = [
            node
            for node in ast.walk(ast.parse(sources[name].read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        assert {node.module for node in nodes if node.level} <= {*listed[:place]}, name


def test_the_command_needs_no_more_than_python_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-E", str(IMAGE / "build.py"), "i.tar", "--name", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("image: name: given 'none', allowed: HOST/NAME:TAG")


def test_the_same_layers_make_the_same_archive(tmp_path: Path) -> None:
    layers = [layer(a="1"), layer(b="2")]
    digests = {pack(tmp_path / name, "localhost/t:1", layers, {}) for name in ("one.tar", "two.tar")}
    assert len(digests) == 1
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.tar", "two.tar"]


def test_every_digest_is_that_of_its_blob_and_leads_to_the_layers(tmp_path: Path) -> None:
    digest = pack(tmp_path / "i.tar", "localhost/t:1", [layer(a="1")], {"User": "1:1"})
    files = opened(tmp_path / "i.tar")
    blobs = {name.removeprefix("blobs/sha256/"): data for name, data in files.items() if "/" in name}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())
    (index,) = json.loads(files["index.json"])["manifests"]
    assert index["digest"] == digest
    assert index["annotations"]["io.containerd.image.name"] == "localhost/t:1"
    manifest = json.loads(blobs[digest.removeprefix("sha256:")])
    configuration = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert configuration["config"]["User"] == "1:1"
    (first,) = manifest["layers"]
    content = blobs[first["digest"].removeprefix("sha256:")]
    assert first["size"] == len(content)
    assert configuration["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]


def test_an_archive_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    missing = Layer(tmp_path / "gone", "sha256:0", "sha256:0", "a test")
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "i.tar", "localhost/t:1", [missing], {})
    assert list(tmp_path.iterdir()) == []


def test_files_are_roots_and_of_one_time() -> None:
    text = made({"opt/b": "2", "opt/a": "1"})
    with tarfile.open(fileobj=io.BytesIO(text)) as archive:
        assert [entry.name for entry in archive] == ["opt", "opt/a", "opt/b"]
        assert {(entry.uid, entry.gid, entry.mtime) for entry in archive} == {(0, 0, EPOCH)}


def test_a_difference_has_what_is_new_changed_and_gone() -> None:
    base = made({"etc/kept": "1", "etc/changed": "1", "etc/gone": "1", "old/file": "1"})
    whole = made({"etc/kept": "1", "etc/changed": "2", "etc/new": "3"})
    with tarfile.open(fileobj=io.BytesIO(difference(base, whole))) as archive:
        assert sorted(archive.getnames()) == [".wh.old", "etc/.wh.gone", "etc/changed", "etc/new"]


@compiles
def test_byte_code_is_what_python_loads_unseen() -> None:
    sources = {"opt/a/b.py": File(b"x = 1\n"), "opt/a/c.c": File(b"int x;")}
    [(path, file)] = byte_code.byte_code(sources, UNUSED).items()
    assert path == "opt/a/__pycache__/b.cpython-311.pyc"
    code = file.content
    assert int.from_bytes(code[4:8], "little") == 1  # unchecked: a layer never changes
    assert {path: file} == byte_code.byte_code(sources, UNUSED)
    if sys.version_info[:2] == (3, 11):
        loaded = marshal.loads(code[16:])
        assert isinstance(loaded, CodeType)
        assert loaded.co_filename == "/opt/a/b.py"


@compiles
def test_the_repository_is_what_git_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Snakefile", "pyproject.toml", "workflow/tpcsweep/__init__.py", "secret"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(
            '[project]\nname = "tpcsweep"\nversion = "1"\nscripts.tpcsweep = "tpcsweep.cli:main"\n'
            if name.endswith("l")
            else ""
        )
    (tmp_path / "k8s").symlink_to("workflow")
    monkeypatch.setattr(repository, "ROOT", tmp_path)
    with pytest.raises(ImageError, match="a checkout"):
        repository.repository_files(UNUSED)
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "Snakefile", "pyproject.toml", "workflow", "k8s"], check=True)
    files = repository.repository_files(UNUSED)
    assert files["opt/tpcsweep/k8s"].link == "workflow"
    assert {"opt/tpcsweep/Snakefile", "opt/tpcsweep/.venv/lib/python3.11/site-packages/tpcsweep.pth"} <= set(
        files
    )
    assert "opt/tpcsweep/secret" not in files
    script = files["opt/tpcsweep/.venv/bin/tpcsweep"]
    assert script.mode == 0o755
    assert script.content.splitlines()[0] == b"#!/opt/tpcsweep/.venv/bin/python"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A release of a site's own, as `make install` leaves it."""
    folder = tmp_path / "own"
    for name in (
        "bin/xrootd",
        "bin/cmsd",
        "bin/xrdcp",
        "lib64/libXrdCl.so.3.0.0",
        "include/xrootd/XrdVersion.hh",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "bin/xrootd").chmod(0o755)
    (folder / "lib64/libXrdCl.so.3").symlink_to("libXrdCl.so.3.0.0")
    return folder


def test_a_release_is_where_pods_look_for_it_with_how_it_came_to_be(own: Path) -> None:
    home = "opt/xrootd/patched"
    files = release_files(Release("patched", own, {"folder": str(own)}), IN_IMAGE / "patched")
    assert sorted(files) == [
        *(f"{home}/bin/{program}" for program in ("cmsd", "xrdcp", "xrootd")),
        *(f"{home}/lib64/libXrdCl.so.3{end}" for end in ("", ".0.0")),
        f"{home}/release.json",
    ]
    assert files[f"{home}/bin/xrootd"] == File(b"bin/xrootd", 0o755)
    assert files[f"{home}/lib64/libXrdCl.so.3"].link == "libXrdCl.so.3.0.0"
    assert json.loads(files[f"{home}/release.json"].content) == {"folder": str(own)}


def test_the_layer_of_a_release_follows_its_content(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "require_machine", lambda: None)
    first, again = (release_layer("patched", own) for _ in range(2))
    assert first == again
    (own / "bin/xrootd").write_text("built anew")
    assert release_layer("patched", own).digest != first.digest
    (own / "bin/xrootd").unlink()
    with pytest.raises(ImageError, match=r"xrootd patched: .*bin/xrootd is not there"):
        release_layer("patched", own)


@pytest.mark.parametrize(
    "given", [["system"], ["5.8.1", "5.8.1"], ["patched="], ["=/opt/xrootd"], [""], ["../x=/f"]]
)
def test_a_release_that_no_image_gets_is_refused(tmp_path: Path, given: list[str]) -> None:
    with pytest.raises(ImageError, match=f"--xrootd: given '{given[-1]}', allowed: a version, or NAME="):
        image.build(tmp_path / "i.tar", "site", "localhost/t:1", given)


@pytest.mark.parametrize("target", ["", "Site", "all"])
def test_an_unknown_target_is_refused_with_the_known_ones(tmp_path: Path, target: str) -> None:
    with pytest.raises(ImageError, match=f"given {target!r}, allowed: site, workflow"):
        image.build(tmp_path / "i.tar", target, "localhost/t:1")


@pytest.mark.parametrize("name", ["tpcsweep", "localhost/T:1", "a/b@sha256:0", "a/b c", "", "a/b:"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ImageError, match="allowed: HOST/NAME:TAG"):
        image.checked_name(name)


def test_a_name_without_a_tag_is_the_latest() -> None:
    assert image.checked_name("localhost:5000/t") == "localhost:5000/t:latest"


@pytest.mark.parametrize(
    ("lacking", "message"), [("mmdebstrap", "apt-get install mmdebstrap"), ("", "run this as root")]
)
def test_what_the_machine_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str, message: str
) -> None:
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda name: None if name == lacking else f"/bin/{name}")
    with pytest.raises(ImageError, match=message):
        image.build(tmp_path / "i.tar", "site", "localhost/t:1")


def test_a_layer_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "require_machine", lambda: None)
    calls = []

    def make(out: Any) -> None:
        calls.append(1)
        out.write(made({"a": "1"}))

    first, again = (cache.kept("kind", ["x"], make, "a test") for _ in range(2))
    assert first == again and len(calls) == 1
    assert cache.unpacked(first) == made({"a": "1"})
    assert first.whole == digest_of(made({"a": "1"}))
    assert sorted(path.name for path in (tmp_path / "image").iterdir()) == [first.file.name, "lock"]
    with pytest.raises(ZeroDivisionError):
        cache.kept("kind", ["y"], lambda _: 1 / 0, "a test")
    assert len(list((tmp_path / "image").iterdir())) == 2


def test_the_lists_name_each_package_once_in_order() -> None:
    for file in (SITE_LIST, *WORKFLOW_LISTS):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert lines == packages(file)
        assert all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name) for name in lines)
    # What pods run is what this machine runs, and Python itself.
    pods = set(packages(SITE_LIST))
    assert pods - set(packages(ROOT / "envs/debian.txt")) == {"python3"}


def test_the_containerfile_sets_what_the_script_sets() -> None:
    text = (IMAGE / "Containerfile").read_text()
    lines = [line.removeprefix("ENV ") for line in text.splitlines() if line.startswith("ENV ")]
    found = dict(pair.split("=", 1) for line in lines for pair in line.split())
    wanted = image.ENVIRONMENT | image.WORKFLOW_ENVIRONMENT | {"TPCSWEEP_COMMIT": "${COMMIT}"}
    assert found == wanted
    assert text.rstrip().endswith(f"USER {image.USER}:{image.USER}")
    assert f"--uid {image.USER} " in (IMAGE / "finish.sh").read_text()


def test_an_engine_is_given_nothing_that_git_ignores() -> None:
    kept_out = (IMAGE / "Containerfile.dockerignore").read_text().split()
    for pattern in (ROOT / ".gitignore").read_text().split():
        wanted = pattern.rstrip("/")
        assert wanted in kept_out or f"**/{wanted}" in kept_out, pattern
