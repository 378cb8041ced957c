# SPDX-License-Identifier: Apache-2.0
"""Tools against real servers: what they carry, where they run, what they say, and how they fail."""

import filecmp
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tpcsweep.client import ClientRun
from tpcsweep.linux.namespaces import call_in_namespace
from tpcsweep.testbeds.netns import state
from tpcsweep.testbeds.netns.servers import USER
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.tools import TOOLS, Credentials, Transfer, Worker
from tpcsweep.tools.base import READY, transfer_line
from tpcsweep.xrootd import credentials

from tests.support.sites import MIB, arrives, cell, files, left, seconds, site_of, whole
from tests.support.workflow import HANGS, finished, wait_until

# What XRootD says: 5.8 begins with `failure: ` whatever fails, and names the other side.
FAILURE = "(failure: )?"
REMOTE = r"Remote side( \[[0-9a-f.:]+\])?"
NO_REMOTE = f"{REMOTE} failed with status code 404"
NO_LOCAL = f"{FAILURE}Unable to open /data/no-such-file; no such file or directory"

WORKERS = [name for name, tool in TOOLS.items() if isinstance(tool, Worker)]
each = pytest.mark.parametrize("tool", WORKERS)


def deployed(site: NetnsSite) -> Credentials:
    return Credentials(state.STATE / site.prefix.removeprefix("tpc-") / "credentials")


def copied(
    site: NetnsSite, name: str, transfer: Transfer, home: Path, given: Credentials | None = None, **more: str
) -> str | None:
    """How one transfer ends, without the client's help; `more` is added to the tool's environment."""
    tool, given = TOOLS[name], given or deployed(site)
    environment = {**tool.environment(given, home), **more}

    def ended() -> str | None:
        if isinstance(tool, Worker):
            return worked(tool.worker(given), environment, transfer)
        try:
            tool.prepare(transfer, given, home)
        except RuntimeError as error:
            return str(error)
        done = finished(tool.command(transfer, given, home), env=environment)
        return tool.failure(done.returncode, done.stdout)

    return call_in_namespace(f"{site.prefix}-client", ended)


def worked(command: list[str], environment: dict[str, str], transfer: Transfer) -> str | None:
    """The same by a worker, which ends with its standard input."""
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert json.loads(worker.stdout.readline()) == READY
        worker.stdin.write(transfer_line(0, transfer))
        worker.stdin.flush()
        failure: str | None = json.loads(worker.stdout.readline())["failure"]
        worker.stdin.close()
        assert worker.wait(HANGS) == 0
    return failure


def between(site: NetnsSite, name: str = "", arrives: str = "arrived", copy_mode: str = "pull") -> Transfer:
    """A transfer of a file of that name, or of one that exists."""
    [(source, destination)] = site.pairs("redirector")
    name = name or site.add_source(MIB, "sparse", 1)
    return Transfer(f"{source}/{name}", f"{destination}/{arrives}", copy_mode)


@each
@pytest.mark.parametrize(("endpoint", "copy_mode"), [("redirector", "pull"), ("direct", "push")])
def test_what_arrives_is_what_was_sent(clusters: NetnsSite, tool: str, copy_mode: str, endpoint: str) -> None:
    name = clusters.add_source(3 * MIB + 1, "random", 4)
    run = {"tool": tool, "streams": 4, "pairs": clusters.pairs(endpoint), "file_name": name}
    client = clusters.clients["client"]
    client.run(ClientRun(**run, prefix="same", copy_mode=copy_mode, tcp_streams=1))
    events: list[dict[str, Any]] = []

    def enough() -> bool:
        events.extend(client.events())
        return len(events) >= 8 and {event["stream"] for event in events} == {0, 1, 2, 3}

    wait_until(enough, "each stream has brought a file, and some another")
    events += client.stop()
    assert [event["failure"] for event in events if event["failure"]] == []
    source, arrived = clusters.sides["src"].files / name, clusters.sides["dst"].files
    assert all(filecmp.cmp(source, arrived / event["name"], shallow=False) for event in events)
    clusters.settle()


@pytest.mark.parametrize("tool", ["gfal-copy", *WORKERS])
def test_connections_inside_a_transfer_are_what_was_asked_for(clusters: NetnsSite, tool: str) -> None:
    # Each connection asks for 16 MiB at a time.
    how = {"tool": tool, "endpoint": "direct", "streams": 1, "tcp_streams": 4}
    found = whole(clusters, files(1), **how, file_size=64 * MIB)
    assert 4 <= max(found["samples"]["connections"]) <= 5  # and one for the HEAD
    assert found["summary"]["client_cpu"] > 0
    assert "counters_disagree" not in found["flags"]


