# SPDX-License-Identifier: Apache-2.0
"""One origin on each side: what a deployment carries, and what is seen of it."""

import re
import subprocess
import threading

import psutil
import pytest
from tpcsweep.client import Client
from tpcsweep.linux.namespaces import inside
from tpcsweep.measure.readings import Reading
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.xrootd import servers as xrootd

from tests.support.sites import MIB, left
from tests.support.workflow import finished, wait_until


def four_streams(site: NetnsSite, tool: str) -> Client:
    run = {"tool": tool, "streams": 4, "pairs": site.pairs("direct"), "prefix": tool, "tcp_streams": 1}
    client = site.client_of(tool)
    client.run(**run, file_name=site.add_source(64 * MIB, "sparse", 1), copy_mode="pull")
    return client


def test_settings_are_as_found(pair: NetnsSite) -> None:
    expected = {"src.net.ipv4.tcp_wmem": f"4096 16384 {8 * MIB}", "src.congestion_control": "cubic"}
    expected |= {"dst.net.ipv4.tcp_rmem": f"4096 {MIB} {8 * MIB}"}
    assert expected.items() <= pair.provenance["sysctls"].items()
    assert pair.provenance["path"]["mtu_bytes"] == 1500


def test_connections_are_those_that_ss_shows(pair: NetnsSite) -> None:
    client = four_streams(pair, "gfal-copy")
    wait_until(lambda: pair.read().connections >= 4, "all streams have a connection")
    looks: list[tuple[str, Reading]] = []

    def looked_while_none_came_or_went() -> bool:
        before = pair.read().connections
        command = inside(f"{pair.prefix}-src1", ["ss", "-tinH", "dst", "10.88.2.0/24"])
        shown = subprocess.check_output(command, text=True)
        looks.append((shown, pair.read()))
        return before == looks[-1][1].connections

    wait_until(looked_while_none_came_or_went, "connections stay for as long as a look takes")
    client.stop()
    pair.settle()
    shown, reading = looks[-1]
    assert abs(reading.connections - shown.count("cwnd:")) <= 1
    rtts = [float(rtt) for rtt in re.findall(r"\brtt:([0-9.]+)", shown)]  # ms
    assert min(rtts) / 10 < reading.rtt_loaded < max(rtts) * 10  # a moment later
    assert reading.rtt_loaded > 0.9 * 2
    assert reading.cwnd > 2


def test_a_client_without_credentials_is_refused(pair: NetnsSite) -> None:
    url = f"{pair.sides['src'].origins[0].url}/{xrootd.READY_FILE}"
    command = inside(f"{pair.prefix}-client", ["curl", "-sk", "-w", "%{http_code}", url])
    assert finished(command).stdout.endswith("403")


def test_a_cell_settles_when_servers_have_read_all(pair: NetnsSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without a CPU reads no request, and notices no connection that was cut."""
    monkeypatch.setattr("tpcsweep.testbeds.netns.site.SETTLE_SECONDS", 600.0)
    client = four_streams(pair, "curl")
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
