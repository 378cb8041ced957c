# SPDX-License-Identifier: Apache-2.0
"""Releases of XRootD: unpacked and built into a cache, and deployed."""

import multiprocessing
import subprocess
import tarfile
from pathlib import Path

import pytest
from tpcsweep.common.extras import missing_extras
from tpcsweep.deploying.xrootd import obtaining
from tpcsweep.deploying.xrootd.obtaining import obtain
from tpcsweep.deploying.xrootd.releases import PROGRAMS, ReleaseError, release_in
from tpcsweep.testbeds.netns.settings import OwnRelease

from tests.support.sites import seconds, site_of, whole
from tests.support.workflow import finished, wait_until

MADE_UP = "1.2.3"  # a project of a few lines with the targets of XRootD: the real one takes minutes to build
CMAKE = f"""
cmake_minimum_required(VERSION 3.18)
project(made-up C)
add_library(XrdUtils SHARED utils.c)
foreach(program {" ".join(PROGRAMS)})
  add_executable(${{program}} main.c)
  target_link_libraries(${{program}} XrdUtils)
endforeach()
foreach(plugin {" ".join(obtaining.TARGETS)})
  add_library(${{plugin}}-1 MODULE utils.c)
endforeach()
"""
UTILS = f'const char *version(void) {{ return "v{MADE_UP}"; }}\n'
MAIN = "#include <stdio.h>\nconst char *version(void);\nint main(void) { puts(version()); }\n"
needs_compilers = pytest.mark.skipif(missing_extras(["xrootd"]), reason="make setup EXTRAS=xrootd")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/xrootd"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The made-up project, which is fetched as the release of its version."""
    folder = tmp_path / f"xrootd-{MADE_UP}"
    folder.mkdir()
    for name, text in {"CMakeLists.txt": CMAKE, "utils.c": UTILS, "main.c": MAIN}.items():
        (folder / name).write_text(text)

    def fetch(version: str, _digest: str, place: Path, _log: Path) -> None:
        place.mkdir(exist_ok=True)
        with tarfile.open(place / f"xrootd-{version}.tar.gz", "w:gz") as archive:
            archive.add(folder, folder.name)

    monkeypatch.setattr(obtaining, "fetch", fetch)
    monkeypatch.setattr(obtaining, "sources", lambda: {MADE_UP: "0" * 64})
    return folder


@needs_compilers
@pytest.mark.usefixtures("project")
def test_a_release_is_built_once_with_all_that_it_needs(cache: Path) -> None:
    said: list[str] = []
    release = obtain(MADE_UP, {}, said.append)
    assert release.version() == MADE_UP
    assert any(line.startswith(f"building XRootD {MADE_UP}: ") for line in said)
    assert {"sha256", "compiler", "options"} < set(release.describe())
    # It runs by its own loader and libraries alone.
    traced = ["env", "LD_TRACE_LOADED_OBJECTS=1", *release.command("xrootd")]
    loaded = subprocess.check_output(traced, text=True)
    assert all(str(cache) in line for line in loaded.splitlines() if "=>" in line)
    said.clear()
    assert obtain(MADE_UP, {}, said.append).folder == release.folder
    assert not said
    assert [path.name for path in cache.iterdir() if path.name != "lock"] == [release.folder.name]


@needs_compilers
@pytest.mark.usefixtures("cache")
def test_a_build_that_fails_says_which_line_and_goes_on_when_it_is_mended(project: Path) -> None:
    (project / "main.c").write_text(MAIN.replace("puts(", "puts(]"))
    with pytest.raises(ReleaseError, match=r"main\.c:3:\d+: error: .*; all of it is in (\S+)") as error:
        obtain(MADE_UP, {}, print)
    log = Path(str(error.value).rpartition(" ")[2])
    assert log.read_text()
    source = log.parent / "source/main.c"  # as a full disk or a missing library is mended in place
    source.write_text(MAIN)
    assert obtain(MADE_UP, {}, print).version() == MADE_UP
    assert not log.parent.exists()


@needs_compilers
def test_a_killed_build_leaves_no_process_and_the_next_goes_on(cache: Path, project: Path) -> None:
    (project / "CMakeLists.txt").write_text(f"{CMAKE}execute_process(COMMAND sleep 600.25)\n")
    child = multiprocessing.get_context("fork").Process(target=obtain, args=(MADE_UP, {}, print))
    child.start()
    wait_until(lambda: _running("sleep 600.25"), "the build runs")
    child.kill()
    child.join()
    wait_until(lambda: not _running("sleep 600.25"), "the kernel ends the build", 60)
    [work] = cache.glob("*.part")
    (work / "source/CMakeLists.txt").write_text(CMAKE)
    assert obtain(MADE_UP, {}, print).version() == MADE_UP
    assert not list(cache.glob("*.part"))


def _running(command: str) -> bool:
    return finished(["pgrep", "--full", "--exact", command]).returncode == 0


def test_a_release_of_debian_and_a_sites_own_folder_are_deployed_as_they_say(tmp_path: Path) -> None:
    unpacked = obtain("5.8.1", {}, print)
    assert unpacked.folder
    own = [OwnRelease(name="patched", path=str(unpacked.folder))]
    for name in ("5.8.1", "patched"):
        logs = tmp_path / name
        logs.mkdir()
        with site_of(logs, own=own, xrootd=name) as site:
            about = site.provenance["xrootd"]
            assert (about["release"], about["version"]) == (name, "5.8.1")
            folders = [Path(f"/proc/{child.pid}") for child in site.servers.processes.children]
            # For ps, pkill and perf.
            assert "xrootd\n" in {(folder / "comm").read_text() for folder in folders}
            running = {(folder / "maps").read_text() for folder in folders}
            assert any(f"{unpacked.folder}/lib/libXrdServer" in maps for maps in running)
            whole(site, seconds(1), xrootd=name)
    assert release_in("5.8.1", unpacked.folder).version() == "5.8.1"
