# SPDX-License-Identifier: Apache-2.0
"""Names, addresses and network commands of a deployment. Pure.

    src1 … srcN ─┐                                   ┌─ dst1 … dstN
                 ├─ bridge │ near ══ path ══ far │ bridge ─┤
    srcm (cms) ──┤                                   └── dstm (cms)
        client ──┘

Each side is a LAN behind a router namespace. RTT, bandwidth, loss and MTU apply only to the link between the routers.
As on other testbeds, the client is on the source side: its requests to the destination cross the path.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.deploying.xrootd.server_config import SideServers
from tpcsweep.sweeps.parameters import DeploymentParameters, sysctls

SIDES = ("src", "dst")
CLIENT_SIDE = "src"
ENTRY = {"src": "10.88.1.1", "dst": "10.88.2.1"}
LAN = {"src": "10.88.1.0/24", "dst": "10.88.2.0/24"}
GATEWAY = {"src": "10.88.1.254", "dst": "10.88.2.254"}
CLIENT = "10.88.3.1"
"""The client's address on the source's LAN, outside its subnet.

Cutting the servers' connections across the path therefore spares the client's connections.
"""
LINK = {"src": "10.88.0.1", "dst": "10.88.0.2"}
ROUTER = {"src": "near", "dst": "far"}
ORIGIN = {"src": "10.88.1.{}", "dst": "10.88.2.{}"}
FIRST_ORIGIN = 11
INTERFACE = "tpc-eth"  # the network interface of every server and of the client
PATH_INTERFACE = "tpc-path"
NOTHING_INHERITED = {"net.ipv4.tcp_no_metrics_save": "1"}
"""Sysctl of all namespaces with connections: a cell must not inherit the TCP window of an earlier one."""


Sides = Mapping[str, SideServers]  # servers by the names in SIDES


def sides(folder: Path, origins: int) -> Sides:
    """Return the servers of a deployment in a folder. A single origin has its side's entry address."""
    made = {}
    for name, entry in ENTRY.items():
        several = [ORIGIN[name].format(FIRST_ORIGIN + n) for n in range(origins)]
        addresses = several if origins > 1 else [entry]
        made[name] = xrootd.side_servers(name, entry, addresses, folder / "nodes", folder / "data" / name)
    return made


def hosts(prefix: str, sides: Sides) -> list[str]:
    servers = [server.name for side in sides.values() for server in side.servers]
    return [f"{prefix}-{name}" for name in ("client", *servers)]


def namespaces(prefix: str, sides: Sides) -> list[str]:
    return [f"{prefix}-near", f"{prefix}-far", *hosts(prefix, sides)]


def lan_commands(prefix: str, sides: Sides, mtu: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of one `ip -batch` for each namespace that create the LANs, routers first."""
    for name, side in sides.items():
        lines = [
            "link set lo up",
            f"link add tpc-lan mtu {mtu} type bridge",
            f"addr add {GATEWAY[name]}/24 dev tpc-lan",
            "link set tpc-lan up",
        ]
        for host in [*(server.name for server in side.servers), *(["client"] if name == CLIENT_SIDE else [])]:
            lines += [
                f"link add tpc-{host} mtu {mtu} type veth peer name {INTERFACE} mtu {mtu} netns {prefix}-{host}",
                f"link set tpc-{host} master tpc-lan up",
            ]
        if name == CLIENT_SIDE:
            lines.append(f"route add {CLIENT} dev tpc-lan")
        yield f"{prefix}-{ROUTER[name]}", lines
    for name, side in sides.items():
        to_client = [f"route add {CLIENT} dev {INTERFACE}"] if name == CLIENT_SIDE else []
        for server in side.servers:
            yield f"{prefix}-{server.name}", [*_host_commands(f"{server.address}/24"), *to_client]
    to_lan = f"route add {LAN[CLIENT_SIDE]} dev {INTERFACE} src {CLIENT}"
    yield f"{prefix}-client", [*_host_commands(f"{CLIENT}/32"), to_lan]


def _host_commands(address: str) -> list[str]:
    return ["link set lo up", f"addr add {address} dev {INTERFACE}", f"link set {INTERFACE} up"]


def route_commands(
    prefix: str, sides: Sides, wanted: DeploymentParameters
) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of one `ip -batch` for each namespace that create routes across the path.

    Congestion control is set on routes, because its sysctl may be refused inside a namespace.
    """
    for side, other in (SIDES, SIDES[::-1]):
        across = [LAN[other], CLIENT] if other == CLIENT_SIDE else [LAN[other]]
        yield f"{prefix}-{ROUTER[side]}", [f"route add {network} via {LINK[other]}" for network in across]
        names = [server.name for server in sides[side].servers]
        for name in [*names, "client"] if side == CLIENT_SIDE else names:
            way = f"via {GATEWAY[side]} congctl {wanted.congestion_control}"
            yield f"{prefix}-{name}", [f"route add {network} {way}" for network in across]


def tcp_sysctls(wanted: DeploymentParameters) -> dict[str, str]:
    return {**sysctls("netns", wanted), **NOTHING_INHERITED}


def sysctls_of_nodes(sides: Sides, wanted: DeploymentParameters) -> dict[str, dict[str, str]]:
    servers = [server.name for side in sides.values() for server in side.servers]
    return {
        **{server: tcp_sysctls(wanted) for server in servers},
        "client": NOTHING_INHERITED,
        **{router: {"net.ipv4.ip_forward": "1"} for router in ROUTER.values()},
    }
