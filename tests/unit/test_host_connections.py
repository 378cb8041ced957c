# SPDX-License-Identifier: Apache-2.0
"""Connections between hosts: as hosts' kernels count them, and the windows, figures and sentences that follow."""

import dataclasses
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import xarray as xr
from tpcsweep.data import folding
from tpcsweep.data.cell_result import Limit
from tpcsweep.data.host_buffers import RECEIVE, SEND, largest_buffer
from tpcsweep.data.opening import load
from tpcsweep.data.pair_rtts import pair_rtt_text
from tpcsweep.data.variables import SHARES, SUMMARY
from tpcsweep.deploying.linux.sockets import SocketDiagnostics
from tpcsweep.deploying.linux.sockets import tcp_info as fields_of
from tpcsweep.measuring import host_connections, host_state
from tpcsweep.measuring.host_connections import Sent
from tpcsweep.pages import making
from tpcsweep.running import hosts
from tpcsweep.running.hosts import CellClock, Look, Watch
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.sweeps.testbed_settings import SavedHost
from tpcsweep.testbeds.endpoints.settings import Endpoints

from tests.support import synthetic
from tests.support.workflow import wait_until

SENDER, RECEIVER = "127.0.0.3", "127.0.0.2"  # two hosts' addresses on one machine
MIB = 1 << 20
SENT = Sent(
    connections=2.0,
    open=20.0,
    busy=18.0,
    rwnd_limited=15.0,
    sndbuf_limited=1.0,
    bytes=450e6,  # 2.5 MB while a round trip of 100 ms passes
    segments=300_000,
    resent=300,
    rtt=100.0,
    rtt_loaded=104.0,
)


@contextmanager
def connected(family: socket.AddressFamily = socket.AF_INET) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection from the sender to the receiver."""
    is_v6 = family == socket.AF_INET6
    prefix = "::ffff:" if is_v6 else ""
    with ExitStack() as ends:
        listening = ends.enter_context(
            socket.create_server((f"{prefix}{RECEIVER}", 0), family=family, dualstack_ipv6=is_v6)
        )
        sending = ends.enter_context(socket.socket(family))
        sending.bind((f"{prefix}{SENDER}", 0))
        sending.connect(listening.getsockname()[:2])
        yield sending, ends.enter_context(listening.accept()[0])


def acknowledged(senders: host_state.Senders, size: int) -> Mapping[str, Any]:
    """Return a reading in which the sums have so many bytes; a handshake's is one more."""
    found: list[Any] = []

    def arrived() -> bool:
        found[:] = [senders.read()]
        return bool(found[0]["sums"]["bytes_acked"] >= size)

    wait_until(arrived, "the kernel counts the bytes", 30)
    return dict(found[0])


def test_fields_of_the_kernels_struct_have_one_layout() -> None:
    """The program on hosts has places of its own, because it cannot import the package's."""
    names = [*host_state.TCP_INFO]
    with connected() as (sending, receiving):
        sending.sendall(b"x" * 5000)
        receiving.recv(5000, socket.MSG_WAITALL)
        time.sleep(0.3)  # the last acknowledgement
        diagnostics = SocketDiagnostics()
        known = {each.cookie: each for each in diagnostics.connections()}
        diagnostics.close()
        found = dict(host_state.connections({host_state.packed(RECEIVER)}))
        assert len(found) == 1
        for cookie, info in found.items():
            values = fields_of(names)(known[int.from_bytes(cookie, sys.byteorder)])
            assert info == dict(zip(names, values, strict=True))
            assert info["bytes_acked"] >= 5000


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_senders_sum_connections_that_have_ended(family: socket.AddressFamily) -> None:
    sender, receiver = host_state.Senders([RECEIVER, "2001:db8::1"]), host_state.Senders([SENDER])
    assert sender.read() == {"number": 0}
    with connected(family) as (sending, receiving):
        receiving.sendall(b"x" * 100)
        first = sender.read()
        assert first is not None and first["number"] == 0, "it has only received"
        sending.sendall(b"x" * 5000)
        assert acknowledged(sender, 5000)["number"] == 1
        received = receiver.read()
        assert received is not None and received["number"] == 0
    with connected(family) as (sending, _):
        sending.sendall(b"x" * 3000)
        both = acknowledged(sender, 8000)
    assert both["number"] == 1
    assert both["sums"]["bytes_acked"] <= 8002
    assert both["sums"]["data_segs_out"] >= 2
    assert 0 < both["min_rtt"] <= both["rtt"]


