# SPDX-License-Identifier: Apache-2.0
"""A sweep of which a third cannot be deployed as asked: it ends with a report, and says what is not in it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import xarray as xr

from tests.support.browser import elements
from tests.support.leftovers import present, stayed
from tests.support.workflow import HANGS, ROOT, Sweep

pytestmark = pytest.mark.real

REFUSED = 3_000_000
"""The TCP buffer, in bytes, that this machine's sysctl is made to refuse."""
CELL = {"until": "files", "files": 2, "max_time": "10 min"}


@dataclass(frozen=True)
class Holed:
    """A sweep and what its command has said."""

    sweep: Sweep
    done: subprocess.CompletedProcess[str]


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=HANGS,
    )


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Holed:
    """Three deployments of two cells, run by the plain command, where one of them cannot be made."""
    sweep = Sweep(tmp_path_factory.mktemp("holes"), "holed").define(
        parameters={
            "tcp_buffer": ["1000000 B", "2000000 B", f"{REFUSED} B"],
            "rtt": "2 ms",
            "bandwidth": "200 Mbit/s",
            "file_size": "4 MiB",
            "streams": [1, 2],
        },
        measurement=CELL,
    )
    programs = sweep.folder / "bin"
    programs.mkdir()
    there = shutil.which("sysctl")
    refusing = programs / "sysctl"
    refusing.write_text(
        f'#!/bin/sh\ncase "$*" in *{REFUSED}*) echo "sysctl: permission denied" >&2; exit 1;; esac\nexec {there} "$@"\n'
    )
    refusing.chmod(0o755)
    before = present()
    done = run(sweep.command(), PATH=f"{programs}:{os.environ['PATH']}")
    assert stayed(before) == {}
    return Holed(sweep, done)


def test_the_command_lists_what_was_not_measured_and_fails(holed: Holed) -> None:
    assert holed.done.returncode == 1
    last = holed.done.stdout.splitlines()[-4:]
    assert "2 of 6 cells were not measured" in "".join(last)
    assert f"tcp_buffer={REFUSED} (2 cells)" in "".join(last)
    assert "permission denied" in "".join(last)
    assert "no backup found" not in holed.done.stdout
    [hole] = json.loads((holed.sweep.results / "not_measured.json").read_text())
    assert hole["command"] in "".join(last)
    assert [Path(cell).parts[0] for cell in hole["cells"]] == [f"tcp_buffer={REFUSED}"] * 2


def test_the_dataset_has_what_was_measured_and_says_what_was_not(holed: Holed) -> None:
    dataset = xr.open_dataset(holed.sweep.results / "dataset.nc")
    assert int((dataset.status == 1).sum()) == 4
    holes = dataset.sel(tcp_buffer=REFUSED)
    assert (holes.status == 0).all()
    assert holes.throughput.isnull().all()
    assert all("permission denied" in text for text in holes.message.values.flat)


def test_the_report_begins_with_what_was_not_measured(holed: Holed, tmp_path: Path) -> None:
    page = elements(holed.sweep.results / "report.html", tmp_path).get_text(" ")
    table, text = (
        page.index("Not measured: 2 of 6 cells"),
        page.index("The throughput of XRootD HTTP third-party"),
    )
    assert table < page.index("permission denied", table) < text


def test_the_command_that_is_named_measures_it(holed: Holed) -> None:
    [hole] = json.loads((holed.sweep.results / "not_measured.json").read_text())
    # As a user has it who has activated the environment.
    done = run(shlex.split(hole["command"]), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout
    for cell in hole["cells"]:
        found = json.loads((holed.sweep.results / "cells" / f"{cell}.json").read_bytes())
        assert found["status"] == "ok"
    done = holed.sweep.run()
    assert done.returncode == 0, done.stdout
    assert json.loads((holed.sweep.results / "not_measured.json").read_text()) == []
    assert int((xr.open_dataset(holed.sweep.results / "dataset.nc").status == 1).sum()) == 6
