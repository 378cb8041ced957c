# SPDX-License-Identifier: Apache-2.0
"""Names, addresses and the network commands of a deployment. Pure.

    src1 … srcN ─┐                                   ┌─ dst1 … dstN
                 ├─ bridge │ near ══ path ══ far │ bridge ─┤
    srcm (cms) ──┤                                   ├── dstm (cms)
                 └───────────── client ──────────────┘

Each side is a LAN behind a router namespace; RTT, bandwidth, loss and MTU act on the link between the two routers
alone. The client has a leg in both LANs, so that its control traffic neither waits on the path nor loads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tpcsweep.xrootd import servers as xrootd

SIDES = ("src", "dst")
ENTRY = {"src": "10.88.1.1", "dst": "10.88.2.1"}
LAN = {"src": "10.88.1.0/24", "dst": "10.88.2.0/24"}
GATEWAY = {"src": "10.88.1.254", "dst": "10.88.2.254"}
CLIENT = "10.88.3.1"
"""On both LANs the same: the root protocol's third-party copies go by who comes from where."""
LINK = {"src": "10.88.0.1", "dst": "10.88.0.2"}
ROUTER = {"src": "near", "dst": "far"}
ORIGIN = {"src": "10.88.1.{}", "dst": "10.88.2.{}"}
FIRST_ORIGIN = 11
INTERFACE = "tpc-eth"
"""The interface of every server."""
PATH_INTERFACE = "tpc-path"


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
        ports = [(node.port, f"{prefix}-{node.name}", INTERFACE) for node in nodes if node.side == side]
        for port, peer, interface in [*ports, ("tpc-client", f"{prefix}-client", f"tpc-{side}")]:
            lines += [
                f"link add {port} mtu {mtu} type veth peer name {interface} mtu {mtu} netns {peer}",
                f"link set {port} master tpc-lan up",
            ]
        yield f"{prefix}-{ROUTER[side]}", lines
    for node in nodes:
        lines = [
            "link set lo up",
            f"addr add {node.address}/24 dev {INTERFACE}",
            f"link set {INTERFACE} up",
            f"route add {CLIENT} dev {INTERFACE}",
        ]
        yield f"{prefix}-{node.name}", lines
    lines = ["link set lo up"]
    for side in SIDES:
        lines += [
            f"addr add {CLIENT}/32 dev tpc-{side}",
            f"link set tpc-{side} up",
            f"route add {LAN[side]} dev tpc-{side} src {CLIENT}",
        ]
    yield f"{prefix}-client", lines


def route_commands(
    prefix: str, nodes: list[Node], congestion_control: str
) -> Iterator[tuple[str, list[str]]]:
    """Give the lines of one `ip -batch` for each namespace that make the routes across the path.

    Congestion control goes on the routes: inside a namespace its sysctl may be refused.
    """
    for side, other in (SIDES, SIDES[::-1]):
        yield f"{prefix}-{ROUTER[side]}", [f"route add {LAN[other]} via {LINK[other]}"]
        for node in nodes:
            if node.side == side:
                line = f"route add {LAN[other]} via {GATEWAY[side]} congctl {congestion_control}"
                yield f"{prefix}-{node.name}", [line]


def sysctls(tcp_buffer: int) -> dict[str, str]:
    """Give what is set in every server's namespace, for TCP buffers of at most so many bytes."""
    return {
        **xrootd.buffer_sysctls(tcp_buffer),
        # The window of one cell must not be inherited by the next.
        "net.ipv4.tcp_no_metrics_save": "1",
    }
