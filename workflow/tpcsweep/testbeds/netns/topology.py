# SPDX-License-Identifier: Apache-2.0
"""Names, addresses and the network commands of a deployment. Pure.

    src1 … srcN ─┐                                   ┌─ dst1 … dstN
                 ├─ bridge │ near ══ path ══ far │ bridge ─┤
    srcm (cms) ──┤                                   └── dstm (cms)
        client ──┘

Each side is a LAN behind a router namespace; RTT, bandwidth, loss and MTU act on the link between the two routers
alone. The client is beside the source, as on other testbeds: what it says to the destination crosses the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tpcsweep.xrootd import servers as xrootd

SIDES = ("src", "dst")
CLIENT_SIDE = "src"
ENTRY = {"src": "10.88.1.1", "dst": "10.88.2.1"}
LAN = {"src": "10.88.1.0/24", "dst": "10.88.2.0/24"}
GATEWAY = {"src": "10.88.1.254", "dst": "10.88.2.254"}
CLIENT = "10.88.3.1"
"""On the source's LAN, and of no LAN's addresses: what is done to all connections across the path spares its own."""
LINK = {"src": "10.88.0.1", "dst": "10.88.0.2"}
ROUTER = {"src": "near", "dst": "far"}
ORIGIN = {"src": "10.88.1.{}", "dst": "10.88.2.{}"}
FIRST_ORIGIN = 11
INTERFACE = "tpc-eth"
"""The interface of every server, and the client's."""
PATH_INTERFACE = "tpc-path"
NOTHING_INHERITED = {"net.ipv4.tcp_no_metrics_save": "1"}
"""The window of one cell must not be inherited by the next. A sysctl of every namespace that has connections."""


@dataclass(frozen=True)
class Node:
    """A server's namespace: one interface on its side's LAN."""

    name: str
    side: str
    address: str

    @property
    def port(self) -> str:
        """The other end of its interface, in the router."""
        return f"tpc-{self.name}"


def origin_addresses(side: str, origins: int) -> list[str]:
    """Give the addresses of a side's origins: a lone one is the side's entry itself."""
    if origins == 1:
        return [ENTRY[side]]
    return [ORIGIN[side].format(FIRST_ORIGIN + n) for n in range(origins)]


def namespaces(prefix: str, nodes: list[Node]) -> list[str]:
    """Give the names of all namespaces of a deployment, which begin with its prefix."""
    return [f"{prefix}-{name}" for name in ("near", "far", "client", *(node.name for node in nodes))]


def lan_commands(prefix: str, nodes: list[Node], mtu: int) -> Iterator[tuple[str, list[str]]]:
    """Give the lines of one `ip -batch` for each namespace, in an order that works: routers first."""
    for side in SIDES:
        lines = [
            "link set lo up",
            f"link add tpc-lan mtu {mtu} type bridge",
            f"addr add {GATEWAY[side]}/24 dev tpc-lan",
            "link set tpc-lan up",
        ]
        ports = [(node.port, node.name) for node in nodes if node.side == side]
        if side == CLIENT_SIDE:
            ports.append(("tpc-client", "client"))
        for port, name in ports:
            lines += [
                f"link add {port} mtu {mtu} type veth peer name {INTERFACE} mtu {mtu} netns {prefix}-{name}",
                f"link set {port} master tpc-lan up",
            ]
        if side == CLIENT_SIDE:
            lines.append(f"route add {CLIENT} dev tpc-lan")
        yield f"{prefix}-{ROUTER[side]}", lines
    for node in nodes:
        lines = [
            "link set lo up",
            f"addr add {node.address}/24 dev {INTERFACE}",
            f"link set {INTERFACE} up",
        ]
        if node.side == CLIENT_SIDE:
            lines.append(f"route add {CLIENT} dev {INTERFACE}")
        yield f"{prefix}-{node.name}", lines
    yield (
        f"{prefix}-client",
        [
            "link set lo up",
            f"addr add {CLIENT}/32 dev {INTERFACE}",
            f"link set {INTERFACE} up",
            f"route add {LAN[CLIENT_SIDE]} dev {INTERFACE} src {CLIENT}",
        ],
    )


def route_commands(
    prefix: str, nodes: list[Node], congestion_control: str
) -> Iterator[tuple[str, list[str]]]:
    """Give the lines of one `ip -batch` for each namespace that make the routes across the path.

    Congestion control goes on the routes: inside a namespace its sysctl may be refused.
    """
    for side, other in (SIDES, SIDES[::-1]):
        across = [LAN[other], CLIENT] if other == CLIENT_SIDE else [LAN[other]]
        yield f"{prefix}-{ROUTER[side]}", [f"route add {network} via {LINK[other]}" for network in across]
        names = [node.name for node in nodes if node.side == side]
        for name in [*names, "client"] if side == CLIENT_SIDE else names:
            way = f"via {GATEWAY[side]} congctl {congestion_control}"
            yield f"{prefix}-{name}", [f"route add {network} {way}" for network in across]


def sysctls(tcp_buffer: int) -> dict[str, str]:
    """Give what is set in every server's namespace, for TCP buffers of at most so many bytes."""
    return {**xrootd.buffer_sysctls(tcp_buffer), **NOTHING_INHERITED}
