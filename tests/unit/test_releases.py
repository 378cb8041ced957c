# SPDX-License-Identifier: Apache-2.0
"""What names of XRootD's releases mean, and how their programs are started."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.xrootd import obtaining, releases
from tpcsweep.xrootd.releases import Release, ReleaseError

from tests.support.releases import folder_of

VERSIONS = st.lists(st.integers(0, 99), min_size=3, max_size=3)


@given(VERSIONS, VERSIONS)
def test_versions_compare_as_numbers(left: list[int], right: list[int]) -> None:
    first, second = (".".join(map(str, version)) for version in (left, right))
    assert (releases.version_number(first) < releases.version_number(second)) == (left < right)


def test_each_version_has_a_hash_and_all_can_be_named() -> None:
    known = releases.known(["patched"])
    assert known[:2] == ["system", "patched"]
    assert {"5.5.3", "5.8.1", "5.9.9", "6.2.0", "5.8.1-source"} < set(known)
    assert len(known) == len(set(known))
    # It comes in seconds, everywhere.
    assert releases.RECOMMENDED in releases.DEBIAN.keys() < releases.sources().keys()


def test_a_release_is_started_by_its_loader_or_its_own_libraries_or_is_the_systems(tmp_path: Path) -> None:
    assert Release("system").command("cmsd") == [shutil.which("cmsd") or "cmsd"]
    folder = folder_of(tmp_path / "x", "v6.3.0-rc1", "lib64")
    made = releases.release_in("patched", folder)
    _, libraries, *_, program = made.command("xrootd")
    assert f"{folder}/lib64" in libraries and program == str(folder / "bin/xrootd")
    assert made.version() == "6.3.0-rc1"
    (folder / "loader").mkdir()
    (folder / "loader/cmsd").touch()
    paths = ["--library-path", f"{folder}/lib:{folder}/lib64"]
    assert made.command("cmsd") == [f"{folder}/loader/cmsd", "--argv0", "cmsd", *paths, f"{folder}/bin/cmsd"]


@pytest.mark.parametrize("said", ["", "Segmentation fault", "version 5"])
def test_a_program_that_does_not_say_its_version_is_refused(said: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"xrootd odd: .* allowed: a version such as v5\.9\.9"):
        releases.release_in("odd", folder_of(tmp_path / "x", said)).version()


def test_a_folder_without_a_program_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "x", "v1.2.3")
    (folder / "bin/cmsd").unlink()
    with pytest.raises(ReleaseError, match=r"xrootd mine: .*/bin/cmsd is not there: allowed is a folder"):
        obtaining.obtain("mine", {"mine": folder}, print)


def test_a_sites_folder_is_recorded_with_the_hash_of_what_is_in_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "x", "v6.3.0")
    first = obtaining.obtain("mine", {"mine": folder}, print).describe()
    assert (first["release"], first["version"]) == ("mine", "6.3.0")
    (folder / "lib/libXrdHttp-6.so").write_bytes(b"patched")
    assert obtaining.obtain("mine", {"mine": folder}, print).describe()["digest"] != first["digest"]


def test_what_the_cache_has_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path))
    assert obtaining.to_build("6.2.0", {})
    assert not any(obtaining.to_build(name, {"6.9": tmp_path}) for name in ("system", "5.8.1", "6.9"))
    place = obtaining._place("6.2.0")
    folder_of(place, "v6.2.0")
    assert not obtaining.to_build("6.2.0", {})
    assert obtaining.obtain("6.2.0", {}, print).folder == place


def test_obtaining_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ReleaseError, match=r"xrootd 9\.9\.9: no source archive .*envs/xrootd\.txt"):
        obtaining.obtain("9.9.9", {}, print)
    assert [path.name for path in (tmp_path / "cache/xrootd").iterdir()] == ["lock"]
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path / "cache/xrootd/lock"))
    with pytest.raises(ReleaseError, match="TPCSWEEP_CACHE names another"):
        obtaining.obtain("6.2.0", {}, print)
