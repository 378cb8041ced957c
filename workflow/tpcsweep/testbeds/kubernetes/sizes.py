# SPDX-License-Identifier: Apache-2.0
"""Limits of agents and redirectors by streams and buffers, unless a template says otherwise. Pure."""

from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.testbeds.kubernetes.verify import probe_connections

MIB = 2**20
CLIENT = {"cpu": "2", "memory": "2Gi"}  # limits of the client
HUB = {"cpu": "250m", "memory": "128Mi"}
"""Limits of the hub, which passes on the samples of all agents ten times a second."""
AGENT_CPU, AGENT_MEMORY = 250, 128
"""Thousandths of a core, and MiB, of an agent with few streams that verifies no path."""
SAMPLING_CPU = 0.2
"""Thousandths of a core for each stream. Ten looks a second at a connection take half of that (8 µs a look,
`linux.sockets`, 200 to 4,000 connections)."""
REDIRECTOR_CPU, REDIRECTOR_MEMORY = 750, 512
"""Thousandths of a core, and MiB: with its agent a core, which shared clusters let idle."""
REDIRECT_CPU = 5
"""Thousandths of a core for each stream that begins a file every second. A redirector gets the client's request, a HEAD
and a GET, and each TLS handshake with its request takes 1.5 ms (XRootD 5.5.3)."""
REDIRECT_MEMORY = 0.25
"""MiB for each stream. XRootD has a buffer of 1 MiB for each connection, but touches the part that a request fills: 600
of them took less than 1 MiB, without sockets and TLS."""


def agent(wanted: DeploymentParameters, streams: int) -> dict[str, str]:
    """Return the limits of an agent, for the most streams of a cell.

    With cgroups of version 2, data under way in a verification counts as its memory: up to `tcp_buffer` for each
    connection. With less memory the kernel keeps windows too small to fill the path.
    """
    cpu = max(AGENT_CPU, AGENT_CPU / 2 + SAMPLING_CPU * streams)
    buffers = probe_connections(wanted, wanted.origins) * wanted.tcp_buffer / MIB
    return _limits(cpu, AGENT_MEMORY + buffers)


def redirector(streams: int) -> dict[str, str]:
    """Return the limits of a redirector, for the most streams of a cell; it carries no file."""
    memory = max(REDIRECTOR_MEMORY, REDIRECTOR_MEMORY / 2 + REDIRECT_MEMORY * streams)
    return _limits(max(REDIRECTOR_CPU, REDIRECT_CPU * streams), memory)


def _limits(cpu: float, memory: float) -> dict[str, str]:
    return {"cpu": f"{round(cpu)}m", "memory": f"{round(memory)}Mi"}
