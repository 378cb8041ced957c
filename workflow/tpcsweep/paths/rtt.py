"""Measure the round-trip time between two namespaces with iputils' ping."""

from __future__ import annotations

import re
import statistics
from dataclasses import asdict, dataclass

from tpcsweep.linux.commands import CommandError, Commands
from tpcsweep.paths.plan import PathError

COUNT = 17
INTERVAL = 0.01  # s
PATIENCE = 3  # s without any answer; only a path that is down waits so long
HEADERS = 28  # IPv4 and ICMP


@dataclass(frozen=True)
class Rtt:
    """Round-trip times in ms. ping prints three digits, so the median's resolution is 1 % or better."""

    min: float
    median: float
    max: float
    samples: int

    def to_dict(self) -> dict[str, float]:
        """JSON-ready, for provenance."""
        return asdict(self)


def measure_rtt(commands: Commands, namespace: str, address: str, mtu: int) -> Rtt:
    """Ping `address` from a namespace; takes 0.2 s and about three RTTs.

    First packets of the full MTU that must not be fragmented: they warm up ARP, and prove the MTU. Three, as
    one may be lost at random. Raises PathError where nothing answers.
    """
    ping = ["ip", "netns", "exec", namespace, "ping", "-n", "-W", str(PATIENCE)]
    full = ["-M", "do", "-s", str(mtu - HEADERS), "-c", "3", "-i", "0.002", address]
    try:
        commands.run([*ping, *full])
        found = commands.run([*ping, "-c", str(COUNT), "-i", str(INTERVAL), address])
    except CommandError as error:
        raise PathError(f"path: {address} from {namespace} with packets of {mtu} bytes: {error}") from error
    return parse_ping(found)


def parse_ping(text: str) -> Rtt:
    """The figures in what `ping` prints, one line per answer."""
    times = [float(found) for found in re.findall(r"\btime=([\d.]+) ms", text)]
    if not times:
        raise PathError(f"path: ping printed no times: {text.strip()[-200:]}")
    return Rtt(min(times), statistics.median(times), max(times), len(times))
