# SPDX-License-Identifier: Apache-2.0
"""Files and ports in the pods, and the samples that agents send."""

import math
from pathlib import Path
from typing import NamedTuple

from tpcsweep.xrootd.servers import USUAL, Ports

PACKAGE = Path("/etc/tpcsweep/package/tpcsweep.zip")  # the archive of this package, from a ConfigMap
PACKAGE_FOLDER = PACKAGE.parent
CREDENTIALS = Path("/etc/tpcsweep/credentials")
"""The deployment's Secret, with files of `tpcsweep.xrootd.credentials`."""
CONFIGURATION = Path("/etc/tpcsweep/configuration")
"""The deployment's ConfigMap, with a file for each server, and COMPLETE."""
COMPLETE = "complete"  # a key of both, which appear in the pods after the pods have addresses
STATE = Path("/run/tpcsweep")  # a folder in memory that the containers of a pod share
PRIVATE = STATE / "credentials"  # credentials as servers and tools need them
SERVER_CONTAINER_SOCKET = STATE / "contained"  # the socket of the container whose CPU is measured
HUB = STATE / "hub"
ENDED = STATE / "ended"  # a file that exists after the hub has ended, when the pod must end
FILES = Path("/srv/tpcsweep")  # the folder of an origin's files, in memory


def block(first: int | None) -> Ports:
    """Return the ports from `first` on, in a node's network, or the usual ones, in a pod's own."""
    return USUAL if first is None else Ports(*range(first, first + 5))


SLASH = "--"  # replaces the slash in the names of a Secret's files


class Sample(NamedTuple):
    """One sample of one agent, with the names of `measure.readings.Reading`. Counters only grow."""

    time: float  # seconds of the agent's CLOCK_MONOTONIC
    cpu: float  # CPU seconds of the servers, or of the client and its tools
    thread: float  # cores used by the busiest of their threads: `measure.machine.Busiest`. NaN at first.
    waiting: float
    machine_busy: float  # state of the machine, as the next five: `measure.machine.Condition`
    machine_steal: float
    machine_total: float
    machine_pressure: float | None
    machine_work: float
    machine_slowed: float | None
    periods: int
    """Scheduling periods of servers or client with a runnable process; the next counts those without quota left."""
    throttled: int
    rx_bytes: int = 0
    """Bytes that the interface on the path received, and sent. The client has neither path, files nor connections."""
    tx_bytes: int = 0
    payload: int = 0  # bytes that have arrived in the files, since the start
    retransmits: int = 0
    busy: float = 0.0
    """For all data connections since the start, as the next four: see `linux.sockets.ConnectionTotals`."""
    rwnd_limited: float = 0.0
    sndbuf_limited: float = 0.0
    sent: int = 0
    resent: int = 0
    rtt_loaded: float = math.nan  # ms, mean over the open data connections; NaN without any, as the next
    cwnd: float = math.nan
    connections: int = 0
