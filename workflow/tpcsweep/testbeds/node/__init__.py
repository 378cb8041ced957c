# SPDX-License-Identifier: Apache-2.0
"""One node of a deployment: start order, probes and counters, in network namespaces and in pods alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpcsweep.xrootd.servers import SideServers


@dataclass(kw_only=True)
class ServerSite:
    """A deployment of servers that is up, as far as it is the same on all testbeds; see `measure.cell.Site`."""

    sides: Mapping[str, SideServers]
    """By `src` and `dst`, in this order."""
    provenance: dict[str, Any]
    rtt_idle: float
    """RTT of the empty path in ms, measured before any cell."""
    bandwidth_found: float | None
    """Gbit/s of the slower direction, measured before any cell; None where it is unknown."""
    path_slow: bool
    """Whether that is less than was asked."""

    @property
    def folders(self) -> tuple[str, str]:
        source, destination = (str(side.files) for side in self.sides.values())
        return source, destination

    def pairs(self, endpoint: str) -> list[tuple[str, str]]:
        return list(zip(*(side.urls(endpoint) for side in self.sides.values()), strict=True))
