# SPDX-License-Identifier: Apache-2.0
"""Sizes, limits, commands and parsers of paths, and the topology of a deployment: pure."""

from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.common.processes import CommandError, Commands
from tpcsweep.deploying.linux import sysctls
from tpcsweep.deploying.linux.namespaces import call_in_namespace, parse_net_dev
from tpcsweep.deploying.paths import network_path, udp_looks
from tpcsweep.deploying.paths.delayline import Direction
from tpcsweep.deploying.paths.link import (
    Rtt,
    calibrate_line,
    line_counters,
    offloads,
    parse_ping,
    qdisc_counters,
)
from tpcsweep.deploying.paths.network_path import HEADERS, NetworkPath, PathError
from tpcsweep.deploying.paths.verification import allowed_rtt
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.testbeds.netns import topology

rates, losses, mtus = st.floats(0.001, 100), st.floats(0, 0.15), st.integers(576, 65521)
paths = st.builds(NetworkPath, rtt=st.floats(0, 2000), bandwidth=rates, loss=losses, mtu=mtus)
losses, limits = st.sampled_from([0.0, 0.01]), st.integers(1, 2**32 - 1)
limited = st.builds(replace, paths, rtt=st.floats(0.1, 2000), loss=losses, queue_limit=limits)


def test_the_commands_of_a_path_are_these() -> None:
    lossy = NetworkPath(rtt=50, bandwidth=2, loss=0.001, mtu=9000)
    for ahead, do, limit, queue in ((0, "add", 5167, 12_500_000), (9_000_000, "change", 6167, 21_500_000)):
        assert network_path.qdiscs(lossy, "netem", ahead, do) == [
            f"qdisc {do} dev tpc-path root handle 1: netem delay 25000us loss 0.1% limit {limit}",
            f"qdisc {do} dev tpc-path parent 1:1 handle 10: tbf rate 2000000000bit burst 250000b limit {queue}b",
        ]
    assert network_path.qdiscs(replace(lossy, queue_limit=7), "netem", 9_000_000)[0].endswith(" limit 7")
    rate = "qdisc add dev tpc-path root handle 10: tbf rate 100000000bit burst 131072b limit 262144b"
    assert network_path.qdiscs(NetworkPath(rtt=0, bandwidth=0.1), "none") == [rate]


def test_netems_default_limit_at_120_ms_is_the_cap_that_was_measured() -> None:
    # Without super-packets: docs/paths.md.
    for mtu, cap in ((9000, 0.6), (1500, 0.1)):
        assert network_path.queue_rate(1000, mtu, 120) == pytest.approx(cap)


@given(limited)
def test_the_caps_of_a_limit_are_described_from_the_smallest_packets_to_the_largest(
    path: NetworkPath,
) -> None:
    described = network_path.describe_limit(path)
    small, large = described["queue_cap_gbit_per_s"].values()
    assert described["queue_limit_packets"] == path.queue_limit
    assert small == large if path.loss else small < large
    assert network_path.describe_limit(replace(path, queue_limit=None)) == {}


@given(paths)
def test_a_queue_holds_a_bdp_and_super_packets_and_netems_limit_caps_no_rate(path: NetworkPath) -> None:
    cap = network_path.netem_limit(path) * path.mtu * 8 / 1e9 / max(path.rtt / 2e3, 1e-9)  # Gbit/s
    assert cap >= 4 * path.bandwidth or network_path.bdp(path) == 0
    assert network_path.netem_limit(path) * path.mtu >= network_path.queue_bytes(path) + network_path.bdp(
        path
    )
    assert network_path.queue_bytes(path) >= min(
        max(network_path.bdp(path), 4 * network_path.SUPER_PACKET), network_path.LARGEST_LIMIT
    )
    assert network_path.burst(path) >= 2 * network_path.SUPER_PACKET
    under_way = path.bandwidth * path.rtt / 2 * 125_000
    assert network_path.memory(path) >= under_way + network_path.queue_bytes(path) + network_path.sent_ahead(
        path
    ) + network_path.burst(path)
    # A tick is short beside what an RTT may be off.
    assert 0.1 <= network_path.tick_ns(path) / 1e6 <= min(1, allowed_rtt(path.rtt) + 1e-6)


