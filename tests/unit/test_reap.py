# SPDX-License-Identifier: Apache-2.0
"""Reaping without the rights that it takes."""

from __future__ import annotations

import pytest
from tpcsweep.configuration.testbeds import Netns
from tpcsweep.testbeds.netns import testbed


def test_another_user_is_told_who_can_reap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(testbed.machine.MachineError, match="run `tpcsweep reap` as root"):
        testbed.reap(Netns(kind="netns"))
