# SPDX-License-Identifier: Apache-2.0
"""The reproducer of XRootD's crashes runs by itself, and says how each server ended."""

import sys

import pytest

from tests.support.workflow import ROOT, finished

SCRIPT = ROOT / "studies/crashes/reproduce.py"


@pytest.mark.parametrize("slow", ["cpu", "enable"])
def test_the_reproducer_says_how_the_server_ended(slow: str) -> None:
    ended = finished([sys.executable, str(SCRIPT), "/usr", "--slow", slow, "--runs", "1", "--seconds", "2"])
    run, summary = ended.stdout.splitlines()
    died = run.startswith("run 1: died by ")
    assert died or run.startswith("run 1: alive; ")
    assert summary == f"{int(died)} of 1 servers died"
    assert ended.returncode == int(died)