@pytest.mark.parametrize(
    ("tool", "copy_mode", "said"),
    [
        ("gfal-copy", "pull", r"exit code 2 \(no such file\)"),
        ("gfal-copy", "push", r"exit code 2 \(no such file\)"),
        ("gfal2", "pull", r"error 5 \(Input/output error\): TRANSFER ERROR: Copy failed \(3rd pull\)"),
        ("gfal2", "push", r"error 112 \(Host is down\): TRANSFER ERROR: Copy failed \(3rd push\)"),
        ("curl", "pull", f"exit code 0: failure: {NO_REMOTE}"),
        ("curl", "push", f"exit code 0: {NO_LOCAL}"),
        ("native", "pull", f"failure: {NO_REMOTE}"),
        ("native", "push", f"HTTP 400 (Unknown|Bad Request): {NO_LOCAL}"),
    ],
)
def test_a_missing_source(clusters: NetnsSite, tmp_path: Path, tool: str, copy_mode: str, said: str) -> None:
    transfer = between(clusters, "no-such-file", copy_mode=copy_mode)
    assert re.search(said, str(copied(clusters, tool, transfer, tmp_path)))
    clusters.settle()


DENIED = f"{FAILURE}Unable to create /data/taken; permission denied"


@pytest.mark.parametrize(
    ("tool", "copy_mode", "said"),
    [
        *(("gfal-copy", mode, r"exit code 17 \(destination exists\)") for mode in ("pull", "push")),
        *(("gfal2", mode, r"error 17 \(File exists\)") for mode in ("pull", "push")),
        # Their macaroons have no right to write over a file.
        ("curl", "pull", f"exit code 0: {DENIED}"),
        ("native", "pull", f"HTTP 40[13] .*: {DENIED}"),
        *((tool, "push", f"failure: {REMOTE} failed with status code 403") for tool in ("curl", "native")),
    ],
)
def test_a_destination_that_exists_is_kept(
    clusters: NetnsSite, tmp_path: Path, tool: str, copy_mode: str, said: str
) -> None:
    there = clusters.sides["dst"].files / "taken"
    there.write_bytes(b"precious")
    shutil.chown(there, USER)
    transfer = between(clusters, arrives="taken", copy_mode=copy_mode)
    assert re.search(said, str(copied(clusters, tool, transfer, tmp_path)))
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
def test_another_authority_is_refused(clusters: NetnsSite, tmp_path: Path, tool: str, said: str) -> None:
    other = tmp_path / "credentials"
    credentials.create_credentials(other, [], (os.getuid(), os.getgid()))
    assert re.search(said, str(copied(clusters, tool, between(clusters), tmp_path, Credentials(other))))


@pytest.mark.parametrize(
    ("tool", "said"),
    [("gfal-copy", "exit code 5 (input/output error)"), ("gfal2", "error 5 (Input/output error)")],
)
def test_a_bad_token_gets_the_tools_words(clusters: NetnsSite, tmp_path: Path, tool: str, said: str) -> None:
    failure = str(copied(clusters, tool, between(clusters), tmp_path, BEARER_TOKEN="garbage"))
    assert said in failure
    assert re.search("status code 403|HTTP 500", failure)  # gfal2 2.23 leaves the server's words out


@each
def test_nothing_runs_on_after_a_stop(clusters: NetnsSite, tool: str) -> None:
    name = clusters.add_source(512 * MIB, "sparse", 1)
    run = {"tool": tool, "streams": 3, "pairs": clusters.pairs("redirector"), "file_name": name}
    clusters.clients["client"].run(ClientRun(**run, prefix="stop", copy_mode="pull", tcp_streams=1))
    wait_until(lambda: clusters.read().connections >= 3, "all streams have a connection")
    ours = psutil.Process().children(recursive=True)  # tests beside this one have workers, too
    [worker] = [each for each in ours if "tpcsweep.tools import" in " ".join(each.cmdline())]
    assert [event for event in clusters.clients["client"].stop() if event["event"] == "end"] == []
    assert not worker.is_running()
    clusters.settle()
    time.sleep(0.5)
    assert not clusters.counters.unfinished()
    assert left(clusters) == []


def mode(tool: str) -> str:
    return TOOLS[tool].copy_modes[0]


@pytest.mark.parametrize(("tool", "connections"), [("xrdcp", 5), ("xrdcp-direct", 5), ("globus-url-copy", 4)])
def test_a_transfer_has_the_connections_asked_for(pair: NetnsSite, tool: str, connections: int) -> None:
    arrives(pair, tool, 4)
    how = {"tool": tool, "copy_mode": mode(tool), "streams": 1, "tcp_streams": 4}
    found = whole(pair, files(1), **how, file_size=32 * MIB)
    assert max(found["samples"]["connections"]) == connections  # with that for requests, where there is one


def test_clusters_speak_the_root_protocol_and_gridftp_too(clusters: NetnsSite) -> None:
    arrives(clusters, "xrdcp")
    arrives(clusters, "xrdcp", endpoint="direct")
    arrives(clusters, "globus-url-copy", endpoint="direct")


def test_the_systems_own_servers_make_copies_by_xrdcp(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["xrdcp"], bandwidth=0.2, xrootd="system") as site:
        arrives(site, "xrdcp")


@pytest.mark.parametrize("tool", ["davix-put", "davix-get", "xrdcp", "xrdcp-direct", "globus-url-copy"])
def test_a_cell_of_another_protocol_is_measured(pair: NetnsSite, tool: str) -> None:
    found = whole(pair, files(3), tool=tool, copy_mode=mode(tool), streams=2, file_size=4 * MIB)
    assert found["transfers"]["size"] == [4 * MIB] * 6
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
