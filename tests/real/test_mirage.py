# SPDX-License-Identifier: Apache-2.0
"""Files whose content servers invent and discard."""

from pathlib import Path

import pytest
from tpcsweep.deploying.xrootd.releases import HTTP_CLIENT

from tests.support.sites import CLIENT_FOR_HTTP, MIB, cell, files, site_of

pytestmark = pytest.mark.skipif(not CLIENT_FOR_HTTP, reason="a sweep with the tool xrdcp-http builds it")


@pytest.mark.parametrize("copy_mode", ["pull", "push"])
def test_files_without_content_are_copied_and_counted(tmp_path: Path, copy_mode: str) -> None:
    how = {"tool": "native", "copy_mode": copy_mode, "streams": 2, "file_size": 32 * MIB}
    with site_of(tmp_path, rtt=2, bandwidth=0.2, layer="mirage", xrootd=HTTP_CLIENT) as site:
        found = cell(site, files(2), **how, layer="mirage", xrootd=HTTP_CLIENT)
        assert not [*site.sides["src"].files.glob("mirage*")]
    figures, sizes = found["summary"], found["transfers"]["xrootd_size"]
    assert (found["status"], figures["transfers"], figures["transfers_failed"]) == ("ok", 4, 0)
    assert sizes == [32 * MIB] * 4
    # TLS records count; bytes between the last look at a connection and its end do not.
    arrived = figures["throughput_average"] * figures["duration"] / 8e-9
    assert 0.9 * sum(sizes) < arrived < 1.02 * sum(sizes)
    assert "counters_disagree" not in found["flags"]
