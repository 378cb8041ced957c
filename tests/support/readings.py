# SPDX-License-Identifier: Apache-2.0
"""A reading of nothing, for tests that change a figure or two of it."""

import math

from tpcsweep.measuring.readings import Reading

UNKNOWN = "rtt_loaded", "cwnd", "source_thread", "destination_thread", "client_thread"
COUNTS = (name for name in Reading._fields if name not in Reading._field_defaults)
ZERO = Reading(
    **dict.fromkeys(COUNTS, 0)
    | dict.fromkeys(UNKNOWN, math.nan)
    | {"time": 0.0, "source_cpu": (0.0, 0.0), "destination_cpu": (0.0,)}
)
