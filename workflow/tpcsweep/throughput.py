# SPDX-License-Identifier: Apache-2.0
"""The law of throughput, which the simulator, the fitted formula `combined` and studies/equation share. Pure.

    T = (D^-q + Σ L^-q)^(-1/q)    the soft minimum of the streams' demand D and of shared limits L
    D = n / (1/r + t/F)           n streams, each of which transfers files of F one after another
    t = t₀ + R (h + g)            pause of a file: set-up, its h round trips, and g of slow start

r is the rate of a stream while it sends: the least of `tcp.window_rate`, `tcp.mathis`, and of what the components on
its way leave a single stream. The callers differ in the constants, and in three parts:

| part | simulator (`testbeds.simulation.model`) | `combined` (`models.formulas`) |
|---|---|---|
| q | ∞: a cell has one limit | fitted |
| g | `tcp.growth_rounds`: the set-up sends the first window, and no window exceeds the file | `tcp.slow_start` of r |
| an origin | its cores, contention and cache, from hardware or assumptions | Universal Scalability Law, fitted |
| origins | streams use them in turn | streams use them by chance: `busy_origins` |

Rates are in Gbit/s, RTTs in ms, sizes in bytes. Arguments are numbers or arrays of any shapes that broadcast.
"""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from tpcsweep.tcp import Numbers
from tpcsweep.variables import GBIT_PER_MS


def demand(
    streams: Numbers, rate: Numbers, setup: Numbers, round_trips: Numbers, rtt: Numbers, file_size: Numbers
) -> NDArray[np.float64]:
    """Return the throughput of streams that share no limit.

    Args:
        streams: Number of streams, each with one file at a time.
        rate: Gbit/s of a stream while it sends.
        setup: Seconds of each file without data, at any RTT.
        round_trips: Round trips of each file without data, with those of slow start.
        rtt: ms.
        file_size: Bytes; infinity for streams without files, which never pause.

    Source: a renewal process, whose rate is the bytes of a cycle over its time; N. Cardwell, S. Savage, T. Anderson,
    Modeling TCP latency, INFOCOM 2000, adds the times of a transfer alike.
    """
    pause = 1e3 * setup + rtt * round_trips
    return np.asarray(streams / (1 / rate + pause / (GBIT_PER_MS * file_size)))


def soft_minimum(limits: Sequence[Numbers], sharpness: Numbers = math.inf) -> NDArray[np.float64]:
    """Return (Σ limit^-q)^(-1/q) with the sharpness q: the least limit, and less if several are similar.

    With an infinite sharpness it is the least limit.
    """
    least = reduce(np.minimum, limits)
    if np.all(np.isinf(sharpness)):
        return np.asarray(least)
    return np.asarray(least * sum((least / limit) ** sharpness for limit in limits) ** (-1 / sharpness))


def busy_origins(streams: Numbers, origins: Numbers) -> NDArray[np.float64]:
    """Return the expected number of origins with a stream, if each stream uses one by chance: o − o (1 − 1/o)ⁿ."""
    return np.asarray(origins * -np.expm1(streams * np.log1p(-1 / np.maximum(origins, 1 + 1e-9))))
