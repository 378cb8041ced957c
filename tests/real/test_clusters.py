# SPDX-License-Identifier: Apache-2.0
"""Several origins and a redirector on each side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import MIB, files, site_of, whole

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def three_a_side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetnsSite]:
    """Three origins and a redirector on each side."""
    with site_of(tmp_path_factory.mktemp("clusters"), origins=3, rtt=0, cores=0.3) as site:
        yield site


@pytest.mark.parametrize("endpoint", ["redirector", "direct"])
def test_a_cluster_is_measured_through_either_endpoint(three_a_side: NetnsSite, endpoint: str) -> None:
    assert len(three_a_side.pairs(endpoint)) == (1 if endpoint == "redirector" else 3)
    whole(three_a_side, files(1), endpoint=endpoint, streams=6, file_size=4 * MIB)


def test_quotas_hold_on_both_sides(three_a_side: NetnsSite) -> None:
    found = whole(three_a_side, files(1), tool="curl", endpoint="direct", streams=9, file_size=64 * MIB)
    for side in ("source", "destination"):
        assert found["summary"][f"{side}_cpu"] < 0.3 * 1.15
    assert found["summary"]["destination_throttled"] > 0.2
    quotas = three_a_side.provenance["quotas"]
    assert quotas == {side: {"cores": 0.3, "period": 100.0} for side in ("src", "dst")}
