# SPDX-License-Identifier: Apache-2.0
"""Readings for tests: of nothing, but for a quantity or two; and connections as the kernel lists them."""

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from tpcsweep.data.variables import QUANTITIES
from tpcsweep.deploying.linux.sockets import Connection
from tpcsweep.measuring.sampler import Histories, Readings

NOTHING = {name: 0.0 if each.grows else math.nan for name, each in QUANTITIES.items()}
"""Every quantity of a reading: counters 0, and states unknown."""
TCP_INFO = {"rtt": (68, "I"), "snd_cwnd": (80, "I"), "bytes_received": (128, "Q"), "min_rtt": (148, "I")}
TCP_INFO |= {"busy_time": (168, "Q"), "rwnd_limited": (176, "Q"), "sndbuf_limited": (184, "Q")}
TCP_INFO |= {"bytes_sent": (200, "Q"), "bytes_retrans": (208, "Q")}
"""Offsets of fields in struct tcp_info (linux/tcp.h), and their types."""


def readings(records: Iterable[Mapping[str, Any]]) -> Readings:
    """Readings of these quantities at a `time`, which is 0 if none is given; a tuple has a value for each target."""
    histories = Histories()
    targets: dict[str, None] = {}
    for record in records:
        parts: dict[str, dict[str, float]] = {"0": {"time": 0.0, **NOTHING}}
        for name, value in record.items():
            for number, each in enumerate(value if isinstance(value, tuple) else (value,)):
                parts.setdefault(str(number), {"time": record.get("time", 0.0)})[name] = each
        for target, part in parts.items():
            targets[target] = None
            histories.add(target, part)
    return Readings(histories.tables(targets))


def connection(cookie: int, remote: str = "10.0.0.1", **fields: int) -> Connection:
    """A connection with fields of tcp_info, as the kernel counts them."""
    info = bytearray(216)
    for name, value in fields.items():
        place, kind = TCP_INFO[name]
        struct.pack_into(f"={kind}", info, place, value)
    return Connection(cookie, remote, bytes(info))
