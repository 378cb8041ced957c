# SPDX-License-Identifier: Apache-2.0
"""A kernel's recovery from single losses, on a short path. Needs root."""

from pathlib import Path

import pytest
from cases import Case
from measurement import measure
from tpcsweep.linux.signals import interruptible
from tpcsweep.paths import INTERFACE
from tpcsweep.tcp import recovery_time
from tpcsweep.testbeds.netns import state

from tests.support.leftovers import present, stayed


def test_reno_halves_its_window_and_takes_as_long_as_the_formula_says(tmp_path: Path) -> None:
    case = Case("short", "recovery", 0.1, 20, 60, repetitions=2)
    with interruptible(), state.exclusive("a test", print):
        before = present()
        found = measure(case, tmp_path)
        assert stayed(before) == {}
    assert found["made"] == "measured"
    assert found["provenance"]["path_measured"]["rtt"]["median"] == pytest.approx(20, rel=0.1)
    assert len(found["repetitions"]) == 2
    for one in found["repetitions"]:
        assert one["lowest"] == pytest.approx(one["before"] / 2, rel=0.15)
        # A machine that does something else makes round trips longer, never shorter.
        assert one["seconds"] > 0.8 * recovery_time(0.1, 20, 1500)
    assert f"-i {INTERFACE} -p tcp" in (tmp_path / "commands.log").read_text()
