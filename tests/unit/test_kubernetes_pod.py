# SPDX-License-Identifier: Apache-2.0
"""What an agent sees of the container next to it and of the path that it emulates."""

import asyncio
import json
import math
import socket
from pathlib import Path
from unittest import mock

import pytest
from tpcsweep.deploying.paths import network_path
from tpcsweep.testbeds.kubernetes.pod import (
    messages,
    network,
    pod_files,
    server_container,
    watched,
)


def test_a_server_whose_sockets_the_node_hides_may_be_busy() -> None:
    hidden = mock.Mock(side_effect=PermissionError)
    container = mock.Mock(programs=lambda _: mock.Mock(tcp_sockets=hidden))
    assert watched.OriginPod(container, "source", 1, (), ()).busy()


def test_credentials_are_taken_whole_though_their_names_come_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, files in (("CREDENTIALS", ["authdb", "ca--1.0"]), ("CONFIGURATION", [])):
        folder = tmp_path / name
        data = folder / "..1"
        data.mkdir(parents=True)
        for file in (*files, pod_files.COMPLETE):
            (data / file).write_text(file)
        (folder / "..data").symlink_to("..1")
        (folder / pod_files.COMPLETE).symlink_to(f"..data/{pod_files.COMPLETE}")  # the first of the names
        monkeypatch.setattr(pod_files, name, folder)
    monkeypatch.setattr(pod_files, "STATE", tmp_path)
    monkeypatch.setattr(pod_files, "PRIVATE", tmp_path / "private")
    laid_out = server_container.credentials()
    assert [(laid_out / name).read_text() for name in ("authdb", "ca/1.0")] == ["authdb", "ca--1.0"]


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
