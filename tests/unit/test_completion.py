# SPDX-License-Identifier: Apache-2.0
"""Completion of command lines, by a real bash."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.workflow import ROOT

FILE = ROOT / "envs/completion.bash"
BREAKS = " \t\n\"'@><=;|&(:"
"""What bash has COMP_WORDBREAKS set to, where it is used by a person."""


def completed(line: str, folder: Path = ROOT) -> list[str]:
    """What bash is told for a line, as whole words; no program is there to be started."""
    script = 'source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; _tpcsweep; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["/bin/bash", "-c", script, "bash", str(FILE), line],
        cwd=folder,
        env={"PATH": "/nowhere", "COMP_WORDBREAKS": BREAKS},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("snakemake mod", ["models"]),
        ("snakemake -n --config sweep=smoke -- stat", ["status"]),
        ("snakemake chep2024_fig", [f"chep2024_fig{number}" for number in range(2, 9)]),
        ("snakemake --config swe", ["sweep="]),
        ("snakemake -C notif", ["notify="]),
        ("snakemake --config sweep=dem", ["demo"]),
        (
            "snakemake --config sweep=smoke testbed=simulation-ch",
            ["simulation-chep2023", "simulation-chep2023-main"],
        ),
        ("snakemake --config sweep=demo,sm", ["demo,smoke"]),
        ("snakemake --config sweep=demo,dem", []),
        ("snakemake --config again=distu", ["disturbed"]),
        ("snakemake --profile ", ["k8s"]),
        ("snakemake --config source=nrp", ["nrp-wan-2020"]),
        ("snakemake --no-such-option", []),
        ("snakemake xyz", []),
    ],
)
def test_words_are_completed(line: str, words: list[str]) -> None:
    assert completed(line) == words


def test_names_are_those_of_files_beside_it(tmp_path: Path) -> None:
    for file in ("config/sweeps/mine.yaml", "config/testbeds/ours.yaml", "results/mine@ours/dataset.nc"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    assert completed("snakemake --config sweep=", tmp_path) == ["mine"]
    assert completed("snakemake --config testbed=o", tmp_path) == ["ours"]
    assert completed("snakemake --config base=m", tmp_path) == ["mine@ours"]
    # Readline takes what is behind the @ alone for the word.
    assert completed("snakemake --config base=mine@o", tmp_path) == ["ours"]


def test_elsewhere_nothing_is_said(tmp_path: Path) -> None:
    assert completed("snakemake mod", tmp_path) == []


def test_a_person_at_a_terminal_gets_the_line() -> None:
    typed = "snakemake --config swe\tdemo,smo\ttestbed=simu\t -- gri\t\r"
    pid, terminal = pty.fork()
    if pid == 0:  # another process from here on
        os.chdir(ROOT)
        os.execve(
            "/bin/bash",
            ["bash", "--norc", "--noprofile", "-i"],
            {**os.environ, "TERM": "dumb", "HISTFILE": ""},
        )
    os.write(
        terminal, f"source {FILE}; snakemake() {{ printf 'got<%s>\\n' \"$*\"; }}; echo re''ady\r".encode()
    )
    _until(terminal, "ready\r\n")
    os.write(terminal, typed.encode())
    said = _until(terminal, ">\r\n")
    os.write(terminal, b"exit\r")
    os.waitpid(pid, 0)
    assert re.findall(r"got<(.*)>", said) == ["--config sweep=demo,smoke testbed=simulation -- grid"]


def _until(terminal: int, end: str) -> str:
    said, give_up = "", time.monotonic() + 120
    while end not in said:
        assert time.monotonic() < give_up, said
        said += os.read(terminal, 4096).decode(errors="replace")
    return said


def test_the_lists_are_those_of_now() -> None:
    sys.path.insert(0, str(ROOT / "envs"))
    from completion import filled

    assert filled(FILE.read_text()) == FILE.read_text(), "make docs writes them"
