# SPDX-License-Identifier: Apache-2.0
"""A limited queue under real transfers: what netem's default limit does to a long path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tpcsweep.paths import netem_works

from tests.support.sites import MIB, seconds, site_of, whole

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

PATH = {"rtt": 60.0, "bandwidth": 0.2, "mtu": 1500, "file_size": 8 * MIB, "streams": 8, "tool": "curl"}
LIMIT = 40


def test_a_queue_limit_caps_transfers_at_its_packets_in_a_one_way_delay(tmp_path: Path) -> None:
    if netem_works():
        pytest.skip("packets are counted by the delay line here")
    with site_of(tmp_path, **PATH, queue_limit=LIMIT) as site:
        assert site.link.line is not None
        before, _ = site.link.line.statistics()
        limited = whole(site, seconds(4), **PATH, queue_limit=LIMIT)
        after, _ = site.link.line.statistics()
        path = site.provenance["path"]
    packet = (after.bytes - before.bytes) / (after.packets - before.packets)
    cap = LIMIT * packet * 8e-9 / (PATH["rtt"] / 2e3)
    small, large = path["queue_cap_gbit_per_s"].values()
    assert small <= cap <= large
    # A mean of a few seconds; TCP does not fill a path that loses what is above its cap.
    assert 0 < limited["summary"]["throughput"] < 1.2 * cap
    assert limited["summary"]["path_drops"] > 0

    with site_of(tmp_path, **PATH) as site:
        assert "queue_limit_packets" not in site.provenance["path"]
        for time in (4, 16, 64):  # a machine with much else to do takes long to fill it
            sized = whole(site, seconds(time), **PATH)
            if sized["summary"]["throughput"] > 2 * limited["summary"]["throughput"]:
                break
    assert sized["summary"]["throughput"] > 2 * limited["summary"]["throughput"]
