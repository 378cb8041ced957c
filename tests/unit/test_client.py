"""The client's side of a cell, with tools that only sleep or fail."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest
from tpcsweep.testbeds.clients import Client, ClientError, Event, of_process

DRIVER = """
import asyncio, sys
from pathlib import Path
from tpcsweep import client
from tpcsweep.tools import Credentials
from tpcsweep.tools.gfal_copy import GfalCopy

class Sleeps(GfalCopy):
    def command(self, transfer, credentials, folder):
        return ["sleep", transfer.copy_mode]
    def environment(self, credentials, folder):
        return {"PATH": "/usr/bin:/bin"}

class Refuses(Sleeps):
    def prepare(self, transfer, credentials, folder):
        raise RuntimeError("no token to be had")

class Missing(Sleeps):
    def command(self, transfer, credentials, folder):
        return ["/no/such/program"]

client.PAUSE = 0.01
client.TOOLS.update(sleeps=Sleeps(), refuses=Refuses(), missing=Missing())
asyncio.run(client.serve(Credentials(Path("/")), Path("/")))
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        yield started
        started.kill()


def run(
    process: subprocess.Popen[bytes], tool: str, streams: int, copy_mode: str, files: int | None = None
) -> Client:
    client = of_process(process)
    common = {"file_name": "f", "prefix": "p", "copy_mode": copy_mode, "tcp_streams": 1, "files": files}
    client.run(tool=tool, streams=streams, pairs=[("https://s", "https://d")], **common)
    return client


def sleeping(process: subprocess.Popen[bytes]) -> int:
    children = psutil.Process(process.pid).children()
    return sum(child.name() == "sleep" for child in children if child.status() != psutil.STATUS_ZOMBIE)


def gather(client: Client, count: int) -> list[Event]:
    events: list[Event] = []
    give_up = time.monotonic() + 10
    while len(events) < count and time.monotonic() < give_up:
        events += client.events()
        time.sleep(0.01)
    return events


def test_each_stream_starts_its_next_transfer_as_it_ends_one(process: subprocess.Popen[bytes]) -> None:
    client = run(process, "sleeps", 3, "0.1")
    events = gather(client, 9)
    client.stop()
    for stream in range(3):
        mine = [event for event in events if event["stream"] == stream]
        assert [event["number"] for event in mine] == list(range(len(mine)))
        assert all(b["start"] - a["end"] < 0.09 for a, b in itertools.pairwise(mine))
        assert all(event["failure"] is None for event in mine)
    assert len({event["name"] for event in events}) == len(events)


def test_stopping_ends_every_tool_and_the_client_can_run_again(process: subprocess.Popen[bytes]) -> None:
    client = run(process, "sleeps", 4, "60")
    time.sleep(0.2)
    assert sleeping(process) == 4
    assert client.stop() == []  # transfers that were cut short are neither successes nor failures
    assert sleeping(process) == 0
    client.run(
        tool="sleeps",
        streams=1,
        pairs=[("s", "d")],
        file_name="f",
        prefix="q",
        copy_mode="0.01",
        tcp_streams=1,
    )
    assert gather(client, 1)[0]["name"] == "q.0.0"


def test_a_stream_that_keeps_failing_gives_up(process: subprocess.Popen[bytes]) -> None:
    client = run(process, "sleeps", 2, "nonsense")
    events = gather(client, 7)
    assert [event["event"] for event in events].count("end") == 6
    assert "invalid time interval" in events[0]["failure"]
    assert events[-1] == {"event": "exhausted"}


def test_streams_that_have_their_files_end_and_the_last_one_says_so(process: subprocess.Popen[bytes]) -> None:
    client = run(process, "sleeps", 2, "0.05", files=3)
    events = gather(client, 7)
    assert [(event["stream"], event["number"]) for event in events[:-1] if event["stream"] == 1] == [
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert events[-1] == {"event": "finished"}
    assert len(events) == 7
    assert client.stop() == []


def test_streams_that_fail_give_up_though_files_were_asked_for(process: subprocess.Popen[bytes]) -> None:
    assert gather(run(process, "sleeps", 1, "nonsense", files=1), 4)[-1] == {"event": "exhausted"}


def test_a_program_that_is_missing_is_a_failure_with_its_name(process: subprocess.Popen[bytes]) -> None:
    events = gather(run(process, "missing", 1, "0"), 4)
    assert events[0]["failure"] == "/no/such/program cannot be started: No such file or directory"


def test_a_tool_that_cannot_begin_is_refused_with_its_words(process: subprocess.Popen[bytes]) -> None:
    with pytest.raises(ClientError, match="no token to be had"):
        run(process, "refuses", 1, "0")


def test_the_client_and_its_tools_end_with_whoever_started_it(process: subprocess.Popen[bytes]) -> None:
    run(process, "sleeps", 2, "60")
    time.sleep(0.2)
    tools = psutil.Process(process.pid).children()
    assert process.stdin
    process.stdin.close()
    assert process.wait(timeout=5) == 0
    assert not any(tool.is_running() and tool.status() != psutil.STATUS_ZOMBIE for tool in tools)


def test_a_client_that_dies_is_noticed(process: subprocess.Popen[bytes]) -> None:
    client = run(process, "sleeps", 1, "60")
    process.kill()
    process.wait()
    time.sleep(0.2)
    with pytest.raises(ClientError, match="exit code -9"):
        client.events()
