# SPDX-License-Identifier: Apache-2.0
"""What netem's limit says of the published measurement, for every set-up that it may have had. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from arithmetic import ABOUT_1, Setup, rtt_exponent

RTT = 120.0  # ms, of question (1)
STREAMS = (100, 500)
NEAR, FAR = 10.0, 60.0  # ms, of question (2)
SIDES = {"one side": 1.0, "half on each side": 0.5}
"""Where the delay may have been set, with its share of the RTT."""


def setups() -> Iterator[tuple[dict[str, Any], Callable[[float], Setup]]]:
    """Every set-up that the published one may have been: what is not known of it, and its path at an RTT in ms."""
    for side, mtu, offloads, queues in itertools.product(SIDES, (1500, 9000), (True, False), (1, 2)):
        unknown = {"delay": side, "MTU": mtu, "offloads": "on" if offloads else "off", "interfaces": queues}
        yield unknown, partial(_setup, SIDES[side], mtu, offloads, queues)


def _setup(share: float, mtu: int, offloads: bool, queues: int, rtt: float) -> Setup:
    return Setup(share * rtt, mtu, offloads, queues=queues)


def first() -> pd.DataFrame:
    """Question (1): goodput in Gbit/s at 120 ms, from the least to the most over the streams, a row for each set-up."""
    rows = []
    for unknown, path in setups():
        spans = [path(RTT).goodput(count) for count in STREAMS]
        low, high = min(span.low for span in spans), max(span.high for span in spans)
        rows.append(
            {
                **unknown,
                "from streams": path(RTT).crossover.high,
                "least": low,
                "most": high,
                "about 1 Gbit/s": low <= ABOUT_1.high and ABOUT_1.low <= high,
            }
        )
    return pd.DataFrame(rows)


def second(streams: int, others: Sequence[float]) -> pd.DataFrame:
    """Question (2): the exponent of RTT from 10 to 60 ms that netem's limit leaves, a row for each set-up.

    Something else lets through `others`, in Gbit/s.
    """
    rows = []
    for (unknown, path), other in itertools.product(setups(), others):
        low, high = rtt_exponent(path(NEAR).cap(streams), path(FAR).cap(streams), (NEAR, FAR), other)
        inverse = bool(np.isclose(low, -1) and np.isclose(high, -1))
        rows.append({**unknown, "other limit": other, "least": low, "most": high, "1/RTT": inverse})
    return pd.DataFrame(rows)
