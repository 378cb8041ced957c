# SPDX-License-Identifier: Apache-2.0
"""Network path between source and destination: created, verified, sampled and removed.

A `Path` is the configured path, `connect` creates it and returns a `Link`, `verify` measures it. docs/paths.md explains
how and why.
"""

from tpcsweep.paths.link import Link, Rtt, connect, netem_works
from tpcsweep.paths.plan import INTERFACE, Emulator, Path, PathError
from tpcsweep.paths.verify import Measured, verify

__all__ = [
    "INTERFACE",
    "Emulator",
    "Link",
    "Measured",
    "Path",
    "PathError",
    "Rtt",
    "connect",
    "netem_works",
    "verify",
]
