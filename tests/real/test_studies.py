# SPDX-License-Identifier: Apache-2.0
"""Studies on real kernels and servers: the reproducer of crashes, and recovery from single losses."""

import sys
from pathlib import Path

import pytest
from cases import Case
from measurement import measure
from tpcsweep.common.signals import interruptible
from tpcsweep.deploying.paths.network_path import INTERFACE
from tpcsweep.measuring.tcp import recovery_time
from tpcsweep.testbeds.netns import ownership

from tests.support.leftovers import present, stayed
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


def test_reno_halves_its_window_and_takes_as_long_as_the_formula_says(tmp_path: Path) -> None:
    case = Case("short", "recovery", 0.1, 20, 60, repetitions=2)
    for attempt in range(
        3
    ):  # a full machine loses further packets, so that a window falls lower or does not recover
        folder = tmp_path / f"{attempt}"
        folder.mkdir()
        with interruptible(), ownership.exclusive("a test", print):
            before = present()
            found = measure(case, folder)
            assert stayed(before) == {}
        if all(one["lowest"] > one["before"] / 3 and one["seconds"] for one in found["repetitions"]):
            break
    assert found["made"] == "measured"
    assert found["provenance"]["path_measured"]["rtt"]["median"] == pytest.approx(20, rel=0.1)
    assert len(found["repetitions"]) == 2
    for one in found["repetitions"]:
        assert one["lowest"] == pytest.approx(one["before"] / 2, rel=0.15)
        # A machine that does something else makes round trips longer, never shorter.
        assert one["seconds"] > 0.8 * recovery_time(0.1, 20, 1500)
    assert f"-i {INTERFACE} -p tcp" in (folder / "commands.log").read_text()
