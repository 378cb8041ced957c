# SPDX-License-Identifier: Apache-2.0
"""What an agent sees of the container next to it and of the path that it emulates."""

import asyncio
import inspect
import json
import math
import socket
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from tpcsweep.deploying.paths import network_path
from tpcsweep.testbeds.kubernetes.pod import (
    messages,
    network,
    receive,
    watched,
)


def test_a_server_whose_sockets_the_node_hides_may_be_busy() -> None:
    hidden = mock.Mock(side_effect=PermissionError)
    container = mock.Mock(programs=lambda _: mock.Mock(tcp_sockets=hidden))
    assert watched.OriginPod(container, "source", 1, (), ()).busy()


def test_a_pods_files_come_whole_and_once(tmp_path: Path) -> None:
    """A job that has not heard the answer repeats its request."""
    private = tmp_path / "private"
    for text in ("first", "second"):
        files = json.dumps({"host.key": text, "ca/1.0": "an authority"}) + "\n"
        done = subprocess.run(
            [sys.executable, "-Ic", inspect.getsource(receive), private],
            input=files,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "received"
    assert (private / "host.key").read_text() == "first"
    assert (private / "ca/1.0").read_text() == "an authority"
    assert {path.stat().st_mode & 0o777 for path in private.rglob("*") if path.is_file()} == {0o400}
    assert private.stat().st_mode & 0o777 == 0o700


def test_an_agent_answers_each_request_and_tells_when_its_other_end_is_gone() -> None:
    """Unexpected errors and requests under way when the connection ends are answered too."""

    async def converse() -> list[str]:
        ours, theirs = [await asyncio.open_unix_connection(sock=end) for end in socket.socketpair()]
        events: list[str] = []
        channel = messages.Channel("src1", *ours, lambda **fields: events.append(json.dumps(fields)))
        hung = asyncio.Event()
        verbs = {"fail": mock.Mock(side_effect=ZeroDivisionError("by nought")), "hang": hung.wait}
        serving = asyncio.create_task(messages.serve_requests(verbs, *theirs))
        theirs[1].write(messages.encoded(sample=[1.5]))
        for verb, words in (("fail", "by nought"), ("no_such", "no_such: 'no_such'")):
            with pytest.raises(RuntimeError, match=f"^src1: {words}$"):
                await channel.ask(verb)
        hanging = asyncio.create_task(channel.ask("hang"))
        await asyncio.sleep(0.05)
        theirs[1].close()
        for asked in (hanging, channel.ask("hang")):
            with pytest.raises(RuntimeError, match=r"^src1: it is gone$"):
                await asyncio.wait_for(asked, 60)
        ours[1].close()
        await asyncio.wait_for(serving, 60)
        return events

    assert asyncio.run(converse()) == ['{"sample": [1.5]}', '{"gone": "src1"}']


def test_drops_of_a_full_queue_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without random loss all drops count as those of a full queue; a real network reports none."""
    assert all(map(math.isnan, network.path_drops().values()))
    qdiscs = [{"kind": kind, "drops": drops, "backlog": 0} for kind, drops in (("htb", 9), ("tbf", 5))]
    netem = {"kind": "netem", "drops": 12, "backlog": 0}
    for loss, shown, drops, full in ((0.1, [netem], 12, 5), (0.0, [netem], 12, 12), (0.0, [], 5, 5)):
        told = mock.Mock(return_value=mock.Mock(stdout=json.dumps([*qdiscs, *shown])))
        monkeypatch.setattr(network.processes, "run", told)
        monkeypatch.setattr(network, "_emulated", {"eth0": network_path.NetworkPath(20, 1, loss)})
        assert network.path_drops() == {"drops": drops, "queue_drops": full}
