# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks is said once, with what to do about it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tpcsweep.testbeds.netns import machine
from tpcsweep.testbeds.netns.machine import MachineError


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    which = shutil.which
    monkeypatch.setattr(
        "shutil.which", lambda name: None if name in ("xrootd", "tc") else which(name) or "/bin/x"
    )
    with pytest.raises(
        MachineError, match=r"xrootd, tc; as root run `make setup`, or apt-get install iproute2 xrootd-server"
    ):
        machine.require()


def test_the_programs_of_a_tool_are_asked_for_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None if "globus" in name else "/bin/x")
    monkeypatch.setattr(machine, "netem_works", lambda: True)
    machine.require(["curl"])
    with pytest.raises(MachineError, match=r"make setup EXTRAS=globus`$"):
        machine.require(["curl", "globus-url-copy"])


def test_without_netem_and_tun_it_says_which_module_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _: "/bin/x")
    monkeypatch.setattr(machine, "netem_works", lambda: False)
    monkeypatch.setattr(machine, "TUN", Path("/nowhere/tun"))
    with pytest.raises(MachineError, match=r"/nowhere/tun .* modprobe tun"):
        machine.require()
    monkeypatch.setattr(machine, "netem_works", lambda: True)
    machine.require()
