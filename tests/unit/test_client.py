# SPDX-License-Identifier: Apache-2.0
"""The client's side of a cell, with tools that only sleep or fail: programs, and a worker."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tpcsweep.common.installation import PACKAGE
from tpcsweep.measuring.client.client_process import (
    Client,
    ClientError,
    ClientRun,
    Event,
    ToolRefusedError,
    process_client,
)

from tests.support.workflow import background, gone, wait_until

DRIVER = """
import asyncio, sys
from pathlib import Path
from typing import Any
from tpcsweep.measuring.client import __main__ as client
from tpcsweep.measuring.tools.tool import Worker
from tpcsweep.measuring.tools.gfal import GfalCopy

class Runs(GfalCopy):
    def __init__(self, *command):
        self.argv = command
    def command(self, transfer, credentials, folder):
        return [word.replace("MODE", transfer.copy_mode) for word in self.argv]
    def environment(self, credentials, folder):
        return {"PATH": "/usr/bin:/bin"}

class Refuses(Runs):
    def prepare(self, transfer, credentials, folder):
        raise RuntimeError("no token to be had")

class Works(Worker):
    name = "works"
    def __init__(self, code):
        self.code = code
    def environment(self, credentials, folder):
        return {"PATH": "/usr/bin:/bin", "PYTHONPATH": sys.argv[1]}
    def worker(self, credentials):
        return [sys.executable, "-c", self.code]
    def versions(self):
        return {}

marks = "; sleep 0.2; ".join(f"echo Stripe Bytes Transferred: {size}" for size in (0, 5, 9))
client.PAUSE = 0.01
client.TOOLS.update(sleeps=Runs("sleep", "MODE"), refuses=Refuses(), missing=Runs("/no/such/program"))
client.TOOLS.update(marks=Runs("sh", "-c", marks))
client.TOOLS.update(works=Works(sys.argv[2]), broken=Works("raise SystemExit('no such library')"))
asyncio.run(client.serve(Path("/"), Path(sys.argv[3])))
"""

WORKER = """
import os, sys, threading, time
from tpcsweep.measuring.tools.tool import Answers, parse_transfer

answers = Answers()
print("a library's noise", flush=True)
def copy(number, transfer):
    if transfer.copy_mode == "die":
        os._exit(7)
    if transfer.copy_mode == "mark":
        for size in (5, 9):
            answers.marker(number, size)
    time.sleep(0 if transfer.copy_mode in ("fail", "mark") else float(transfer.copy_mode))
    answers.report_end(number, "the server said no" if transfer.copy_mode == "fail" else None)
answers.ready()
for line in sys.stdin.buffer:
    threading.Thread(target=copy, args=parse_transfer(line), daemon=True).start()
os._exit(0)
"""
"""Copies by sleeping for as many seconds as the copy mode says; `fail`, `die` and `mark` are other ways to end."""
Started = subprocess.Popen[bytes]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Started]:
    command = [sys.executable, "-c", DRIVER, str(PACKAGE.parent), WORKER, str(tmp_path)]
    with background(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        yield started


def run(client: Client | Started, tool: str, streams: int, copy_mode: str, **more: Any) -> Client:
    client = client if isinstance(client, Client) else process_client(client)
    given = {"pairs": [("https://s", "https://d")], "file_name": "f", "prefix": "p", "tcp_streams": 1, **more}
    client.run(ClientRun(tool=tool, streams=streams, copy_mode=copy_mode, **given))
    return client


def tools(process: Started) -> list[psutil.Process]:
    """The client's children that run: tools, or one worker."""
    children = psutil.Process(process.pid).children()
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]


def gather(client: Client, count: int) -> list[Event]:
    events: list[Event] = []

    def enough() -> bool:
        events.extend(client.events())
        return len(events) >= count

    wait_until(enough, f"{count} events")
    return events


