# SPDX-License-Identifier: Apache-2.0
"""Tools against real servers: what they carry, where they run, what they say, and how they fail."""

import os
import re
import shutil
import time
from pathlib import Path

import psutil
import pytest
from tpcsweep.deploying.xrootd import credentials
from tpcsweep.deploying.xrootd.releases import FIRST_HTTP_CLIENT, version_number
from tpcsweep.measuring.client.client_process import ToolRefusedError
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Worker
from tpcsweep.testbeds.netns.namespace_servers import USER
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import (
    CLIENT_FOR_HTTP,
    MIB,
    arrives,
    cell,
    copied,
    files,
    left,
    seconds,
    site_of,
    streaming,
    whole,
)
from tests.support.workflow import wait_until

# What XRootD says: 5.8 begins with `failure: ` whatever fails, and names the other side.
FAILURE = "(failure: )?"
REMOTE = r"Remote side( \[[0-9a-f.:]+\])?"
NO_REMOTE = f"{REMOTE} failed with status code 404"
NO_LOCAL = f"{FAILURE}Unable to open /data/no-such-file; no such file or directory"

WORKERS = [name for name, tool in TOOLS.items() if isinstance(tool, Worker)]
each = pytest.mark.parametrize("tool", WORKERS)


needs_client = pytest.mark.skipif(not CLIENT_FOR_HTTP, reason="a sweep with the tool xrdcp-http builds it")
DENIED = f"{FAILURE}Unable to create /data/same.0.0; permission denied"


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("gfal-copy", r"exit code 17 \(destination exists\)"),
        ("gfal2", r"error 17 \(File exists\)"),
        # Their macaroons have no right to write over a file.
        ("curl", f"exit code 0: (HTTP 40[13]: )?{DENIED}"),
        ("native", f"HTTP 40[13] .*: {DENIED}"),
    ],
)
def test_a_destination_that_exists_is_kept(clusters: NetnsSite, tool: str, said: str) -> None:
    there = clusters.sides["dst"].files / "same.0.0"
    there.write_bytes(b"precious")
    shutil.chown(there, USER)
    _, ended = copied(clusters, tool)
    assert ended["name"] == there.name
    assert re.search(said, ended["failure"])
    assert there.read_bytes() == b"precious"
    clusters.settle()


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("gfal-copy", "certificate verification failed"),
        ("gfal2", "certificate verification failed"),
        ("curl", r"gave no macaroon: curl: \(60\)"),
        ("native", "certificate verify failed"),
    ],
)
def test_another_authority_is_refused(clusters: NetnsSite, tool: str, said: str) -> None:
    ours = clusters.servers.credentials
    kept, others = ours.with_name("kept"), ours.with_name("others")
    credentials.create_credentials(others, [], (os.getuid(), os.getgid()))
    ours.rename(kept)
    others.rename(ours)
    try:
        failure = copied(clusters, tool)[1]["failure"]
    except ToolRefusedError as error:
        failure = str(error)
    finally:
        shutil.rmtree(ours)
        kept.rename(ours)
    assert re.search(said, failure)


def connections(site: NetnsSite) -> float:
    """The open data connections of all sources."""
    sources = (target for name, target in site.counters.targets.items() if name.startswith("src"))
    return sum(source.read()["connections"] for source in sources)


@each
def test_nothing_runs_on_after_a_stop(clusters: NetnsSite, tool: str) -> None:
    client = streaming(clusters, tool, 3, "redirector")
    wait_until(lambda: connections(clusters) >= 3, "all streams have a connection")
    ours = psutil.Process().children(recursive=True)  # tests beside this one have workers, too
    [worker] = [each for each in ours if "tpcsweep.measuring.tools import" in " ".join(each.cmdline())]
    assert [event for event in client.stop() if event["event"] == "end"] == []
    assert not worker.is_running()
    clusters.settle()
    time.sleep(0.5)
    assert not clusters.counters.unfinished()
    assert left(clusters) == []