@pytest.mark.parametrize(
    ("path", "netem_works", "emulator"),
    [
        (NetworkPath(0, 1), True, "none"),
        (NetworkPath(0, 1, loss=0.01), True, "netem"),
        (NetworkPath(10, 1), True, "netem"),
        (NetworkPath(10, 1), False, "delayline"),
    ],
)
def test_path_and_kernel_decide_on_the_emulator(path: NetworkPath, netem_works: bool, emulator: str) -> None:
    assert network_path.choose_emulator(path, netem_works=netem_works) == emulator
    # Only netem with loss needs origins that send single packets.
    alone = network_path.segmentation_command(
        path, network_path.choose_emulator(path, netem_works=netem_works), "eth0"
    )
    assert alone == (["ethtool", "-K", "eth0", "tso", "off", "gso", "off"] if path.loss else [])


@pytest.mark.parametrize(
    ("measured", "rtt", "base", "delay"),
    [
        (1.25, 10, 0.25, 4_875_000),
        (0.9, 10, 0, 5_000_000),
        (30, 10, 1, 4_500_000),  # a busy machine, not the delay line
        (1.25, 0, 0.25, 0),
    ],
)
def test_the_delay_lines_own_cost_is_subtracted(measured: float, rtt: float, base: float, delay: int) -> None:
    line, found = SimpleNamespace(delay=0), SimpleNamespace(median=measured)
    link: Any = SimpleNamespace(line=line, path=NetworkPath(rtt, 1), base_rtt=0.0, rtt=lambda: found)
    calibrate_line(link)
    assert (link.base_rtt, line.delay) == (pytest.approx(base), delay)


PING = """64 bytes from 10.88.0.2: icmp_seq=1 ttl=64 time=0.945 ms
64 bytes from 10.88.0.2: icmp_seq=2 ttl=64 time=100 ms
64 bytes from 10.88.0.2: icmp_seq=3 ttl=64 time=10.2 ms
4 packets transmitted, 3 received, 25% packet loss, time 3ms
rtt min/avg/max/mdev = 0.945/37.0/100.1/44.7 ms
"""


def test_pings_are_read_line_by_line_and_ethtool_and_net_dev_by_column() -> None:
    assert parse_ping(PING) == Rtt(min=0.945, median=10.2, max=100, samples=3)
    with pytest.raises(PathError, match="no times"):
        parse_ping("nothing")
    text = "Features for tpc-path:\ntcp-segmentation-offload: on\n\ttx-tcp-segmentation: on\n"
    text += "generic-receive-offload: off [requested on]\n"
    assert offloads(text) == {"tcp-segmentation-offload": True, "generic-receive-offload": False}
    numbers = " ".join(map(str, range(1, 17)))
    text = f"Inter-| Receive | Transmit\n face |bytes ...\n  tpc-path: {numbers}\n"
    received, sent = {"rx_bytes": 1, "rx_packets": 2, "rx_dropped": 4}, {"tx_bytes": 9, "tx_packets": 10}
    assert parse_net_dev(text) == {"tpc-path": received | sent | {"tx_dropped": 12}}


@given(paths, st.integers(1, 1000), st.sampled_from([28, 42]))
def test_counters_give_the_bytes_that_tbf_counts(path: NetworkPath, count: int, header: int) -> None:
    payload, segments = udp_looks.packets(path)
    assert payload + HEADERS == path.mtu
    assert 1 <= segments <= 64 and segments * payload <= udp_looks.LARGEST_DATAGRAM
    on_the_wire = count * segments * (payload + header)
    # Whole super-packets, or cut into segments.
    for number, size in ((count, count * (segments * payload + header)), (count * segments, on_the_wire)):
        counted = {"rx_packets": number, "rx_bytes": size}
        assert network_path.wire_bytes(counted, payload, header) == pytest.approx(on_the_wire)


def test_netems_losses_exclude_drops_of_its_childs_full_queue() -> None:
    netem = {"kind": "netem", "drops": 12, "backlog": 3000}
    tbf = {"kind": "tbf", "drops": 5, "backlog": 1000}
    both = {"queued_bytes": 3000, "delayed_bytes": 0}
    # Where nothing is lost at random, it had no room: its limit.
    for lossy, queue, lost in ((True, 5, 7), (False, 12, 0)):
        found = qdisc_counters([netem, tbf], lossy=lossy)
        assert found == {"dropped_queue": queue, "dropped_random": lost, **both}
    assert qdisc_counters([tbf], lossy=True)["dropped_random"] == 0
    with pytest.raises(PathError, match="no tbf on tpc-path; found noqueue"):
        qdisc_counters([{"kind": "noqueue"}], lossy=False)


