# SPDX-License-Identifier: Apache-2.0
"""Time from the start of a transfer to its first byte, by tool: measured constants, for plans and warnings."""

import tomllib
from collections.abc import Mapping
from typing import NamedTuple

from tpcsweep.common.installation import PACKAGE


class Start(NamedTuple):
    """Start of a transfer: seconds at any RTT, and round trips."""

    seconds: float
    round_trips: float


_TABLE = PACKAGE / "measuring/first_bytes.toml"
START: Mapping[str, Start] = {
    name: Start(**entry) for name, entry in tomllib.loads(_TABLE.read_text(encoding="utf-8")).items()
}
"""Start of a transfer by tool, for one stream between one origin a side."""


def start_of(tool: str) -> Start:
    """Return the start of a transfer by a tool; unknown tools start like the slowest one."""
    return START.get(tool) or max(START.values(), key=lambda start: start.round_trips)


def startup(tool: str, rtt: float) -> float:
    """Return the expected seconds to the first byte at an RTT in ms."""
    one = start_of(tool)
    return one.seconds + one.round_trips * rtt / 1e3
