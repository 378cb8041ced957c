# SPDX-License-Identifier: Apache-2.0
"""Files and ports in the pods, and the samples that agents send."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tpcsweep.xrootd.servers import USUAL, Ports

PACKAGE = Path("/etc/tpcsweep/package/tpcsweep.zip")
"""The archive from which Python imports this package, whatever the image has: of a ConfigMap."""
CREDENTIALS = Path("/etc/tpcsweep/credentials")
"""The deployment's Secret: files of `tpcsweep.xrootd.credentials`."""
CONFIGURATION = Path("/etc/tpcsweep/configuration")
"""The deployment's ConfigMap: a configuration file for each server, and COMPLETE."""
COMPLETE = "complete"
"""A key of both. They are filled, and appear in the pods, when the pods' addresses are known."""
STATE = Path("/run/tpcsweep")
"""Shared by the containers of a pod, in memory, and gone with it."""
PRIVATE = STATE / "credentials"
"""The credentials as servers and tools need them."""
CONTAINED = STATE / "contained"
"""The socket of the container whose CPU is measured."""
HUB = STATE / "hub"
ENDED = STATE / "ended"
"""Exists when the hub has ended and the pod must end."""
FILES = Path("/srv/tpcsweep")
"""The folder of an origin's files, in memory."""


def block(first: int | None) -> Ports:
    """Return the ports from a first one on, for its node's network, or the usual ones, for a network of its own."""
    return USUAL if first is None else Ports(*range(first, first + 5))


METRICS_PORT = 8445
METRICS_PATH = "/metrics"
"""Of the client pod; see `metrics`."""

SLASH = "--"
"""Replaces the slash in the names of the Secret's files."""


class Sample(NamedTuple):
    """One sample of one agent. Counters only grow."""

    time: float
    """Seconds of the agent's CLOCK_MONOTONIC; the hub turns them into its own."""
    received: int
    """Bytes that the interface on the path received, and sent."""
    sent: int
    cpu: float
    """CPU seconds of the servers, or of the client and its tools."""
    busy: float
    """CPU seconds of the machine, as the next two."""
    steal: float
    total: float
    pressure: float | None
    """See `measure.machine.Condition`, as for the next two."""
    work: float
    slowed: float | None
    thread: float | None
    """Of the servers, or of the client and its tools: see `measure.machine.Busiest`. None before two looks."""
    waiting: float
    payload: int = 0
    """Bytes that ever arrived in the files. The client has neither files nor data connections."""
    retransmits: int = 0
    data_busy: float = 0.0
    """Of all data connections that there ever were, as the next four: see `linux.sockets.Followed`."""
    data_rwnd_limited: float = 0.0
    data_sndbuf_limited: float = 0.0
    data_sent: int = 0
    data_resent: int = 0
    rtt: float | None = None
    """ms, mean over the data connections of this moment; None without any. So is the next."""
    cwnd: float | None = None
    connections: int = 0
    periods: int = 0
    """Scheduling periods with something to run, of servers or client; the next are those in which the quota ran out."""
    throttled: int = 0
