# SPDX-License-Identifier: Apache-2.0
"""How data go from side to side, as seen on the path, with servers that ask for credentials and with others."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpcsweep.deploying.linux.namespaces import socket_inside
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.testbeds.netns import topology
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import CLIENT_FOR_HTTP, MIB, arrives, site_of

ETH_P_ALL, SO_RCVBUFFORCE = 3, 33  # of the kernel's; Python has no names for them
HANDSHAKE = b"\x16\x03"
"""What each side of a TLS connection sends first: a record of type 22, version 3.x (RFC 8446, 5.1)."""
CLIENT = socket.inet_aton(topology.CLIENT)
WITH_FILES = {
    name: tool
    for name, tool in TOOLS.items()
    if "memory_to_memory" in tool.layers and (CLIENT_FOR_HTTP or not tool.own_release)
}


def ways(authorization: str) -> list[tuple[str, str, str]]:
    """Tool, copy mode and encryption of all that such servers are asked for."""
    asked = []
    for name, tool in WITH_FILES.items():
        if authorization == "usual" or authorization in tool.authorizations:
            plain_too = authorization == "none" or not tool.needs_tls
            encryptions = tool.encryptions if plain_too else tool.encryptions[:1]
            asked += [(name, mode, encryption) for mode in tool.copy_modes for encryption in encryptions]
    return asked


def wire(site: NetnsSite) -> socket.socket:
    """What crosses the path from now on."""
    near = f"{site.prefix}-{topology.ROUTER['src']}"
    seen = socket_inside(near, socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    seen.bind((topology.PATH_INTERFACE, ETH_P_ALL))
    seen.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 * MIB)
    seen.setblocking(False)
    return seen


def payloads(seen: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """The payloads of TCP between servers so far, each with what tells its direction of its connection."""
    with seen, contextlib.suppress(BlockingIOError):
        while packet := seen.recv(1 << 16):
            head = 4 * (packet[0] & 15)
            ends = packet[12:16], packet[16:20]
            # What the client says to the destination crosses the path, and is as its credentials ask for.
            if packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP and CLIENT not in ends:
                data = packet[head + 4 * (packet[head + 12] >> 4) : int.from_bytes(packet[2:4])]
                if data:
                    yield packet[12:20] + packet[head : head + 4], data


def assert_carried(site: NetnsSite, tool: str, copy_mode: str, encryption: str, authorization: str) -> None:
    seen = wire(site)
    how = {"copy_mode": copy_mode, "encryption": encryption, "authorization": authorization}
    arrives(site, tool, endpoint="direct", **how)
    carried = list(payloads(seen))
    first = dict(reversed(carried))
    # Files of other tests may be left. Some of these slices lie whole in a packet.
    contents = [file.read_bytes() for file in site.sides["src"].files.glob("random*")]
    slices = [content[at : at + 16] for content in contents for at in range(0, len(content) - 16, MIB // 4)]
    plain = any(piece in data for _, data in carried for piece in slices)
    # GridFTP has connections of its own for data, on which the source alone speaks.
    encrypted = {data.startswith(HANDSHAKE) for data in first.values()}
    assert (encrypted, plain) == (({True}, False) if encryption == "tls" else ({False}, True))


@pytest.mark.parametrize(("tool", "copy_mode", "encryption"), ways("usual"))
def test_data_go_as_asked(pair: NetnsSite, tool: str, copy_mode: str, encryption: str) -> None:
    assert_carried(pair, tool, copy_mode, encryption, "usual")


@pytest.mark.parametrize(
    ("tool", "copy_mode", "encryption"), [way for way in ways("none") if way not in ways("usual")]
)
def test_open_servers_send_as_asked(open_pair: NetnsSite, tool: str, copy_mode: str, encryption: str) -> None:
    assert_carried(open_pair, tool, copy_mode, encryption, "none")


def test_clusters_let_everybody_in(tmp_path: Path) -> None:
    with site_of(tmp_path, tools=["xrdcp"], origins=2, bandwidth=0.2, authorization="none") as site:
        for tool in ("gfal-copy", "gfal2", "curl", "native", "xrdcp"):
            arrives(site, tool, authorization="none")
        arrives(site, "curl", endpoint="direct", authorization="none", encryption="none")
