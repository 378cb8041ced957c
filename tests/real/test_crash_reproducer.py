# SPDX-License-Identifier: Apache-2.0
"""The reproducer of XRootD's crashes runs by itself, and says how each server ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.workflow import HANGS

SCRIPT = Path(__file__).parents[2] / "studies/crashes/reproduce.py"


@pytest.mark.parametrize("slow", ["cpu", "enable"])
def test_the_reproducer_says_how_the_server_ended(slow: str) -> None:
    ended = subprocess.run(
        [sys.executable, SCRIPT, "/usr", "--slow", slow, "--runs", "1", "--seconds", "2"],
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    run, summary = ended.stdout.splitlines()
    died = run.startswith("run 1: died by ")
    assert died or run.startswith("run 1: alive; ")
    assert summary == f"{int(died)} of 1 servers died"
    assert ended.returncode == int(died)
