# SPDX-License-Identifier: Apache-2.0
"""The network between source and destination: made to order, verified, watched and taken away.

`Path` is what is asked for, `connect` makes it and gives a `Link`, `verify` measures it. docs/paths.md says
how and why.
"""

from tpcsweep.paths.link import Link, Rtt, connect, measure_rtt, netem_works
from tpcsweep.paths.plan import INTERFACE, Emulator, Path, PathError
from tpcsweep.paths.verify import Measured, measure_bandwidth, verify

__all__ = [
    "INTERFACE",
    "Emulator",
    "Link",
    "Measured",
    "Path",
    "PathError",
    "Rtt",
    "connect",
    "measure_bandwidth",
    "measure_rtt",
    "netem_works",
    "verify",
]
