# SPDX-License-Identifier: Apache-2.0
"""One node of a deployment, in namespaces or pods: start order, probes and counters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpcsweep.deploying.xrootd.server_config import SideServers


@dataclass(kw_only=True)
class ServerSite:
    """Attributes of a running deployment of servers that all testbeds share; see `measuring.cell.Site`."""

    sides: Mapping[str, SideServers]  # servers of the sides `src` and `dst`, in this order
    provenance: dict[str, Any]
    rtt_idle: float  # RTT of the idle path in ms, measured before any cell
    bandwidth_found: float | None
    """Bandwidth of the slower direction in Gbit/s, measured before any cell; None if unknown."""
    path_slow: bool  # whether the measured bandwidth is below the requested one
    bandwidth_declared: bool = False
    client_cores: float = math.nan  # CPUs that the client may use; NaN if nothing limits it

    @property
    def folders(self) -> tuple[str, str]:
        source, destination = (str(side.files) for side in self.sides.values())
        return source, destination

    def pairs(self, endpoint: str) -> list[tuple[str, str]]:
        return list(zip(*(side.urls(endpoint) for side in self.sides.values()), strict=True))
