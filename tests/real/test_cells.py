# SPDX-License-Identifier: Apache-2.0
"""What deployments of all shapes carry, what is seen of that, and what a cell says of its trustworthiness."""

import itertools
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from tpcsweep.deploying.linux.namespaces import namespace_command
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.deploying.xrootd.monitoring import Copy
from tpcsweep.measuring.sampler import Record
from tpcsweep.measuring.transfer_files import ReceivedBytes
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.settings import DISK
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import MIB, cell, files, left, seconds, site_of, streaming, whole
from tests.support.workflow import background, finished, wait_until


def test_settings_are_as_found(pair: NetnsSite) -> None:
    expected = {"src.net.ipv4.tcp_wmem": f"4096 16384 {8 * MIB}", "src.congestion_control": "cubic"}
    expected |= {"dst.net.ipv4.tcp_rmem": f"4096 {MIB} {8 * MIB}"}
    assert expected.items() <= pair.provenance["sysctls"].items()
    assert pair.provenance["path"]["mtu_bytes"] == 1500


def test_connections_are_those_that_ss_shows(pair: NetnsSite) -> None:
    client = streaming(pair, "gfal-copy", 4)
    read = pair.counters.targets["src1"].read
    wait_until(lambda: read()["connections"] >= 4, "all streams have a connection")
    looks: list[tuple[str, Record]] = []

    def looked_while_none_came_or_went() -> bool:
        before = read()["connections"]
        command = namespace_command(f"{pair.prefix}-src1", ["ss", "-tinH", "dst", "10.88.2.0/24"])
        shown = subprocess.check_output(command, text=True)
        looks.append((shown, read()))
        return before == looks[-1][1]["connections"]

    wait_until(looked_while_none_came_or_went, "connections stay for as long as a look takes")
    client.stop()
    pair.settle()
    shown, reading = looks[-1]
    assert abs(reading["connections"] - shown.count("cwnd:")) <= 1
    rtts = [float(rtt) for rtt in re.findall(r"\brtt:([0-9.]+)", shown)]  # ms
    assert min(rtts) / 10 < 1e3 * reading["rtt_loaded"] < max(rtts) * 10  # a moment later
    assert 1e3 * reading["rtt_loaded"] > 0.9 * 2
    assert reading["cwnd"] > 2


def test_a_client_without_credentials_is_refused(pair: NetnsSite) -> None:
    url = f"{pair.sides['src'].origins[0].url}/{xrootd.READY_FILE}"
    command = namespace_command(f"{pair.prefix}-client", ["curl", "-sk", "-w", "%{http_code}", url])
    assert finished(command).stdout.endswith("403")


