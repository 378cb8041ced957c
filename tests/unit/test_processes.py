# SPDX-License-Identifier: Apache-2.0
"""Which kind of process gets what of the user's environment."""

import os
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from tpcsweep import processes
from tpcsweep.tools import TOOLS, Credentials
from tpcsweep.xrootd.releases import SYSTEM, Release

from tests.support import hostile

HERE = Path("/h")
KINDS: dict[str, tuple[Callable[[], Mapping[str, str]], set[str]]] = {
    "measured": (partial(processes.measured, HERE), set()),
    "system": (processes.system, {"HOME", "TMPDIR"}),
    "python": (partial(processes.python, HERE), {"TMPDIR", "LD_LIBRARY_PATH"}),
    **{
        name: (partial(tool.environment, Credentials(Path("/c"), authorization), HERE), set())
        for name, tool in TOOLS.items()
        for authorization in ("usual", "none")
    },
}
"""What makes the environment of each kind of process, and the variables that it takes over from the user."""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environment = hostile.environment(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    return environment


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_process_gets_only_what_it_needs(theirs: dict[str, str], kind: str) -> None:
    made, passed = KINDS[kind]
    given = made()
    same = {name for name, value in given.items() if theirs.get(name) == value}
    assert same - {"PATH"} == passed
    assert given["LC_ALL"] == "C.UTF-8"


def test_builds_get_proxies_and_nothing_that_changes_them(theirs: dict[str, str]) -> None:
    given = processes.building()
    assert given["https_proxy"] == theirs["https_proxy"]
    gone = {"LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "C_INCLUDE_PATH", "TAR_OPTIONS"}
    assert (gone | {"CFLAGS", "GIT_DIR"}) & set(given) == set()
    assert given["LC_ALL"] == "C.UTF-8"


def test_programs_that_debian_keeps_from_users_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert processes.system()["PATH"] == "/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    assert processes.whole()["PATH"] == "/usr/bin:/bin"


@pytest.mark.usefixtures("theirs")
def test_the_user_has_a_say_in_nothing_that_is_run(tmp_path: Path) -> None:
    assert Release(SYSTEM).version()  # the loader's complaints about LD_PRELOAD would be part of it
    before = os.umask(0o077)
    try:
        processes.run(["touch", tmp_path / "commands"])
        processes.run(["touch", tmp_path / "users"], processes.whole(), umask=-1)
        with processes.readable():
            (tmp_path / "ours").touch()
        (tmp_path / "mine").touch()
    finally:
        assert os.umask(before) == 0o077
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("commands", "users", "ours", "mine")}
    assert modes == {"commands": 0o644, "users": 0o600, "ours": 0o644, "mine": 0o600}


def test_a_command_reads_no_terminal_and_may_print_anything() -> None:
    assert processes.run(["sh", "-c", "cat; printf '\\377'"]).stdout == "\ufffd"
    assert processes.run(["cat"], input="given").stdout == "given"
    with pytest.raises(subprocess.CalledProcessError):
        processes.run(["false"], check=True)
