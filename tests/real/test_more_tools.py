"""Tools beside those that ask for HTTP third-party copies: what they carry, where they run, what they say."""

from __future__ import annotations

import filecmp
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpcsweep.testbeds.netns.site import Site
from tpcsweep.tools import TOOLS

from tests.real.sites import LONGER, MIB, cell, site_of

pytestmark = pytest.mark.real

TOOLS_OF_FILES = ["davix-put", "davix-get", "xrdcp", "xrdcp-direct", "globus-url-copy"]


def mode(tool: str) -> str:
    return TOOLS[tool].copy_modes[0]


def arrives(site: Site, tool: str, tcp_streams: int = 1, endpoint: str = "redirector") -> None:
    """Copy a file of random bytes and compare."""
    name = site.add_source(3 * MIB + 1, "random", 1)
    client = site.client_of(tool)
    run = {"tool": tool, "streams": 1, "pairs": site.pairs(endpoint), "file_name": name, "prefix": "same"}
    client.run(**run, copy_mode=mode(tool), tcp_streams=tcp_streams, folders=site.folders)
    events = []
    give_up = time.monotonic() + 20
    while not events and time.monotonic() < give_up:
        events = client.events()
        time.sleep(0.02)
    client.stop()
    assert events[0]["failure"] is None
    files = (
        Path(folder) / file for folder, file in zip(site.folders, (name, events[0]["name"]), strict=True)
    )
    assert filecmp.cmp(*files, shallow=False)
    site.settle()
    assert list(site.sides["dst"].files.iterdir()) == []


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One origin on each side, with the servers of all tools."""
    folder = tmp_path_factory.mktemp("pair")
    with site_of(folder, tools=TOOLS_OF_FILES, rtt=2, bandwidth=1, tcp_buffer=8 * MIB) as site:
        yield site


@pytest.mark.parametrize("tool", TOOLS_OF_FILES)
def test_what_arrives_is_what_was_sent(pair: Site, tool: str) -> None:
    arrives(pair, tool)


@pytest.mark.parametrize("tool", ["xrdcp", "xrdcp-direct", "globus-url-copy"])
def test_what_arrives_over_several_connections_is_what_was_sent(pair: Site, tool: str) -> None:
    arrives(pair, tool, tcp_streams=4)


@pytest.mark.parametrize("tool", TOOLS_OF_FILES)
def test_a_cell_is_measured(pair: Site, tool: str) -> None:
    found = cell(pair, LONGER, tool=tool, copy_mode=mode(tool), streams=2, file_size=64 * MIB)
    assert found["status"] == "ok"
    assert 0.05 < found["summary"]["throughput"] < 1.0
    assert found["summary"]["transfers"] > 0
    # A tool that moves the data itself is counted where it runs, one that asks others is counted apart.
    assert (found["summary"]["client_cpu"] > 0.001) == (TOOLS[tool].place == "client")


@pytest.mark.parametrize(("tool", "connections"), [("xrdcp", 5), ("xrdcp-direct", 5), ("globus-url-copy", 4)])
def test_connections_inside_a_transfer_are_what_was_asked_for(
    pair: Site, tool: str, connections: int
) -> None:
    found = cell(pair, tool=tool, copy_mode=mode(tool), streams=1, tcp_streams=4, file_size=512 * MIB)
    assert max(found["samples"]["connections"]) == connections  # with that for requests, where there is one


@pytest.mark.parametrize("tool", TOOLS_OF_FILES)
def test_a_missing_source_is_a_failed_cell_with_the_tools_words(
    pair: Site, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair, "add_source", lambda *_: "no-such-file")
    found = cell(pair, LONGER, tool=tool, copy_mode=mode(tool), streams=1)
    assert found["status"] == "failed"
    assert "exit code" in found["message"]
    assert "no message" not in found["message"]


def test_clusters_speak_the_root_protocol_too(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["xrdcp", "globus-url-copy"], origins=2, rtt=0) as site:
        arrives(site, "xrdcp")
        arrives(site, "xrdcp", endpoint="direct")
        arrives(site, "globus-url-copy", endpoint="direct")


def test_a_tool_at_the_source_is_bound_by_the_quota_of_its_origin(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["davix-put"], cores=0.1, rtt=0) as site:
        found = cell(site, LONGER, tool="davix-put", copy_mode="push", streams=2, file_size=16 * MIB)
    assert found["status"] == "ok"
    assert found["summary"]["source_throttled"] > 0.2
    assert found["summary"]["source_cpu"] < 0.15
