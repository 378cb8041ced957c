# SPDX-License-Identifier: Apache-2.0
"""Files and ports in the pods, and the samples that agents send."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tpcsweep.xrootd.servers import USUAL, Ports

PACKAGE = Path("/etc/tpcsweep/package/tpcsweep.zip")
"""The archive of this package, from a ConfigMap."""
CREDENTIALS = Path("/etc/tpcsweep/credentials")
"""The deployment's Secret, with files of `tpcsweep.xrootd.credentials`."""
CONFIGURATION = Path("/etc/tpcsweep/configuration")
"""The deployment's ConfigMap, with a file for each server, and COMPLETE."""
COMPLETE = "complete"
"""A key of both, which appear in the pods after the pods have addresses."""
STATE = Path("/run/tpcsweep")
"""A folder in memory that the containers of a pod share."""
PRIVATE = STATE / "credentials"
"""Credentials as servers and tools need them."""
SERVER_CONTAINER_SOCKET = STATE / "contained"
"""The socket of the container whose CPU is measured."""
HUB = STATE / "hub"
ENDED = STATE / "ended"
"""A file that exists after the hub has ended, when the pod must end."""
FILES = Path("/srv/tpcsweep")
"""The folder of an origin's files, in memory."""


def block(first: int | None) -> Ports:
    """Return the ports from `first` on, in a node's network, or the usual ones, in a pod's own."""
    return USUAL if first is None else Ports(*range(first, first + 5))


METRICS_PORT = 8445
METRICS_PATH = "/metrics"
"""Path and port of the client pod's `metrics`."""

SLASH = "--"
"""Replaces the slash in the names of a Secret's files."""


class Sample(NamedTuple):
    """One sample of one agent. Counters only grow."""

    time: float
    """Seconds of the agent's CLOCK_MONOTONIC, which the hub converts to its own."""
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
    """The busiest thread of the servers, or of the client and its tools: `measure.machine.Busiest`. None at first."""
    waiting: float
    payload: int = 0
    """Bytes that have arrived in the files, since the start. The client has neither files nor data connections."""
    retransmits: int = 0
    data_busy: float = 0.0
    """For all data connections since the start, as the next four: see `linux.sockets.ConnectionTotals`."""
    data_rwnd_limited: float = 0.0
    data_sndbuf_limited: float = 0.0
    data_sent: int = 0
    data_resent: int = 0
    rtt: float | None = None
    """ms, mean over the open data connections; None without any, as the next."""
    cwnd: float | None = None
    connections: int = 0
    periods: int = 0
    """Scheduling periods of servers or client with a runnable process; the next counts those without quota left."""
    throttled: int = 0
