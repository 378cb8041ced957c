# SPDX-License-Identifier: Apache-2.0
"""What pods run: their package, what agents see, the port of probes, and what a scraper gets."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tpcsweep.linux.cgroups import Hierarchy
from tpcsweep.measure import machine
from tpcsweep.testbeds.kubernetes import archive, pod
from tpcsweep.testbeds.kubernetes.pod import contained, network, places, servers, watched
from tpcsweep.testbeds.kubernetes.pod.metrics import METRICS, TYPE, Running, serve_metrics
from tpcsweep.testbeds.kubernetes.pod.places import METRICS_PATH, Sample
from tpcsweep.testbeds.kubernetes.pod.probes import Probes
from tpcsweep.variables import SAMPLES, SUMMARY
from tpcsweep.xrootd import releases

from tests.support.releases import folder_of
from tests.support.workflow import succeeded, wait_until


def test_a_container_hands_over_its_counters_and_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nnr_periods 10\nnr_throttled 4\n")
    monkeypatch.setattr(contained, "hierarchy", lambda: Hierarchy(2, tmp_path, tmp_path))
    monkeypatch.setattr(machine, "LOOK", 0.0)
    monkeypatch.setattr(watched, "numbered", lambda _: [os.getpid()])
    for module in (places, watched):
        monkeypatch.setattr(module, "CONTAINED", tmp_path / "socket")
    server = threading.Thread(target=contained.taken)
    server.start()
    beside = watched.Contained()
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
    laid_out = contained.credentials()
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
        monkeypatch.setattr(contained, name, mock.Mock(return_value=[theirs]))
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


def test_python_runs_it_from_the_archive_with_nothing_else(tmp_path: Path) -> None:
    """All that containers' commands name, and the workers of tools, whose environment says where the package is."""
    programs = [f"{pod.__name__}.{path.stem}" for path in Path(pod.__path__[0]).glob("[!_]*.py")]
    names = [*programs, "tpcsweep.client.__main__"]
    ask = (
        f"import sys, {', '.join(names)}\n"
        "files = {module.__file__ for name, module in sys.modules.items() if name.startswith('tpcsweep')}\n"
        "print({file.partition('/tpcsweep/')[0] for file in files})\n"
        "from pathlib import Path; from tpcsweep.tools import TOOLS; from tpcsweep.tools.base import Credentials\n"
        "for tool in TOOLS.values():\n"
        "    print(tool.environment(Credentials(Path('/c')), Path('/h')).get('PYTHONPATH'))"
    )
    packed = tmp_path / "tpcsweep.zip"
    packed.write_bytes(archive.package_archive())
    output = succeeded([sys.executable, "-S", "-c", ask], cwd=tmp_path, env={"PYTHONPATH": str(packed)})
    said, *environments = output.splitlines()
    assert said == str({str(packed)})
    assert set(environments) == {str(packed), "None"}


def test_it_fits_a_config_map_and_is_the_same_each_time() -> None:
    made = archive.package_archive()
    assert len(made) * 4 / 3 < (1 << 20) / 2  # a ConfigMap may hold 1 MiB, base64 included
    archive.package_archive.cache_clear()
    assert archive.package_archive() == made


HOST = "127.0.0.1"
WORD = "0123456789abcdef" * 2


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


@contextlib.asynccontextmanager
async def opened(port: int) -> AsyncIterator[Probes]:
    made = Probes(port)
    await made.verbs["open_probes"](word=WORD)
    yield made
    await made.verbs["close_probes"]()


def test_agents_that_were_told_the_word_look_at_a_path(port: int) -> None:
    async def look() -> None:
        async with opened(port) as made:
            ask, where = made.verbs, {"address": HOST, "port": port}
            rtts, mtu = await ask["round_trips"](**where, count=3)
            assert [0 <= rtt < 1000 for rtt in rtts] == [True] * 3
            assert mtu > 1000
            assert (await ask["pour"](**where, connections=2, seconds=0.3))["looks"]
            assert await ask["emptied"](**where, rtt=1e4, seconds=60.0)

    asyncio.run(look())