def test_hosts_know_their_own_addresses_and_count_nothing_without_some() -> None:
    assert host_state.receives(["192.0.2.1", "2001:db8::1", RECEIVER])
    assert not host_state.receives(["192.0.2.1", "2001:db8::1"])
    assert host_state.Senders([]).read() is None


@pytest.mark.parametrize(("place", "unknown"), [(136, {"min_rtt", "busy_time"}), (168, {"busy_time"})])
def test_fields_that_a_kernel_lacks_are_unknown(
    monkeypatch: pytest.MonkeyPatch, place: int, unknown: set[str]
) -> None:
    """The struct of an older kernel is shorter."""
    known = {name: field for name, field in host_state.TCP_INFO.items() if field[1] < place}
    senders = host_state.Senders([RECEIVER])
    monkeypatch.setattr(host_state, "TCP_INFO", known)
    with connected() as (sending, _):
        before = senders.read()
        assert before is not None
        sending.sendall(b"x" * 5000)
        after = acknowledged(senders, 5000)
    assert not unknown & {*after, *after["sums"]}
    sent = host_connections.sent_between([before, after], 1.0)
    figures = host_connections.figures(sent)
    assert math.isnan(figures["host_rwnd_limited"])
    assert math.isnan(figures["host_rtt"]) == ("min_rtt" in unknown)
    assert host_connections.window_share(sent, 1.0, 1.0) == 0.0
    monkeypatch.setattr(host_state, "TCP_INFO", {name: known[name] for name in ("rtt", "total_retrans")})
    with connected():
        assert senders.read() is None, "without bytes nobody knows who sends"


