# SPDX-License-Identifier: Apache-2.0
"""The real tc netem, in a user-mode-linux kernel: also tested where the running kernel has no sch_netem."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import uml

from tests.support.workflow import HANGS

INSIDE = Path(__file__).parent / "uml"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    script = (
        f"{sys.executable} {uml.MODULES} sch_netem sch_tbf veth && "
        f"{sys.executable} {INSIDE / 'netem.py'} || {{ cat /run/commands.log; exit 1; }}\n"
    )
    result: dict[str, Any] = json.loads(uml.run(script, tmp_path_factory.mktemp("uml"), HANGS))
    return result


def test_netem_is_chosen_where_the_kernel_has_it(found: dict[str, Any]) -> None:
    emulators = {name: found[name]["described"]["emulator"] for name in ("plain", "lossy", "none")}
    assert emulators == {"plain": "netem", "lossy": "netem", "none": "none"}


@pytest.mark.parametrize("path", ["plain", "lossy"])
def test_netem_makes_the_rtt_and_tbf_the_rate(found: dict[str, Any], path: str) -> None:
    measured = found[path]["measured"]
    assert measured["rtt"]["median"] == pytest.approx(20, abs=0.4)
    assert [measured["near_to_far"], measured["far_to_near"]] == pytest.approx([0.02, 0.02], rel=0.05)


def test_the_kernel_shows_the_explicit_limit_with_tbf_as_child(found: dict[str, Any]) -> None:
    described = found["plain"]["described"]
    for netem, tbf in described["qdiscs"].values():
        assert (netem["kind"], tbf["kind"], tbf["parent"]) == ("netem", "tbf", "1:1")
        assert netem["options"]["limit"] == described["netem_limit_packets"] != 1000
        assert netem["options"]["delay"]["delay"] == pytest.approx(0.010)
        assert tbf["options"]["rate"] == 2_500_000  # bytes per second


def test_netem_loses_the_asked_fraction_at_random(found: dict[str, Any]) -> None:
    lossy = found["lossy"]
    expected, deviation = 0.05 * lossy["sent"], (0.05 * 0.95 * lossy["sent"]) ** 0.5
    assert abs(lossy["lost"] - expected) < 5 * deviation
    assert lossy["segmenting"] == ["ethtool", "-K", "eth0", "tso", "off", "gso", "off"]
    assert (found["plain"]["lost"], found["plain"]["segmenting"]) == (0, [])


def test_a_limit_that_is_asked_for_caps_the_rate(found: dict[str, Any]) -> None:
    limited = found["limited"]
    assert limited["measured"]["rtt"]["median"] == pytest.approx(40, abs=0.8)
    assert [netem["options"]["limit"] for netem, _ in limited["described"]["qdiscs"].values()] == [20, 20]
    cap = limited["described"]["queue_cap_gbit_per_s"]["packets_of_the_mtu"]
    assert cap == pytest.approx(0.012)
    # What is offered comes in packets of the MTU; the kernel counts the Ethernet header too. How near it comes to
    # the cap is a matter of when its sender wakes up.
    assert 0 < limited["measured"]["near_to_far"] < 1.2 * cap
    assert limited["queue"] > 0