@pytest.mark.parametrize(
    ("held", "now", "queued"),
    [(500_000, 10_000_000, 250_000), (500_000, 12_000_000, 0), (500_000, 10**12, 0), (100, 10_000_000, 100)],
)
def test_bytes_in_the_delay_line_are_queued_or_delayed(held: int, now: int, queued: int) -> None:
    """The queue is as long as the bottleneck is busy: 2 ms of 1 Gbit/s are 250,000 bytes."""
    seen = Direction(7, 9000, 3, 2, 7 * 4000, 9000, held, busy=12_000_000)
    counted = {"dropped_queue": 3, "dropped_random": 3, "late_mean_us": 4, "late_max_us": 9}
    bytes_held = {"queued_bytes": queued, "delayed_bytes": held - queued}
    assert line_counters(seen, NetworkPath(10, 1), now, refused=1) == counted | bytes_held


def test_the_log_can_be_pasted_and_gives_the_same_again(tmp_path: Path) -> None:
    commands = Commands(tmp_path / "log")
    said = commands.run(["echo", "a b; c"]) + commands.run(["cat"], input="x $HOME\ny\n")
    assert said == "a b; c\nx $HOME\ny\n"
    assert Commands(tmp_path / "other").run(["sh", str(tmp_path / "log")]) == said


def test_a_failing_command_and_a_missing_namespace_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="/run/netns/tpc-not-there"):
        call_in_namespace("tpc-not-there", lambda: None)
    commands = Commands(tmp_path / "log")
    with pytest.raises(CommandError, match=r"sh -c 'echo no >&2; exit 3': exit code 3 after .* s: no"):
        commands.run(["sh", "-c", "echo no >&2; exit 3"])
    assert "#   no\n# exit 3," in commands.log.read_text()
    with pytest.raises(CommandError, match=r"did not run to its end.*No such file"):
        commands.run(["/not/there"])


def sides(origins: int) -> topology.Sides:
    return topology.sides(Path(), origins)


def test_every_address_is_its_own_and_in_its_sides_network() -> None:
    found = [*topology.GATEWAY.values(), topology.CLIENT]
    for name, side in sides(16).items():
        found += [server.address for server in side.servers]
        assert all(ip_address(one.address) in ip_network(topology.LAN[name]) for one in side.servers)
    assert len(set(found)) == len(found)


def test_every_name_begins_with_the_prefix_and_fits_the_kernel() -> None:
    made = sides(99)
    assert all(name.startswith("tpc-x-") for name in topology.namespaces("tpc-x", made))
    commands = [line.split() for _, lines in topology.lan_commands("tpc-x", made, 1500) for line in lines]
    added = [words[2] for words in commands if words[:2] == ["link", "add"]]
    added += [words[words.index("name") + 1] for words in commands if "name" in words]
    assert len(added) == 2 + 2 * len(topology.hosts("tpc-x", made))
    assert all(name.startswith("tpc-") and len(name) < 16 for name in added)


def test_only_routers_know_the_way_across_and_the_client_beside_the_source_goes_it_too() -> None:
    lans = dict(topology.lan_commands("p", sides(2), 1500))
    routes = dict(topology.route_commands("p", sides(2), Parameters(congestion_control="reno")))
    assert routes["p-near"] == ["route add 10.88.2.0/24 via 10.88.0.2"]
    across = ["route add 10.88.2.0/24 via 10.88.1.254 congctl reno"]
    assert routes["p-src1"] == routes["p-client"] == across
    assert [name for name, lines in lans.items() if any("tpc-client" in line for line in lines)] == ["p-near"]
    back = f"route add {topology.CLIENT} via"
    assert f"{back} {topology.LINK['src']}" in routes["p-far"]
    assert f"{back} {topology.GATEWAY['dst']} congctl reno" in routes["p-dst1"]


def test_a_small_buffer_bounds_the_default_too() -> None:
    small, large = (topology.tcp_sysctls(Parameters(tcp_buffer=size)) for size in (8192, 1 << 26))
    assert small["net.ipv4.tcp_rmem"] == "4096 8192 8192"
    assert large["net.ipv4.tcp_wmem"] == f"4096 16384 {1 << 26}"


def test_a_sysctl_that_the_kernel_lacks_or_changes_is_named() -> None:
    found = sysctls.in_force(["net.ipv4.tcp_rmem", "net.ipv4.no_such_thing"])
    assert list(found) == ["net.ipv4.tcp_rmem"] and len(found["net.ipv4.tcp_rmem"].split()) == 3
    assert list(sysctls.mismatches(found, found)) == []
    wanted = {"net.ipv4.tcp_rmem": "1 2 3", "net.ipv4.no_such_thing": "1"}
    assert [why for _, why in sysctls.mismatches(wanted, {"net.ipv4.tcp_rmem": "1 2 2"})] == [
        "net.ipv4.tcp_rmem is 1 2 2 instead of 1 2 3",
        "net.ipv4.no_such_thing is missing instead of 1",
    ]
