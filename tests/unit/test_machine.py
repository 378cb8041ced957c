# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks is said once, with what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tpcsweep.testbeds.netns import machine
from tpcsweep.testbeds.netns.machine import MachineError

Machine = Callable[..., None]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Makes a machine of a root who lacks nothing but what is given."""
    (tmp_path / "tun").touch()

    def lacking(programs: str = "", refused: str = "", netem: bool = True, tun: str = "tun") -> None:
        monkeypatch.setattr("os.geteuid", lambda: 1000 if refused else 0)
        monkeypatch.setattr("os.access", lambda *_: False)  # root may open everything
        monkeypatch.setattr("shutil.which", lambda name: None if name in programs.split() else "/bin/x")
        monkeypatch.setattr(machine, "netem_works", lambda: netem)
        monkeypatch.setattr(machine, "TUN", tmp_path / tun)
        monkeypatch.setattr(machine.rootless, "refusal", lambda: refused)

    return lacking


@pytest.mark.parametrize(
    ("lacking", "told"),
    [
        (
            {"programs": "xrootd tc"},
            "xrootd, tc; as root run `make setup`, or apt-get install iproute2 xrootd-server",
        ),
        ({"refused": "sysctl -w this=1"}, "which takes root or user namespaces.*: sysctl -w this=1"),
        ({"netem": False, "tun": "none"}, "/none .* modprobe tun"),
        ({"netem": False}, r"tun .* may not be opened by this user: as root .*chmod 666"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(here: Machine, lacking: dict[str, str], told: str) -> None:
    here()
    machine.require()
    here(**lacking)
    with pytest.raises(MachineError, match=told):
        machine.require()


def test_the_programs_of_a_tool_are_asked_for_where_it_is_used(here: Machine) -> None:
    here("globus-url-copy globus-gridftp-server")
    machine.require(["curl"])
    with pytest.raises(MachineError, match=r"make setup EXTRAS=globus`$"):
        machine.require(["curl", "globus-url-copy"])