@pytest.mark.parametrize(
    ("pieces", "known"),
    [
        *((pieces, True) for pieces in ([WORD], [WORD[:7], WORD[7:]], [WORD, "more"], [""])),
        *(([word], False) for word in ("x" * len(WORD), "x" * 5000, WORD[:-1] + "x")),
    ],
)
def test_who_knows_the_word_is_heard_to_the_end_and_others_are_cut_off(
    port: int, pieces: list[str], known: bool
) -> None:
    async def tell() -> None:
        async with opened(port):
            reader, writer = await asyncio.open_connection(HOST, port)
            for piece in pieces:
                writer.write(piece.encode())
                await writer.drain()
                await asyncio.sleep(0.05)  # so that it comes by itself
            if known:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(), 0.1)
                writer.write_eof()
            with contextlib.suppress(ConnectionResetError):  # though it has not been told all
                assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()

    asyncio.run(tell())


def test_the_port_is_open_while_a_path_is_looked_at_and_no_longer(port: int) -> None:
    async def connect() -> None:
        _, writer = await asyncio.open_connection(HOST, port)
        writer.close()

    async def before_and_after() -> None:
        with pytest.raises(ConnectionRefusedError):
            await connect()
        async with opened(port):
            await connect()
        with pytest.raises(ConnectionRefusedError):
            await connect()

    asyncio.run(before_and_after())


WHOSE = {"sweep": "demo", "testbed": 'a "far" one'}
CELL = {"deployment": "abc123", "streams": "4", "rtt": "20"}
LOOK = {"time": 1.0, "received": 2000, "sent": 50, "cpu": 1.5, "busy": 0, "steal": 0, "total": 0}
LOOK |= {"pressure": None, "work": 0.0, "slowed": None, "thread": None, "waiting": 0.0}


def sample(**changes: Any) -> list[Any]:
    """As an agent sends it."""
    return list(Sample(**{**LOOK, **changes}))


@pytest.fixture
def running() -> Running:
    """A cell under way: one origin a side, two transfers that have ended, of which one failed."""
    made = Running()
    made.begin(WHOSE, CELL)
    made.hear({"client": {"event": "prepared"}})
    made.hear({"sample": sample(data_sent=900, retransmits=7, rtt=21.5, connections=4), "of": "src1"})
    for payload in (900, 800):  # the last counts
        made.hear({"sample": sample(payload=payload, periods=100, throttled=30), "of": "dst1"})
    made.hear({"sample": Sample(**{**LOOK, "cpu": 0.25}), "of": "client"})
    for failure in (None, "refused"):
        made.hear({"client": {"event": "end", "failure": failure}})
    return made


def text(running: Running) -> str:
    return "".join(f"{line}\n" for line in running.lines())


def scraped(running: Running) -> dict[str, dict[str, float]]:
    """Values by the names of samples and their origins; all samples have the sweep's labels, one the cell's."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text(running)):
        for each in family.samples:
            assert each.labels.items() >= WHOSE.items()
            assert each.name != "tpcsweep_cell_info" or each.labels == WHOSE | CELL
            found.setdefault(each.name, {})[each.labels.get("origin", "")] = each.value
    return found


def test_a_running_cell_shows_what_has_arrived_and_what_it_took(running: Running) -> None:
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


def test_between_cells_counters_stay_and_no_cell_is_shown(running: Running) -> None:
    running.hear({"client": {"event": "stopped"}})
    found = scraped(running)
    assert "tpcsweep_cell_info" not in found
    assert found["tpcsweep_streams"] == {"": 0}
    assert found["tpcsweep_goodput_bytes_total"] == {"dst1": 800}
    assert [*Running().lines()] == ["# EOF"]  # nothing before the first cell


def test_figures_have_the_names_of_the_dataset() -> None:
    counted = {"wire": "wire_throughput"}  # of which the dataset has rates
    for metric in METRICS:
        called = re.sub("(_throttled)?_periods", "_throttled", counted.get(metric.called, metric.called))
        assert called in {*SUMMARY, *SAMPLES}, metric


def test_metrics_are_got_over_http_and_nothing_else_is(running: Running) -> None:
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
