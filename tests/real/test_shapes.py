# SPDX-License-Identifier: Apache-2.0
"""Deployments of other shapes: clusters, paths with loss or a limited queue, the network alone, files on a disk."""

import subprocess
import time
from pathlib import Path

import pytest
from tpcsweep.configuration.testbeds import DISK
from tpcsweep.measure.files import ReceivedBytes
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import MIB, files, seconds, site_of, whole


def test_a_cluster_is_measured_through_either_endpoint_and_quotas_hold_on_both_sides(tmp_path: Path) -> None:
    with site_of(tmp_path, origins=3, rtt=0, cores=0.3) as site:
        for endpoint, pairs in {"redirector": 1, "direct": 3}.items():
            assert len(site.pairs(endpoint)) == pairs
            whole(site, files(1), endpoint=endpoint, streams=6, file_size=4 * MIB)
        found = whole(site, files(1), tool="curl", endpoint="direct", streams=9, file_size=32 * MIB)
    for side in ("source", "destination"):
        assert found["summary"][f"{side}_cpu"] < 0.3 * 1.15
    assert found["summary"]["destination_throttled"] > 0.2
    quotas = site.provenance["quotas"]
    assert quotas == {side: {"cores": 0.3, "period": 100.0} for side in ("src", "dst")}


def test_loss_is_seen_as_retransmissions(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=2, loss=0.01, bandwidth=0.2, mtu=1500) as site:
        found = whole(site, files(1), streams=2, file_size=16 * MIB)
        summary = found["summary"]
        sent = summary["wire_throughput"] * summary["duration"]  # Gbit
        assert 0.004 < summary["retransmits"] * 1500 * 8e-9 / sent < 0.03
        assert summary["path_drops"] > 0


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


def on_disk(site: NetnsSite) -> list[str]:
    return [name for name, side in site.sides.items() if Path(DISK) in side.files.resolve().parents]


def test_a_disk_at_both_ends(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=0, layer="disk_to_disk") as site:
        assert on_disk(site) == ["src", "dst"]
        for side in site.sides.values():
            flags = subprocess.check_output(["lsattr", "-d", str(side.files)], text=True)
            assert "S" in flags.split()[0]
        name = site.add_source(4 * MIB, "random", 2)
        sources = [site.sides["src"].files / name.format(stream=stream) for stream in (0, 1)]
        cached = ["fincore", "--noheadings", "--output", "PAGES", *map(str, sources)]
        assert subprocess.check_output(cached, text=True).split() == ["0", "0"]
        whole(site, files(2), tool="curl", streams=2, file_size=4 * MIB, source_content="random")


def test_a_disk_at_the_destination_alone(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=0, layer="memory_to_disk") as site:
        assert on_disk(site) == ["dst"]
        whole(site, files(2), tool="curl", streams=1, file_size=4 * MIB)
