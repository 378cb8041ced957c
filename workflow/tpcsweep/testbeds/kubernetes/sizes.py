# SPDX-License-Identifier: Apache-2.0
"""What agents and redirectors are limited to, where a testbed's file does not say: by streams and buffers. Pure."""

from __future__ import annotations

from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.testbeds.kubernetes.verify import probe_connections

MIB = 2**20
CLIENT = {"cpu": "2", "memory": "2Gi"}
"""Of the client, unless a template says otherwise."""
HUB = {"cpu": "250m", "memory": "128Mi"}
"""Of the hub, which passes on what agents say ten times a second."""
AGENT_CPU, AGENT_MEMORY = 250, 128
"""Thousandths of a core and MiB of an agent beside few streams and before it looks at a path."""
LOOK_CPU = 0.2
"""Thousandths of a core for each stream: to look at a connection ten times a second takes half of that (8 µs a look,
`linux.sockets`, 200 to 4,000 connections)."""
REDIRECTOR_CPU, REDIRECTOR_MEMORY = 750, 512
"""With its agent a core, as much as shared clusters let idle."""
REDIRECT_CPU = 5
"""Thousandths of a core for each stream that begins a file every second: the client, a HEAD and a GET come to a
redirector, and each TLS handshake with its request takes it 1.5 ms (XRootD 5.5.3)."""
REDIRECT_MEMORY = 0.25
"""MiB for each stream: XRootD holds a buffer of 1 MiB for each of these connections and touches what its request fills,
so that 600 took less than 1 MiB; sockets and TLS come on top."""


def agent(wanted: DeploymentParameters, streams: int) -> dict[str, str]:
    """Give the limits of an agent.

    What its looks at the path have under way counts as its memory where cgroups are of version 2: up to `tcp_buffer`
    for each of their connections. With less, the kernel keeps their windows small, and they would not fill the path.

    Args:
        wanted: Buffers, and the path by which the connections of a look are counted.
        streams: The most of a cell, all of which one origin may have.
    """
    cpu = max(AGENT_CPU, AGENT_CPU / 2 + LOOK_CPU * streams)
    buffers = probe_connections(wanted, wanted.origins) * wanted.tcp_buffer / MIB
    return _limits(cpu, AGENT_MEMORY + buffers)


def redirector(streams: int) -> dict[str, str]:
    """Give the limits of a redirector, by the most streams of a cell: it hears of every file, and carries none."""
    memory = max(REDIRECTOR_MEMORY, REDIRECTOR_MEMORY / 2 + REDIRECT_MEMORY * streams)
    return _limits(max(REDIRECTOR_CPU, REDIRECT_CPU * streams), memory)


def _limits(cpu: float, memory: float) -> dict[str, str]:
    return {"cpu": f"{round(cpu)}m", "memory": f"{round(memory)}Mi"}
