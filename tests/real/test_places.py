# SPDX-License-Identifier: Apache-2.0
"""Where tools run: beside clusters, and under the quota of the one origin of a side."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import MIB, arrives, seconds, site_of, whole

pytestmark = pytest.mark.real


def test_clusters_speak_the_root_protocol_too(clusters: NetnsSite) -> None:
    arrives(clusters, "xrdcp")
    arrives(clusters, "xrdcp", endpoint="direct")
    arrives(clusters, "globus-url-copy", endpoint="direct")


def test_a_tool_at_the_source_is_bound_by_the_quota_of_its_origin(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["davix-put"], cores=0.1, rtt=0) as site:
        found = whole(site, seconds(3), tool="davix-put", copy_mode="push", streams=2, file_size=16 * MIB)
    assert found["summary"]["source_throttled"] > 0.2
    assert found["summary"]["source_cpu"] < 0.15
