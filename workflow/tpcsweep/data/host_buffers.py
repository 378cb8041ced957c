# SPDX-License-Identifier: Apache-2.0
"""TCP buffers in the record of a host; standard library only, because jobs import it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

RECEIVE, SEND = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
WINDOW_CLOSED = 0.25
"""Data in flight over the TCP buffer above which a window binds if the kernel reports so.
A slow reader closes windows at less."""


def largest_buffer(states: Sequence[Mapping[str, Any]], sysctl: str) -> float:
    """Return the third number of `RECEIVE` or `SEND`, the largest of some hosts' in bytes; NaN if unknown."""
    texts = (str(state.get("sysctls", {}).get(sysctl, "")).split() for state in states)
    return max((float(numbers[2]) for numbers in texts if len(numbers) == 3), default=math.nan)
