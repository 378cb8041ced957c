# SPDX-License-Identifier: Apache-2.0
"""Layers: nothing but the network, and files on a disk."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from tpcsweep.configuration.testbeds import DISK
from tpcsweep.measure.files import ReceivedBytes

from tests.support.sites import MIB, files, seconds, site_of, whole

pytestmark = pytest.mark.real


def test_the_network_alone(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["iperf3"], streams=3, rtt=5, bandwidth=0.2, layer="network") as site:
        for streams, tcp_streams in ((1, 1), (3, 2), (1, 1)):  # a server is free again after a test
            how = {"tool": "iperf3", "copy_mode": "push", "streams": streams, "tcp_streams": tcp_streams}
            found = whole(site, seconds(2), **how)
            assert "counters_disagree" not in found["flags"]
            assert found["summary"]["throughput"] > 0.9 * found["summary"]["wire_throughput"]
            assert max(found["samples"]["connections"]) == streams * (tcp_streams + 1)
            assert found["summary"]["transfers"] == 0  # it has neither ends nor files


def test_counters_agree_where_a_reading_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes the CPU away between one counter and the next."""
    arrived = ReceivedBytes.arrived

    def slowly(self: ReceivedBytes) -> int:
        time.sleep(0.05)
        return arrived(self)

    monkeypatch.setattr(ReceivedBytes, "arrived", slowly)
    with site_of(tmp_path, tools=["iperf3"], rtt=5, bandwidth=0.1, layer="network") as site:
        found = whole(site, seconds(2), tool="iperf3", copy_mode="push", streams=1)
    assert "counters_disagree" not in found["flags"]


def test_a_disk_at_both_ends(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=0, layer="disk_to_disk") as site:
        for side in site.sides.values():
            assert Path(DISK) in side.files.resolve().parents
            flags = subprocess.run(
                ["lsattr", "-d", str(side.files)], capture_output=True, text=True, check=True
            )
            assert "S" in flags.stdout.split()[0]
        name = site.add_source(4 * MIB, "random", 2)
        sources = [site.sides["src"].files / name.format(stream=stream) for stream in (0, 1)]
        cached = ["fincore", "--noheadings", "--output", "PAGES", *map(str, sources)]
        assert subprocess.run(cached, capture_output=True, text=True, check=True).stdout.split() == ["0", "0"]
        whole(site, files(2), tool="curl", streams=2, file_size=4 * MIB, source_content="random")


def test_a_disk_at_the_destination_alone(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=0, layer="memory_to_disk") as site:
        disk = {name: Path(DISK) in side.files.resolve().parents for name, side in site.sides.items()}
        assert disk == {"src": False, "dst": True}
        whole(site, files(2), tool="curl", streams=1, file_size=4 * MIB)
