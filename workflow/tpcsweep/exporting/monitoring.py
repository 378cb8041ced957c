"""Lines as the load tests of a Tier 1 and its Tier 2s wrote them in 2007 for their monitoring server:

time(ms), site, module, source->destination, network_m2m_avg_01s_08m, value
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import STATUS
from tpcsweep.exporting.cells import cells, site

MB_PER_S = 125.0
"""MB/s of a Gbit/s."""
MODULES = {"iperf3": "network", "globus-url-copy": "gridftp", "xrdcp": "xrootd", "xrdcp-direct": "xrootd"}
"""What a tool speaks; the others speak HTTP."""
LAYERS = {"memory_to_disk": "m2d", "disk_to_disk": "d2d"}
"""What is at both ends; without a layer, and on the others, it is memory."""
SAID = ("tool", "layer", "streams", "tcp_buffer")
"""Parameters that a name is made of; datasets from before there were layers have none."""
NAMED = ("streams", "tcp_buffer", "layer", REPETITION)
"""Axes that the published form has a place for; repetitions have one name, and each its time."""


def lines(summary: xr.Dataset, samples: xr.Dataset) -> list[str]:
    """Give two lines a cell that went well, oldest first: average and maximum goodput in MB/s.

    The average is over the whole cell, ramp-up included, as theirs was; the maximum is that of any one second.

    Raises:
        ExportError: see `cells`.
    """
    measured = cells(summary)
    status = summary["status"]
    order = np.argsort(measured.ended, kind="stable")
    order = order[status.values[measured.index][order] == STATUS.index("ok")]
    at = tuple(places[order] for places in measured.index)
    averages = np.nanmean(samples["goodput"].transpose(*status.dims, "time").values[at], axis=1)
    largest = summary["throughput_max"].values[at]
    said = {
        one: summary[one].broadcast_like(status).transpose(*status.dims).values[at].tolist()
        for one in SAID
        if one in summary.coords
    }
    where = f"{site(summary)}, {summary.attrs['sweep']}, source->destination"
    suffixed = _suffixed(summary)
    found = []
    for place, cell in enumerate(order):
        about = {one: values[place] for one, values in said.items()}
        suffix = "".join(f"_{axis}={measured.axes[axis][cell]}" for axis in suffixed)
        for kind, values in (("avg", averages), ("max", largest)):
            called, value = name(about, kind) + suffix, values[place] * MB_PER_S
            found.append(f"{measured.ended[cell] * 1e3:.0f}, {where}, {called}, {value:.6g}")
    return found


def name(said: Mapping[str, Any], kind: str) -> str:
    """The name of a figure in the published form, such as network_m2m_avg_01s_08m.

    said: the values of SAID for a cell. kind: avg or max.
    """
    module = MODULES.get(said["tool"], "http")
    ends = LAYERS.get(said.get("layer", ""), "m2m")
    return f"{module}_{ends}_{kind}_{said['streams']:02}s_{megabytes(said['tcp_buffer'])}m"


def megabytes(size: int) -> str:
    """A buffer in MB or MiB, whichever is whole, with two digits: 08 for 8 MB and for 8 MiB."""
    whole = next((size // unit for unit in (10**6, 2**20) if size % unit == 0), None)
    return f"{size / 1e6:g}" if whole is None else f"{whole:02}"


def _suffixed(summary: xr.Dataset) -> Sequence[str]:
    """Axes that names need behind them, or two cells would have the same one."""
    alike = Counter(megabytes(size) for size in summary["tcp_buffer"].values.reshape(-1).tolist())
    named = [axis for axis in NAMED if axis != "tcp_buffer" or max(alike.values()) == 1]
    return [str(axis) for axis in summary["status"].dims if axis not in named]
