# SPDX-License-Identifier: Apache-2.0
"""Rate limits in the queueing disciplines of recorded hosts, and how much of them measured cells fill.

Sources: tc-tbf(8) and tc-cake(8), whose rate is that of an interface; tc-fq(8), whose maxrate is that of each flow.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import BYTES
from tpcsweep.data.made_with import HOSTS

THIS_MACHINE = "local"
"""Name of the measuring machine in the records of all testbeds; third-party copies do not pass it."""
FULL_RATE = 0.86
"""Throughput over a rate limit from which it is full: 0.9 of it, as of a path, less headers at an MTU of 1500."""
MOSTLY = 0.7
"""Share of the time with data under way from which a limit that is full meanwhile is the limit."""
_OF_BUSY = ("host_in_flight", "host_rtt")
_SECOND = 1e3  # ms
_RATE = re.compile(r"\b(tbf rate|cake bandwidth|fq .*?maxrate) (\d+(?:\.\d+)?)([KMGT]?)bit")
_FACTORS = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}


class HostRate(NamedTuple):
    """A rate limit on an interface of a host."""

    host: str
    interface: str
    kind: str
    """Queueing discipline."""
    rate: float
    """Gbit/s of the interface, or of each flow."""

    @property
    def of_flow(self) -> bool:
        return self.kind == "fq"


def shares_of_rates(summary: xr.Dataset) -> Mapping[HostRate, xr.DataArray]:
    """Return the throughput of cells over each rate limit of a host; NaN for cells that were measured without it."""
    if "provenance_record" not in summary:
        return {}
    places: dict[HostRate, list[int]] = defaultdict(list)
    for place, text in enumerate(summary["provenance_record"].values.tolist()):
        record: Mapping[str, Any] = json.loads(text)
        for limit in _rates(record.get(HOSTS) or {}):
            if limit.host in record.get("sending_hosts", [limit.host]):
                places[limit].append(place)
    streams, connections = (summary.coords.get(name, 1) for name in ("streams", "tcp_streams"))
    flows = streams * connections
    return {
        limit: (summary["throughput"] / (limit.rate * flows if limit.of_flow else limit.rate)).where(
            np.isin(summary["provenance"], known)
        )
        for limit, known in places.items()
    }


def time_under_way(summary: xr.Dataset) -> xr.DataArray:
    """Return the share of the streams' time in which data was under way, by the kernels of sending hosts.

    Hosts are read once a second, and connections may be shorter: their counts after the last reading are lost.
    The rate of a busy connection is therefore known, and the time with data under way is throughput over that rate.
    NaN without records.
    """
    rates = summary["throughput"]
    if not summary.keys() >= {*_OF_BUSY}:
        return xr.full_like(rates, np.nan)
    in_flight, rtt = (summary[name] for name in _OF_BUSY)
    streams, each = (summary.coords.get(name, 1) for name in ("streams", "tcp_streams"))
    of_busy = in_flight / rtt * _SECOND / BYTES  # Gbit/s of a busy connection
    shares: xr.DataArray = (rates / (of_busy * streams * each)).clip(max=1.0)
    return shares.transpose(*rates.dims)


def is_full(
    shares: xr.DataArray | NDArray[np.float64], under_way: xr.DataArray | NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return where a rate limit is full: by the throughput, or while data is `under_way` for most of the time.

    One far below a throughput is not on its way. `shares` are throughputs over the limit.
    """
    most = np.where(np.isfinite(under_way) & (under_way >= MOSTLY), under_way, 1.0)
    return np.asarray((shares / most >= FULL_RATE) & (shares <= 2 - FULL_RATE))


def fills_a_rate(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells fill a rate limit of a host, with the dimensions of `throughput`."""
    dims, under_way = summary["throughput"].dims, time_under_way(summary)
    full = [is_full(shares.transpose(*dims), under_way) for shares in shares_of_rates(summary).values()]
    return np.asarray(np.any(full or [np.zeros(summary["throughput"].shape, bool)], axis=0))


def _rates(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[HostRate]:
    for host, state in hosts.items():
        for interface, settings in state.get("interfaces", {}).items() if host != THIS_MACHINE else ():
            for words, number, unit in _RATE.findall(settings.get("qdisc", "")):
                yield HostRate(host, interface, words.split()[0], float(number) * _FACTORS[unit])
