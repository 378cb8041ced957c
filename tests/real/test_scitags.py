# SPDX-License-Identifier: Apache-2.0
"""Flows that servers announce with the SciTag of their transfers."""

from pathlib import Path

import pytest
from tpcsweep.measuring.client import client_process

from tests.support.sites import MIB, files, site_of, whole


def test_packets_of_servers_carry_the_tag_of_the_transfers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site_of(tmp_path, rtt=2, bandwidth=0.2, scitag=66) as site:
        for tool, copy_mode in (("curl", "pull"), ("native", "push")):
            how = {"tool": tool, "copy_mode": copy_mode, "streams": 2, "file_size": 2 * MIB, "scitag": 66}
            assert whole(site, files(3), **how)["summary"]["tagged_share"] == 1
        # Transfers that do not carry the tag of their cell.
        real = client_process.asdict
        monkeypatch.setattr(client_process, "asdict", lambda run: {**real(run), "scitag": 130})
        assert whole(site, files(3), **how)["summary"]["tagged_share"] == 0