def test_a_slow_reader_closes_windows_whose_size_limits_nothing() -> None:
    senders, end = host_state.Senders([RECEIVER]), time.monotonic() + 2.0
    with connected() as (sending, receiving):

        def send() -> None:
            while time.monotonic() < end:
                sending.sendall(b"x" * 65536)

        def read() -> None:
            while receiving.recv(20_000):
                time.sleep(0.01 if time.monotonic() < end else 0.0)

        threads = [threading.Thread(target=each, daemon=True) for each in (send, read)]
        [thread.start() for thread in threads]
        time.sleep(0.5)
        before = senders.read()
        time.sleep(1.2)
        after = senders.read()
        threads[0].join()
        sending.shutdown(socket.SHUT_WR)
        threads[1].join()
    assert before is not None and after is not None
    sent = host_connections.sent_between([before, after], 1.2)
    assert sent.rwnd_limited + sent.sndbuf_limited > 0.5 * sent.busy > 0.3
    rmem, wmem = (
        float(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem")
    )
    assert host_connections.window_share(sent, rmem, wmem) == 0.0


@pytest.mark.parametrize(
    ("changed", "receive", "send", "share"),
    [
        ({}, 6 * MIB, 4 * MIB, 0.8),  # 2.4 MiB under way are enough for both
        ({}, 6 * MIB, 64 * MIB, 0.75),
        ({}, 64 * MIB, 64 * MIB, 0.0),
        ({}, math.nan, math.nan, 0.0),
        ({"open": 10.0}, 6 * MIB, math.nan, 15 / 18),  # readings saw fewer connections than there were
        ({"rtt": 1.0}, 6 * MIB, 4 * MIB, 0.0),
        ({"rtt": math.nan}, 6 * MIB, 4 * MIB, 0.0),
        ({"rwnd_limited": math.nan}, 6 * MIB, math.nan, 0.0),
        ({"busy": 0.0, "rwnd_limited": 0.0}, 6 * MIB, math.nan, 0.0),
    ],
)
def test_windows_limit_if_enough_of_a_buffer_is_under_way(
    changed: Mapping[str, float], receive: float, send: float, share: float
) -> None:
    found = host_connections.window_share(SENT._replace(**changed), receive, send)
    assert found == pytest.approx(share)


def test_figures_of_several_hosts_are_those_of_all_that_send() -> None:
    idle = Sent(0.0, 0.0, *[math.nan] * 8)
    other = SENT._replace(rtt=90.0, busy=2.0, rwnd_limited=1.0)
    assert host_connections.together([idle]) is None
    total = host_connections.together([SENT, idle, other])
    assert total is not None
    figures = host_connections.figures(total)
    assert {*figures} <= {*SUMMARY}
    assert figures["host_rtt"] == 90.0
    assert figures["host_connections"] == 4.0
    assert figures["host_busy"] == 0.5
    assert figures["host_rwnd_limited"] == pytest.approx(0.8)
    assert figures["host_retransmitted"] == pytest.approx(0.001)


def cell(limit: str | None = "not_visible", **shares: float) -> Any:
    figures = dict.fromkeys(SHARES.values(), 0.0) | {f"share_{name}": value for name, value in shares.items()}
    about = {"throughput": 0.8, "warmup": 2.0, "duration": 12.0, "share_server": None}
    return synthetic.result(limit, figures | about)


@pytest.mark.parametrize(
    ("shares", "share", "limit", "window"),
    [
        ({"not_visible": 0.9, "between_files": 0.1}, 0.8, Limit("window"), 0.72),
        ({"not_visible": 0.9, "between_files": 0.1}, 0.48, Limit("not_visible", "window"), 0.432),
        ({"not_visible": 0.9, "between_files": 0.1}, 0.0, Limit("not_visible"), 0.0),
        ({"not_visible": 0.2, "between_files": 0.8}, 1.0, Limit("between_files"), 0.2),
        ({"none_found": 1.0}, 1.0, Limit("none_found"), 0.0),  # the servers were seen
    ],
)
def test_only_time_without_a_visible_limit_becomes_that_of_windows(
    shares: Mapping[str, float], share: float, limit: Limit, window: float
) -> None:
    found = host_connections.with_window(cell(limit.binding, **shares), share)
    assert found.limit == limit
    assert found.summary.figures["share_window"] == pytest.approx(window)
    assert sum(found.summary.figures[name] or 0 for name in SHARES.values()) == pytest.approx(1.0)


def test_a_failed_cell_has_no_limit() -> None:
    failed = dataclasses.replace(cell(None, not_visible=1.0), status="failed")
    assert host_connections.with_window(failed, 0.9) is failed


@pytest.mark.parametrize(
    ("sysctls", "size"),
    [
        ({RECEIVE: "4096 131072 6291456"}, 6291456),
        ({RECEIVE: "4096"}, math.nan),
        ({SEND: "4096 16384 4194304"}, math.nan),
        (None, math.nan),
    ],
)
def test_the_largest_buffer_is_the_third_number(sysctls: Mapping[str, str] | None, size: float) -> None:
    state: dict[str, Any] = {"not_recorded": "no answer"} if sysctls is None else {"sysctls": sysctls}
    assert largest_buffer([state, {"sysctls": {RECEIVE: "1 2 3"}}][:1], RECEIVE) == pytest.approx(
        size, nan_ok=True
    )


def looks(*, limited: float, known: bool = True) -> list[Look]:
    """Readings once a second of a host with one connection of 0.8 Gbit/s, whose window limits a share of its time."""
    found = []
    for at in range(14):
        growing = {"bytes_acked": 100e6 * at, "busy_time": 1e6 * at, "rwnd_limited": limited * 1e6 * at}
        tcp = {"number": 1, "sums": {**growing, "sndbuf_limited": 0}, "min_rtt": 20_000, "rtt": 21_000.0}
        found.append(Look(at, at, (at, 0, 10 * at), {"eth0": (0, 1e8 * at)}, tcp if known else None))
    return found


def watch(sender: list[Look]) -> Watch:
    """A host that sends, one that receives, and one of which a file has the state."""
    rmem = {"sysctls": {RECEIVE: "4096 131072 4194304"}}
    asked: Any = {
        "a1": SimpleNamespace(looks=sender, speed=100.0, described=dict, receives=False),
        "b1": SimpleNamespace(looks=looks(limited=0)[:1], speed=100.0, described=lambda: rmem, receives=True),
    }
    return Watch(asked, {"c1": {"sysctls": {RECEIVE: "1 2 3"}}})


def test_a_cell_has_figures_and_the_limit_of_its_hosts_connections() -> None:
    clock = CellClock(lambda *_: None)
    clock.began = 0.0
    measured = cell(not_visible=1.0)
    found = watch(looks(limited=0.9)).with_load(measured, clock)
    assert found.limit == Limit("window")
    figures = found.summary.figures
    assert figures["share_window"] == pytest.approx(0.9)
    assert figures["host_rtt"] == 20.0
    assert figures["host_rtt_loaded"] == 21.0
    assert figures["host_in_flight"] == pytest.approx(2e6)
    assert figures["host_rwnd_limited"] == pytest.approx(0.9)
    assert figures["host_retransmitted"] is None, "no segments are counted"
    assert figures["host_sent"] == pytest.approx(0.8)
    assert watch(looks(limited=0.1)).with_load(measured, clock).limit == Limit("not_visible")
    unknown = watch(looks(limited=0.9, known=False)).with_load(measured, clock)
    assert unknown.limit == measured.limit
    assert "host_rtt" not in unknown.summary.figures
    assert unknown.summary.figures["host_sent"] == pytest.approx(0.8)


REFUSED = """
import socket
class Refused(socket.socket):
    def __init__(self, family=-1, *arguments, **named):
        if family == socket.AF_NETLINK:
            raise PermissionError(1, "Operation not permitted")
        super().__init__(family, *arguments, **named)
socket.socket = Refused
"""


def test_a_host_that_may_not_ask_its_kernel_and_saved_hosts_count_nothing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(REFUSED)
    saved = tmp_path / "saved.json"
    saved.write_text("{}")
    ways = {"here": "local", "closed": f"env PYTHONPATH={tmp_path}", "saved": SavedHost(saved=str(saved))}
    with (
        connected() as (sending, _),
        hosts.watched(ways, 60, lambda _: None, 0.05, [RECEIVER, "no-such-name.invalid"]) as found,
    ):
        sending.sendall(b"x" * 5000)
        here, closed = (found._hosts[name] for name in ("here", "closed"))

        def read() -> bool:
            counted = [look.tcp for look in here.looks if look.tcp and look.tcp.get("sums")]
            return bool(counted) and len(closed.looks) > 1

        wait_until(read, "both hosts count", 30)
        assert {look.tcp for look in closed.looks} == {None}
        assert here.looks[-1].tcp is not None and here.looks[-1].tcp["number"] == 1
        assert found.receivers == ["here", "closed"]
        assert RECEIVER not in json.dumps(found.states)


def test_doors_of_the_destination_are_those_that_data_go_to() -> None:
    ends = {
        "source": {"urls": ["https://a.example.org/x"]},
        "destination": {"urls": ["davs://B.example.org:1094/x", "davs://[2001:db8::1]/x"]},
    }
    upload = {"source": {"urls": ["file:///data"]}, "destination": ends["source"]}
    download = {"source": ends["source"], "destination": {"urls": ["file:///data"]}}
    pairs = [{"name": name, **each} for name, each in (("ab", ends), ("up", upload), ("down", download))]
    settings = Endpoints.model_validate(
        {"kind": "endpoints", "budget": {"bytes": 1 << 30, "time": 60}, "max_streams": 1, "pairs": pairs}
    )
    doors = [settings.receiving_doors(DeploymentParameters(pair=name)) for name in ("ab", "up", "down")]
    assert doors == [["b.example.org", "2001:db8::1"], ["a.example.org"], []]


def dataset(folder: Path, figures: Mapping[str, float], **provenance: Any) -> xr.Dataset:
    """Return a dataset of endpoints whose cells with few streams a window limits, by the hosts' kernels."""
    axes = {"rtt": [5.0], "streams": [1, 2, 4], "repetition": [1, 2]}
    files = synthetic.write_sweep(folder, axes)
    for file, spec in files.items():
        content, is_window = synthetic.cell(spec), spec["parameters"]["streams"] < 4
        hidden = {"share_window": 0.9 * is_window, "share_not_visible": 1 - 0.9 * is_window}
        summary = {**content["summary"], **dict.fromkeys(SHARES.values(), 0.0), **hidden}
        summary |= {"rtt_idle": None, "host_rtt": 20.0, **figures}
        synthetic.write_cell(
            file,
            spec,
            summary=summary,
            limit="window" if is_window else "not_visible",
            limit_second="",
            flags=[],
            provenance=content["provenance"] | provenance,
        )
    folding.write(folding.fold(files, axes), folder / "dataset.nc")
    return load(folder / "dataset.nc")


HOSTS = {"b1": {"sysctls": {RECEIVE: "4096 131072 4194304"}}, "a1": {"sysctls": {RECEIVE: "1 2 3"}}}
WINDOW = {"host_rwnd_limited": 0.95, "host_sndbuf_limited": 0.01, "host_in_flight": 2e6}


@pytest.mark.parametrize(
    ("figures", "names", "words"),
    [
        (
            WINDOW,
            ["b1"],
            "the receive window of b1 stopped senders for 95 % of the time in which their kernels had data to send. "
            "Raise the third number of net.ipv4.tcp_rmem on b1 (now 4 MiB).",
        ),
        (
            {**WINDOW, "host_rwnd_limited": 0.01, "host_sndbuf_limited": 0.8},
            ["b1"],
            "the send buffer stopped senders for 80 % of the time in which their kernels had data to send. "
            "Raise the third number of net.ipv4.tcp_wmem on the sending host.",
        ),
    ],
)
def test_the_page_names_the_buffer_of_the_host(
    tmp_path: Path, figures: Mapping[str, float], names: list[str], words: str
) -> None:
    summary = dataset(tmp_path, figures, hosts=HOSTS, receiving_hosts=names)
    making.make_page(tmp_path / "dataset.nc", tmp_path / "page.html")
    page = " ".join((tmp_path / "page.html").read_text().split())
    assert page.count(f"In 2 settings, {words}") == 2, "in the answer and in the findings"
    assert f"By the record of hosts, {words}" in page, "in the panel of a setting"
    summary.attrs["testbed_kind"] = "endpoints"
    assert (
        pair_rtt_text(summary.squeeze("rtt", drop=True).assign_coords(rtt=math.nan))
        == "20 ms by the hosts' kernels"
    )


def test_pages_of_other_datasets_name_no_buffer(tmp_path: Path) -> None:
    """A window that hosts without a record of the receiver saw, and kernels that do not count it."""
    dataset(tmp_path, WINDOW)
    making.make_page(tmp_path / "dataset.nc", tmp_path / "page.html")
    assert "the receive window of" not in (tmp_path / "page.html").read_text()