@pytest.mark.parametrize("tool", ["sleeps", "works"])
def test_each_stream_starts_its_next_transfer_as_it_ends_one(process: Started, tool: str) -> None:
    client = run(process, tool, 3, "0.1")
    events = gather(client, 9)
    client.stop()
    for stream in range(3):
        mine = [event for event in events if event["stream"] == stream]
        assert [event["number"] for event in mine] == list(range(len(mine)))
        between = [b["start"] - a["end"] for a, b in itertools.pairwise(mine)]
        # A wait of the client's own would be between any two; a busy machine delays one or the other.
        assert 0 <= min(between) < 0.09
        assert all(event["failure"] is None for event in mine)
    assert len({event["name"] for event in events}) == len(events)


@pytest.mark.parametrize(
    ("tool", "connections", "sizes"), [("marks", 1, [5, 9]), ("works", 1, [5, 9]), ("works", 2, [])]
)
def test_markers_tell_the_bytes_of_transfers_by_one_connection(
    process: Started, tool: str, connections: int, sizes: list[int]
) -> None:
    markers: list[Event] = []
    client = process_client(process, markers.append)
    run(client, tool, 1, "mark", tcp_streams=connections, files=1)
    ended = gather(client, 1)[0]
    assert [marker["bytes"] for marker in markers] == sizes
    for marker in markers:
        assert (marker["stream"], marker["name"], marker["start"]) == (0, ended["name"], ended["start"])
        assert ended["start"] <= marker["time"] <= ended["end"]
    client.stop()


@pytest.mark.parametrize(("tool", "processes"), [("sleeps", 4), ("works", 1)])
def test_stopping_ends_tools_and_a_client_can_run_again(process: Started, tool: str, processes: int) -> None:
    client = run(process, tool, 4, "60")
    wait_until(lambda: len(tools(process)) == processes, "the tools run")
    assert client.stop() == []  # transfers that were cut short are neither successes nor failures
    assert tools(process) == []
    run(client, tool, 1, "0.01", prefix="q")
    assert gather(client, 1)[0]["name"] == "q.0.0"


@pytest.mark.parametrize(
    ("tool", "mode", "files", "said"),
    [
        ("sleeps", "nonsense", 1, "invalid time interval"),
        ("missing", "0", None, "/no/such/program cannot be started: No such file or directory"),
        ("works", "fail", None, "the server said no"),
        ("works", "die", None, "works ended with exit code 7: a library's noise"),
    ],
)
def test_a_stream_that_only_fails_ends(process: Started, tool: str, mode: str, files: Any, said: str) -> None:
    events = gather(run(process, tool, 2, mode, files=files), 7)
    assert [event["event"] for event in events].count("end") == 6
    assert said in events[0]["failure"]
    assert events[-1] == {"event": "exhausted"}


def test_streams_that_have_their_files_end_and_the_last_one_says_so(process: Started) -> None:
    client = run(process, "sleeps", 2, "0.05", files=3)
    events = gather(client, 7)
    assert [event["number"] for event in events[:-1] if event["stream"] == 1] == [0, 1, 2]
    assert events[6:] == [{"event": "finished"}]
    assert client.stop() == []


def test_a_tool_that_cannot_begin_is_refused_with_its_words(process: Started) -> None:
    client = process_client(process)
    with pytest.raises(ToolRefusedError, match="no token to be had"):
        run(client, "refuses", 1, "0")
    with pytest.raises(ToolRefusedError, match="works ended with exit code 1: no such library"):
        run(client, "broken", 1, "0")


@pytest.mark.parametrize(
    ("tool", "processes", "killed"), [("sleeps", 2, False), ("works", 1, False), ("works", 1, True)]
)
def test_tools_end_with_the_clients_parent(process: Started, tool: str, processes: int, killed: bool) -> None:
    run(process, tool, 2, "60")
    wait_until(lambda: len(tools(process)) == processes, "the tools run")
    running = tools(process)
    (process.kill if killed else process.stdin.close)()
    assert process.wait(timeout=60) == (-9 if killed else 0)
    wait_until(lambda: all(gone(tool.pid) for tool in running), "the tools have ended")


def test_a_client_that_dies_is_noticed(process: Started) -> None:
    client = run(process, "sleeps", 1, "60")
    process.kill()
    process.wait()
    with pytest.raises(ClientError, match="exit code -9"):
        wait_until(client.events, "it is noticed")
