# SPDX-License-Identifier: Apache-2.0
"""The network of a pod, and the emulated path to the other side's pods.

An emulated path delays, limits and drops packets to the other side alone, which needs NET_ADMIN:

    htb ── directly: all other packets
        └─ a class, chosen by the other side's addresses: netem (half of the RTT, loss) ── tbf (rate)

Both sides do it for packets that they send. Each origin gets its share of the rate.
Sources: tc-htb(8), tc-u32(8), tc-netem(8), tc-tbf(8).
"""

import asyncio
import contextlib
import errno
import json
import math
import socket
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tpcsweep.common import processes
from tpcsweep.deploying.linux.namespaces import boot_id, interface_to, network_identity
from tpcsweep.deploying.linux.sysctls import in_force
from tpcsweep.deploying.paths import network_path
from tpcsweep.deploying.paths.link import qdisc_counters
from tpcsweep.deploying.xrootd.server_config import LOOPBACK, parts_of
from tpcsweep.testbeds.kubernetes.pod.messages import detach

BLOCK = 1 << 16

PASS = f"rate 200gbit burst 1m cburst 1m quantum {network_path.SUPER_PACKET}"
"""A class with a higher rate than any path."""
_emulated: dict[str, network_path.NetworkPath] = {}  # the emulated path by its interface, if any


def describe_network(addresses: Iterable[str], sysctls: Iterable[str]) -> dict[str, Any]:
    """Describe machine and network: interfaces to some addresses, and the values of sysctls."""
    interfaces = sorted(set(map(interface_to, addresses)))
    network = {"network": network_identity(), "interfaces": interfaces, "sysctls": in_force(sysctls)}
    return {"boot": boot_id(), **network}


def own(address: str) -> None:
    """Raise RuntimeError for an address that this network lacks."""
    with socket.socket() as bound:
        try:
            bound.bind((address, 0))
        except OSError as error:
            unknown = error.errno == errno.EADDRNOTAVAIL
            why = "is no address of this node" if unknown else "cannot be used"
            raise RuntimeError(f"{address} {why}: {error.strerror}") from None


def commands(interface: str, path: network_path.NetworkPath, peers: list[str]) -> list[str]:
    """Return lines for `tc -batch -`. Pure."""
    device = f"dev {interface}"
    emulator = network_path.choose_emulator(path, netem_works=True)
    chosen = f"filter add {device} parent 4: protocol"
    six, four = "ipv6 prio 2 u32 match ip6 dst", "ip prio 1 u32 match ip dst"
    matches = [f"{six} {peer}/128" if ":" in peer else f"{four} {peer}/32" for peer in peers]
    return [
        f"qdisc replace {device} root handle 4: htb default 0",
        f"class add {device} parent 4: classid 4:1 htb {PASS}",
        *network_path.qdiscs(path, emulator, interface=interface, parent="parent 4:1"),
        *(f"{chosen} {match} flowid 4:1" for match in matches),
    ]


def share(path: network_path.NetworkPath, origins: int) -> network_path.NetworkPath:
    """Return the part of a path that each origin emulates, with a rate and queue of its own. Pure."""
    limit = None if path.queue_limit is None else max(1, path.queue_limit // origins)
    return replace(path, bandwidth=path.bandwidth / origins, queue_limit=limit)


def emulate(peers: list[str], **fields: Any) -> list[str]:
    """Emulate a path, with the fields of `NetworkPath`, to the other side's addresses, and return tc's input.

    Raises RuntimeError with tc's error, for instance if the kernel lacks sch_netem.
    """
    path = network_path.NetworkPath(**fields)
    interface = interface_to(peers[0])
    lines = commands(interface, path, peers)
    batch, text = ["tc", "-batch", "-"], "\n".join(lines)
    done = processes.run(batch, input=text)
    if done.returncode != 0:
        needs = "; netem needs the kernel module sch_netem on the node" if path.rtt or path.loss else ""
        raise RuntimeError(f"tc: {done.stderr.strip()}{needs}")
    if command := network_path.segmentation_command(path, "netem", interface):
        processes.run(command, check=True)
    _emulated[interface] = path
    return lines


def path_drops() -> dict[str, float]:
    """Return the packets that the emulated path dropped; real networks do not report them."""
    if not _emulated:
        return {"drops": math.nan, "queue_drops": math.nan}
    [(interface, path)] = _emulated.items()
    show = ["tc", "-s", "-j", "qdisc", "show", "dev", interface]
    counted = qdisc_counters(json.loads(processes.run(show, check=True).stdout), lossy=path.loss > 0)
    queue = counted["dropped_queue"]
    return {"drops": queue + counted["dropped_random"], "queue_drops": queue}


async def introduce(port: int, address: str, redirector: str) -> None:
    """Relay a port of the loopback to the redirector's address and port, from an address of this node.

    A redirector sends clients to the address from which an origin's cmsd connects (XrdCmsNode.cc, `setName`). All
    origins of a node would share the one of its route, as XRootD cannot choose another.
    Therefore cmsd connects to its agent.
    Raises OSError if the port is in use.
    """
    place = parts_of(redirector)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there = await asyncio.open_connection(*place, local_addr=(address, 0))
            detach(_pass_on(reader, there[1]))
            await _pass_on(there[0], writer)
        writer.close()

    await asyncio.start_server(serve, LOOPBACK, port)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(BLOCK):
            writer.write(data)
            await writer.drain()
    writer.close()
