# SPDX-License-Identifier: Apache-2.0
"""Where things are in the pods, and what their messages look like."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tpcsweep.xrootd.servers import USUAL, Ports

PACKAGE = Path("/etc/tpcsweep/package/tpcsweep.zip")
"""What Python imports this package from, whatever the image has: the archive of a ConfigMap."""
CREDENTIALS = Path("/etc/tpcsweep/credentials")
"""The deployment's Secret: files of `tpcsweep.xrootd.credentials`."""
CONFIGURATION = Path("/etc/tpcsweep/configuration")
"""The deployment's ConfigMap: a configuration file for each server, and COMPLETE."""
COMPLETE = "complete"
"""A key that both have. They are filled when the pods' addresses are known, and appear in the pods then."""
STATE = Path("/run/tpcsweep")
"""Shared by the containers of a pod, in memory, and gone with it."""
PRIVATE = STATE / "credentials"
"""The credentials as servers and tools want them."""
CONTAINED = STATE / "contained"
"""The socket of the container whose CPU is measured."""
HUB = STATE / "hub"
ENDED = STATE / "ended"
"""Says that the hub has ended, and that the pod is to end."""
FILES = Path("/srv/tpcsweep")
"""The folder of an origin's files, in memory."""


class Beside(NamedTuple):
    """Ports of the agent beside a server."""

    agent: int = 8443
    probe: int = 8444
    """Takes connections while a path is looked at, and swallows what they bring: see `probes`."""


def block(first: int | None) -> Ports:
    """Ports of a server: from a first one on, on its node's network, or the usual ones in a network of its own."""
    return USUAL if first is None else Ports(first, first + 1, first + 2)


def beside(ports: Ports) -> Beside:
    """Those of the agent beside a server with these ports: the usual ones, or the next two."""
    return Beside() if ports == USUAL else Beside(ports.monitor + 1, ports.monitor + 2)


METRICS_PORT = 8445
METRICS_PATH = "/metrics"
"""Of the client pod, where the testbed's file asks for it: see `metrics`."""

SLASH = "--"
"""What stands in the Secret for the slash in the name of a file that is in a folder."""


class Sample(NamedTuple):
    """One look of one agent at its pod. Counters only grow."""

    time: float
    """Seconds of CLOCK_MONOTONIC of the agent; the hub turns them into its own."""
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