def test_a_cell_settles_when_servers_have_read_all(pair: NetnsSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without a CPU reads no request, and notices no connection that was cut."""
    monkeypatch.setattr("tpcsweep.testbeds.netns.site.SETTLE_SECONDS", 600.0)
    client = streaming(pair, "curl", 4)
    wait_until(lambda: left(pair), "a file arrives")
    processes = [*map(psutil.Process, pair.groups["dst1"].pids())]
    for process in processes:
        process.suspend()
    settling = threading.Thread(target=pair.settle)
    try:
        client.stop()
        settling.start()
        settling.join(1)
        assert settling.is_alive()
    finally:
        for process in processes:
            process.resume()
    settling.join()
    assert left(pair) == []
    assert not pair.counters.unfinished()


def test_a_cluster_is_measured_through_either_endpoint_and_quotas_hold_on_both_sides(tmp_path: Path) -> None:
    with site_of(tmp_path, origins=3, rtt=0, cores=0.3) as site:
        for endpoint, pairs in {"redirector": 1, "direct": 3}.items():
            assert len(site.pairs(endpoint)) == pairs
            whole(site, files(1), endpoint=endpoint, streams=6, file_size=4 * MIB)
        found = whole(site, files(1), tool="curl", endpoint="direct", streams=9, file_size=32 * MIB)
    for side in ("source", "destination"):
        assert found["summary"][f"{side}_cpu"] < 0.3 * 1.15
    assert found["summary"]["destination_throttled"] > 0.2
    quotas = site.provenance["quotas"]
    assert quotas == {side: {"cores": 0.3, "period": 100.0} for side in ("src", "dst")}


def test_the_network_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how, arrived = {"tool": "iperf3", "copy_mode": "push"}, ReceivedBytes.arrived

    def slowly(self: ReceivedBytes) -> int:
        """As where a busy machine takes the CPU away between one counter and the next."""
        time.sleep(0.05)
        return arrived(self)

    with site_of(tmp_path, tools=["iperf3"], streams=3, rtt=5, bandwidth=0.2, layer="network") as site:
        for streams, tcp_streams in ((1, 1), (3, 2)):
            found = whole(site, seconds(2), **how, streams=streams, tcp_streams=tcp_streams)
            assert "counters_disagree" not in found["flags"]
            assert found["summary"]["throughput"] > 0.9 * found["summary"]["wire_throughput"]
            assert max(found["samples"]["connections"]) == streams * (tcp_streams + 1)
            assert found["summary"]["transfers"] == 0  # it has neither ends nor files
        monkeypatch.setattr(ReceivedBytes, "arrived", slowly)
        found = whole(site, seconds(2), **how, streams=1)  # a server is free again after a test
    assert "counters_disagree" not in found["flags"]


@pytest.mark.parametrize(("layer", "ends"), [("disk_to_disk", ["src", "dst"]), ("memory_to_disk", ["dst"])])
def test_a_disk_at_both_ends_or_at_the_destination_alone(tmp_path: Path, layer: str, ends: list[str]) -> None:
    with site_of(tmp_path, rtt=0, layer=layer) as site:
        folders = {name: side.files for name, side in site.sides.items()}
        assert [name for name, folder in folders.items() if Path(DISK) in folder.resolve().parents] == ends
        for name in ends:
            flags = subprocess.check_output(["lsattr", "-d", str(folders[name])], text=True)
            assert "S" in flags.split()[0]
        name = site.add_source(4 * MIB, "random", 2)
        if "src" in ends:
            sources = [str(folders["src"] / name.format(stream=stream)) for stream in (0, 1)]
            cached = ["fincore", "--noheadings", "--output", "PAGES", *sources]
            assert subprocess.check_output(cached, text=True).split() == ["0", "0"]
        whole(site, files(2), tool="curl", streams=2, file_size=4 * MIB, source_content="random")


STREAMS, FILES, SIZE = 2, 3, 2 * MIB


@pytest.mark.parametrize(("tool", "copy_mode"), [("gfal-copy", "pull"), ("curl", "push")])
def test_a_cell_until_files_has_each_of_them_with_its_moments_and_a_record_of_xrootd(
    clusters: NetnsSite, monkeypatch: pytest.MonkeyPatch, tool: str, copy_mode: str
) -> None:
    monkeypatch.setattr("tpcsweep.deploying.xrootd.monitoring.LATE", 120.0)  # a busy machine delays records
    found = whole(clusters, files(FILES), tool=tool, copy_mode=copy_mode, streams=STREAMS, file_size=SIZE)
    moved, summary = found["transfers"], found["summary"]
    expected = sorted(itertools.product(range(STREAMS), range(FILES)))
    assert sorted(zip(moved["stream"], moved["number"], strict=True)) == expected
    assert moved["size"] == moved["xrootd_size"] == [SIZE] * STREAMS * FILES
    assert set(moved["xrootd_code"]) == {0}
    assert set(moved["xrootd_direction"]) == {copy_mode}
    assert summary["xrootd_transfers"] == summary["transfers"] == STREAMS * FILES
    assert summary["xrootd_share"] == 1
    # Bytes of the warm-up, whose length is the machine's, do not count.
    assert 1 / STREAMS <= summary["fairness"] <= 1
    assert not {"files_missing", "monitoring_disagrees"} & set(found["flags"])
    # On a busy machine a first byte may be noticed after the last one, and a server may have answered its client
    # before it notes that it has ended.
    later = (("xrootd_begin", name) for name in ("xrootd_end", "end", "first_byte"))
    for first, second in (("start", "xrootd_begin"), *later):
        for before, after in zip(moved[first], moved[second], strict=True):
            assert before <= after + 0.01, (first, second)  # clocks are read a little apart


def test_a_cell_of_fixed_time_takes_that_and_counts_what_is_under_way(clusters: NetnsSite) -> None:
    found = whole(clusters, seconds(3), tool="curl", streams=3, file_size=512 * MIB)
    summary = found["summary"]
    assert summary["transfers"] == 0  # three files of half a gigabyte take a minute
    assert summary["xrootd_share"] is None
    assert 2.7 < summary["duration"] < 15  # and no other rule's time
    assert 1 / 3 < summary["fairness"] <= 1
    # Of 0.2 Gbit/s, and what was buffered.
    assert 0 < summary["throughput_average"] <= summary["throughput_max"] < 1


def test_a_cell_that_runs_out_of_time_says_that_files_are_missing(clusters: NetnsSite) -> None:
    how = Measurement(until="files", files=1000, max_time=5)  # for a first file on a busy machine
    found = cell(clusters, how, tool="curl", streams=1, file_size=SIZE)
    assert found["status"] == "ok", found["message"]
    assert "files_missing" in found["flags"]
    assert 0 < found["summary"]["transfers"] < 1000


def test_a_record_that_is_lost_is_flagged(clusters: NetnsSite, monkeypatch: pytest.MonkeyPatch) -> None:
    original = clusters.monitor.copies

    def deaf_to_the_fourth() -> list[Copy]:
        return [copy for copy in original() if not copy.name.endswith(".3")]

    monkeypatch.setattr(clusters.monitor, "copies", deaf_to_the_fourth)
    found = whole(clusters, files(6), tool="curl", streams=1, file_size=MIB)
    assert "monitoring_disagrees" in found["flags"]
    assert found["summary"]["xrootd_share"] == pytest.approx(5 / 6, abs=1e-5)


def test_a_cell_beside_busy_processes_is_disturbed(clusters: NetnsSite) -> None:
    loop = [sys.executable, "-c", "while True: pass"]
    with background(loop), background(loop):
        found = whole(clusters, seconds(3), tool="curl", streams=2, file_size=SIZE)
    summary = found["summary"]
    assert "disturbed" in found["flags"]
    assert 0.1 < summary["machine_others"] <= summary["machine_cpu"]
    assert summary["machine_work"] > 0


def test_loss_is_seen_as_retransmissions(tmp_path: Path) -> None:
    with site_of(tmp_path, rtt=2, loss=0.01, bandwidth=0.2, mtu=1500) as site:
        found = whole(site, files(1), streams=2, file_size=16 * MIB)
        summary = found["summary"]
        sent = summary["wire_throughput"] * summary["duration"]  # Gbit
        assert 0.004 < summary["retransmits"] * 1500 * 8e-9 / sent < 0.03
        assert summary["path_drops"] > 0
