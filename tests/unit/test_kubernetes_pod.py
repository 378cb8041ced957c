# SPDX-License-Identifier: Apache-2.0
"""What an agent sees of the container beside it, and of the path that it emulates."""

import json
import os
import re
import socket
import threading
from pathlib import Path
from unittest import mock

import pytest
from tpcsweep.linux.cgroups import Hierarchy
from tpcsweep.measure import machine
from tpcsweep.testbeds.kubernetes.pod import network, places, server_container, servers, watched
from tpcsweep.xrootd import releases

from tests.support.releases import folder_of
from tests.support.workflow import wait_until


def test_a_container_hands_over_its_counters_and_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nnr_periods 10\nnr_throttled 4\n")
    monkeypatch.setattr(server_container, "hierarchy", lambda: Hierarchy(2, tmp_path, tmp_path))
    monkeypatch.setattr(machine, "THREAD_INTERVAL", 0.0)
    monkeypatch.setattr(watched, "process_ids", lambda _: [os.getpid()])
    for module in (places, watched):
        monkeypatch.setattr(module, "SERVER_CONTAINER_SOCKET", tmp_path / "socket")
    server = threading.Thread(target=server_container.taken)
    server.start()
    beside = watched.ContainerPrograms()
    server.join()
    assert beside.cpu() == 2.5
    assert beside.periods() == (10, 4)
    with socket.socket() as ours:
        assert os.fstat(ours.fileno()).st_ino in beside.tcp_sockets()
    condition = machine.Machine()
    assert beside.readings(condition)["thread"] is None  # before there were two looks
    wait_until(lambda: (beside.readings(condition)["thread"] or 0.0) > 0, "this process has used some CPU")


def test_a_server_whose_sockets_the_node_hides_may_be_busy() -> None:
    hidden = mock.Mock(side_effect=PermissionError)
    assert watched.Watched(mock.Mock(tcp_sockets=hidden), 1, (), ()).busy()


def test_credentials_are_taken_whole_though_their_names_come_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, files in (("CREDENTIALS", ["authdb", "ca--1.0"]), ("CONFIGURATION", [])):
        folder = tmp_path / name
        data = folder / "..1"
        data.mkdir(parents=True)
        for file in (*files, places.COMPLETE):
            (data / file).write_text(file)
        (folder / "..data").symlink_to("..1")
        (folder / places.COMPLETE).symlink_to(f"..data/{places.COMPLETE}")  # the first of the names
        monkeypatch.setattr(places, name, folder)
    monkeypatch.setattr(places, "STATE", tmp_path)
    monkeypatch.setattr(places, "PRIVATE", tmp_path / "private")
    laid_out = server_container.credentials()
    assert [(laid_out / name).read_text() for name in ("authdb", "ca/1.0")] == ["authdb", "ca--1.0"]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("5.8.1", "{'release': '5.8.1', 'version': '5.8.1'}"),
        (
            "5.9.9",
            "xrootd 5.9.9: the image has no .*/5.9.9; it has system and of others 5.4.0, 5.8.1: add it",
        ),
        ("5.4.0", "xrootd 5.4.0 is 5.4.0, allowed: 5.5.0 or later"),
    ],
)
def test_a_server_container_says_its_release_or_why_it_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, expected: str
) -> None:
    for version in ("5.4.0", "5.8.1"):
        folder_of(tmp_path / version, f"v{version}")
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(releases, "IN_IMAGE", tmp_path)
    for name in ("end_on_term", "credentials", "taken", "fail"):
        monkeypatch.setattr(server_container, name, mock.Mock(return_value=[theirs]))
    container = threading.Thread(target=servers.main, args=("src1", "server", release, 1213, ["xrootd"]))
    container.start()
    ours.settimeout(30)  # where the container has died, nobody answers
    with ours, ours.makefile() as lines:
        ours.sendall(b'{"do": "release", "with": {}}\n')
        [said] = json.loads(lines.readline()).values()
    container.join()
    assert re.match(expected, str(said))


def test_what_an_emulated_path_drops_for_want_of_room_is_told_apart() -> None:
    assert network.drop_counts({"1:": 9, "40:": 12, "41:": 5}) == (12, 5)
    assert network.drop_counts({"1:": 9, "41:": 5}) == (5, 5)
