# SPDX-License-Identifier: Apache-2.0
"""Tools beside those that ask for HTTP third-party copies: what they carry, where they run, what they say."""

import re
from pathlib import Path

import pytest
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.tools import TOOLS, Worker

from tests.support.sites import MIB, ROUGH, arrives, cell, files, seconds, site_of, whole


def mode(tool: str) -> str:
    return TOOLS[tool].copy_modes[0]


@pytest.mark.parametrize(("tool", "connections"), [("xrdcp", 5), ("xrdcp-direct", 5), ("globus-url-copy", 4)])
def test_a_transfer_has_the_connections_asked_for(pair: NetnsSite, tool: str, connections: int) -> None:
    arrives(pair, tool, 4)
    how = {"tool": tool, "copy_mode": mode(tool), "streams": 1, "tcp_streams": 4}
    found = whole(pair, ROUGH, **how, file_size=512 * MIB)
    assert max(found["samples"]["connections"]) == connections  # with that for requests, where there is one


def test_clusters_speak_the_root_protocol_and_gridftp_too(clusters: NetnsSite) -> None:
    arrives(clusters, "xrdcp")
    arrives(clusters, "xrdcp", endpoint="direct")
    arrives(clusters, "globus-url-copy", endpoint="direct")


def test_the_systems_own_servers_make_copies_by_xrdcp(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["xrdcp"], bandwidth=0.2, xrootd="system") as site:
        arrives(site, "xrdcp")


@pytest.mark.parametrize("tool", ["davix-put", "davix-get", "xrdcp", "xrdcp-direct", "globus-url-copy"])
def test_a_cell_is_measured(pair: NetnsSite, tool: str) -> None:
    found = whole(pair, ROUGH, tool=tool, copy_mode=mode(tool), streams=2, file_size=2 * MIB)
    assert found["summary"]["transfers"] > 0
    assert found["transfers"]["size"] == [2 * MIB] * found["summary"]["transfers"]
    assert found["summary"]["xrootd_share"] is None  # XRootD's monitoring is of third-party copies by HTTP
    assert "monitoring_disagrees" not in found["flags"]
    # A tool that moves the data itself is counted where it runs, one that asks others is counted apart.
    assert (found["summary"]["client_cpu"] > 0.001) == (TOOLS[tool].place == "client")


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.items() if "memory_to_memory" in tool.layers])
def test_a_missing_source_is_a_failed_cell_with_the_tools_words(pair: NetnsSite, tool: str) -> None:
    how = {"tool": tool, "copy_mode": mode(tool)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pair, "add_source", lambda *_: "no-such-file")
        found = cell(pair, files(1), **how, streams=2)
    assert found["status"] == "failed"
    assert re.search("exit code|Copy failed|code 404", found["message"])
    assert "no message" not in found["message"]
    assert found["summary"]["transfers_failed"] == 6  # two streams, three tries each
    assert "transfers_failed" in found["flags"]
    if isinstance(TOOLS[tool], Worker):  # its next cell goes well
        whole(pair, files(1), **how, streams=1, file_size=MIB)


def test_a_tool_at_the_source_is_bound_by_the_quota_of_its_origin(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["davix-put"], cores=0.1, rtt=0) as site:
        found = whole(site, seconds(3), tool="davix-put", copy_mode="push", streams=2, file_size=16 * MIB)
    assert found["summary"]["source_throttled"] > 0.2
    assert found["summary"]["source_cpu"] < 0.15
