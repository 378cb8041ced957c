"""Measure the round-trip time between two namespaces with iputils' ping."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

from tpcsweep.linux.commands import CommandError, Commands
from tpcsweep.paths.plan import HEADERS, PathError

COUNT = 17
INTERVAL = 0.01  # s
PATIENCE = 3  # s without any answer; only a path that is down waits so long


@dataclass(frozen=True)
class Rtt:
    """Round-trip times in ms. ping prints three digits, so the median's resolution is 1 % or better."""

    min: float
    median: float
    max: float
    samples: int


def measure_rtt(commands: Commands, namespace: str, address: str, mtu: int) -> Rtt:
    """Ping an address from a namespace; takes 0.2 s and about three RTTs.

    Before the pings that count come packets of the full MTU that must not be fragmented: they warm up ARP, and prove
    the MTU. Three, as one may be lost at random.

    Raises:
        PathError: if nothing answers.
    """
    ping = ["ip", "netns", "exec", namespace, "ping", "-n", "-W", str(PATIENCE)]
    full = ["-M", "do", "-s", str(mtu - HEADERS), "-c", "3", "-i", "0.002", address]
    try:
        commands.run([*ping, *full])
        answers = commands.run([*ping, "-c", str(COUNT), "-i", str(INTERVAL), address])
    except CommandError as error:
        raise PathError(f"path: {address} from {namespace} with packets of {mtu} bytes: {error}") from error
    return parse_ping(answers)


def parse_ping(text: str) -> Rtt:
    """Read the figures in what `ping` prints, one line per answer."""
    times = [float(time) for time in re.findall(r"\btime=([\d.]+) ms", text)]
    if not times:
        raise PathError(f"path: ping printed no times: {text.strip()[-200:]}")
    return Rtt(min(times), statistics.median(times), max(times), len(times))