def mode(tool: str) -> str:
    return TOOLS[tool].copy_modes[0]


REQUESTS = {"xrdcp": 1, "xrdcp-direct": 1, "globus-url-copy": 0}
"""The connections for requests, in addition to those for data; by HTTP a HEAD may have one."""


@pytest.mark.parametrize(
    "tool", ["gfal-copy", pytest.param("xrdcp-http", marks=needs_client), *WORKERS, *REQUESTS]
)
def test_a_transfer_has_the_connections_asked_for(pair: NetnsSite, tool: str) -> None:
    arrives(pair, tool, 4)
    # Each connection asks for 16 MiB at a time.
    how = {"tool": tool, "copy_mode": mode(tool), "streams": 1, "tcp_streams": 4}
    found = whole(pair, files(1), **how, file_size=64 * MIB)
    least, most = (4 + REQUESTS.get(tool, few) for few in (0, 1))
    assert least <= max(found["samples"]["connections"]) <= most
    assert "counters_disagree" not in found["flags"]


def test_more_than_nine_copies_by_the_root_protocol_run_at_once(pair: NetnsSite) -> None:
    client = streaming(pair, "xrdcp", 12)
    wait_until(lambda: connections(pair) >= 12, "all streams have a connection")
    client.stop()
    pair.settle()


def test_the_systems_own_servers_make_copies_by_xrdcp(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["xrdcp"], bandwidth=0.2, xrootd="system") as site:
        arrives(site, "xrdcp")


@pytest.mark.parametrize("tool", ["davix-put", "xrdcp", "globus-url-copy"])
def test_a_cell_of_another_protocol_is_measured(pair: NetnsSite, tool: str) -> None:
    found = whole(pair, files(3), tool=tool, copy_mode=mode(tool), streams=2, file_size=4 * MIB)
    assert found["transfers"]["size"] == [4 * MIB] * 6
    assert found["summary"]["xrootd_share"] is None  # XRootD's monitoring is of third-party copies by HTTP
    assert "monitoring_disagrees" not in found["flags"]
    # A tool that moves the data itself is counted where it runs, one that asks others is counted apart.
    assert (found["summary"]["client_cpu"] > 0.001) == (TOOLS[tool].place == "client")


@needs_client
def test_the_client_is_newer_than_the_servers_and_recorded(pair: NetnsSite) -> None:
    for mode in ("pull", "push"):
        found = whole(pair, files(2), tool="xrdcp-http", copy_mode=mode, streams=2, file_size=4 * MIB)
        assert found["transfers"]["xrootd_direction"] == [mode] * 4
        assert found["summary"]["xrootd_share"] == 1
    software, servers = pair.provenance["software"], pair.provenance["xrootd"]
    assert version_number(software["xrdcp"]) >= FIRST_HTTP_CLIENT > version_number(servers["version"])


MISSING = {
    "gfal-copy": r"exit code 2 \(no such file\)",
    "gfal2": r"error 112 \(Host is down\): TRANSFER ERROR: Copy failed \(3rd push\)",
    "curl": rf"exit code 0: (HTTP \d+: )?failure: {NO_REMOTE}",
    "native": f"HTTP 400 (Unknown|Bad Request): {NO_LOCAL}",
}
"""What is said of a missing source by tools that ask the servers; others end with an exit code."""


@pytest.mark.parametrize(
    ("tool", "copy_mode"), [("gfal-copy", "pull"), ("gfal2", "push"), ("curl", "pull"), ("native", "push")]
)
def test_a_missing_source_fails_with_the_tools_words(pair: NetnsSite, tool: str, copy_mode: str) -> None:
    how = {"tool": tool, "copy_mode": copy_mode}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pair, "add_source", lambda *_: "no-such-file")
        found = cell(pair, files(1), **how, streams=2)
    assert found["status"] == "failed"
    assert re.search(MISSING[tool], found["message"])
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
    assert {"stderr.client.src1.log", "stderr.src1.log"} <= {path.name for path in tmp_path.iterdir()}
