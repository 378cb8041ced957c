# SPDX-License-Identifier: Apache-2.0
import ipaddress
from pathlib import Path

import pytest
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.testbeds.netns import topology


def sides(origins: int) -> topology.Sides:
    return topology.sides(Path(), origins)


@pytest.mark.parametrize("origins", [1, 16])
def test_every_address_is_its_own_and_in_its_sides_network(origins: int) -> None:
    found = [*topology.GATEWAY.values(), topology.CLIENT]
    for name, side in sides(origins).items():
        for server in side.servers:
            found.append(server.address)
            assert ipaddress.ip_address(server.address) in ipaddress.ip_network(topology.LAN[name])
    assert len(set(found)) == len(found)


def test_every_name_begins_with_the_prefix_and_fits_the_kernel() -> None:
    made = sides(99)
    assert all(name.startswith("tpc-0a1b2c-") for name in topology.namespaces("tpc-0a1b2c", made))
    assert all(len(f"tpc-{server.name}") < 16 for side in made.values() for server in side.servers)


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


def test_every_interface_that_is_made_has_our_prefix() -> None:
    made = sides(2)
    commands = [line.split() for _, lines in topology.lan_commands("tpc-x", made, 1500) for line in lines]
    added = [words[2] for words in commands if words[:2] == ["link", "add"]]
    added += [words[words.index("name") + 1] for words in commands if "name" in words]
    assert len(added) == 2 + 2 * len(topology.hosts("tpc-x", made))
    assert all(name.startswith("tpc-") for name in added)
