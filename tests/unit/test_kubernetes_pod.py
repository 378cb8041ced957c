# SPDX-License-Identifier: Apache-2.0
"""What an agent sees of the container beside it and of the path that it emulates, and what a scraper gets."""

import asyncio
import http.client
import json
import math
import os
import re
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tpcsweep.linux.cgroups import Hierarchy
from tpcsweep.measure import machine
from tpcsweep.paths import plan
from tpcsweep.testbeds.kubernetes.pod import messages, network, places, server_container, servers, watched
from tpcsweep.testbeds.kubernetes.pod.metrics import METRICS, TYPE, CellMetrics, serve_metrics
from tpcsweep.testbeds.kubernetes.pod.places import METRICS_PATH, Sample
from tpcsweep.variables import SAMPLES, SUMMARY
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
    assert beside.totals() == {"periods": 10, "throttled": 4}
    with socket.socket() as ours:
        assert os.fstat(ours.fileno()).st_ino in beside.tcp_sockets()
    assert math.isnan(beside.readings()["thread"])  # before there were two looks
    assert beside.readings()["throttled"] == 4
    wait_until(lambda: beside.readings()["thread"] > 0, "this process has used some CPU")


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
        ("5.9.9", "the image has no .*/5.9.9; it has system and of others 5.4.0, 5.8.1: add it"),
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
    program = servers.main("src1", "server", release, "1213", "xrootd")
    container = threading.Thread(target=asyncio.run, args=(program,))
    container.start()
    ours.settimeout(30)  # where the container has died, nobody answers
    with ours, ours.makefile() as lines:
        ours.sendall(b'{"id": 7, "do": "release", "with": {}}\n')
        number, said = json.loads(lines.readline()).values()
    container.join()
    assert number == 7
    assert re.search(expected, str(said))


def test_an_agent_answers_each_request_and_tells_when_its_other_end_is_gone() -> None:
    """Unexpected errors and requests under way when the connection ends are answered too."""

    async def converse() -> list[str]:
        ours, theirs = [await asyncio.open_unix_connection(sock=end) for end in socket.socketpair()]
        heard: list[str] = []
        channel = messages.Channel("src1", *ours, lambda **fields: heard.append(json.dumps(fields)))
        hung = asyncio.Event()
        verbs = {"fail": mock.Mock(side_effect=ZeroDivisionError("by nought")), "hang": hung.wait}
        obeying = asyncio.create_task(messages.obey(verbs, *theirs))
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
        await asyncio.wait_for(obeying, 60)
        return heard

    assert asyncio.run(converse()) == ['{"sample": [1.5]}', '{"gone": "src1"}']


def test_what_an_emulated_path_drops_for_want_of_room_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without random loss all drops count as those of a full queue; a real network reports none."""
    assert network.path_totals() == {"drops": None, "queue_drops": None}
    qdiscs = [{"kind": kind, "drops": drops, "backlog": 0} for kind, drops in (("htb", 9), ("tbf", 5))]
    netem = {"kind": "netem", "drops": 12, "backlog": 0}
    for loss, shown, drops, full in ((0.1, [netem], 12, 5), (0.0, [netem], 12, 12), (0.0, [], 5, 5)):
        told = mock.Mock(return_value=mock.Mock(stdout=json.dumps([*qdiscs, *shown])))
        monkeypatch.setattr(network.processes, "run", told)
        monkeypatch.setattr(network, "_emulated", {"eth0": plan.Path(20, 1, loss)})
        assert network.path_totals() == {"drops": drops, "queue_drops": full}


WHOSE = {"sweep": "demo", "testbed": 'a "far" one'}
CELL = {"deployment": "abc123", "streams": "4", "rtt": "20"}
NEEDED = Sample._fields[: -len(Sample._field_defaults)]
LOOK = {**dict.fromkeys(NEEDED, 0.0), "time": 1.0, "rx_bytes": 2000, "tx_bytes": 50, "cpu": 1.5}


def sample(**changes: Any) -> list[Any]:
    """As an agent sends it."""
    return list(Sample(**{**LOOK, **changes}))


@pytest.fixture
def running() -> CellMetrics:
    """A cell under way: one origin a side, two transfers that have ended, of which one failed."""
    made = CellMetrics()
    made.begin(WHOSE, CELL)
    made.update({"client": {"event": "prepared"}})
    made.update({"sample": sample(sent=900, retransmits=7, rtt_loaded=21.5, connections=4), "of": "src1"})
    for payload in (900, 800):  # the last counts
        made.update({"sample": sample(payload=payload, periods=100, throttled=30), "of": "dst1"})
    made.update({"sample": sample(cpu=0.25), "of": "client"})
    for failure in (None, "refused"):
        made.update({"client": {"event": "end", "failure": failure}})
    return made


def text(running: CellMetrics) -> str:
    return "".join(f"{line}\n" for line in running.lines())


def scraped(running: CellMetrics) -> dict[str, dict[str, float]]:
    """Values by the names of samples and their origins; all samples have the sweep's labels, one the cell's."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text(running)):
        for each in family.samples:
            assert each.labels.items() >= WHOSE.items()
            assert each.name != "tpcsweep_cell_info" or each.labels == WHOSE | CELL
            found.setdefault(each.name, {})[each.labels.get("origin", "")] = each.value
    return found


def test_a_running_cell_shows_what_has_arrived_and_what_it_took(running: CellMetrics) -> None:
    found = {
        "goodput_bytes_total": {"dst1": 800},
        "wire_bytes_total": {"dst1": 2000},
        "sent_bytes_total": {"src1": 900},
        "retransmits_total": {"src1": 7},
        "rtt_loaded_seconds": {"src1": 0.0215},
        "connections": {"src1": 4},
        "source_cpu_seconds_total": {"src1": 1.5},
        "destination_throttled_periods_total": {"dst1": 30},
        "client_cpu_seconds_total": {"client": 0.25},
        "streams": {"": 4},
        "transfers_total": {"": 1},
        "transfers_failed_total": {"": 1},
        "cell_info": {"": 1},
    }
    assert {f"tpcsweep_{name}": value for name, value in found.items()}.items() <= scraped(running).items()


def test_between_cells_counters_stay_and_no_cell_is_shown(running: CellMetrics) -> None:
    running.update({"client": {"event": "stopped"}})
    found = scraped(running)
    assert "tpcsweep_cell_info" not in found
    assert found["tpcsweep_streams"] == {"": 0}
    assert found["tpcsweep_goodput_bytes_total"] == {"dst1": 800}
    assert [*CellMetrics().lines()] == ["# EOF"]  # nothing before the first cell


def test_figures_have_the_names_of_the_dataset() -> None:
    counted = {"wire": "wire_throughput"}  # of which the dataset has rates
    for metric, *_ in METRICS:
        called = re.sub("(_throttled)?_periods", "_throttled", counted.get(metric, metric))
        assert called in {*SUMMARY, *SAMPLES}, metric


def test_metrics_are_got_over_http_and_nothing_else_is(running: CellMetrics) -> None:
    with serve_metrics(running, 0) as server:

        def answer(method: str, path: str) -> tuple[int, str | None, str]:
            port = server.server_address[1]
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
                connection.request(method, path)
                got = connection.getresponse()
                return got.status, got.getheader("Content-Type"), got.read().decode()

        assert answer("GET", METRICS_PATH) == (200, TYPE, text(running))
        assert answer("GET", "/")[0] == 404
        assert answer("POST", METRICS_PATH)[0] == 501
        server.shutdown()
