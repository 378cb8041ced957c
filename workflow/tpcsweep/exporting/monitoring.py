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
from tpcsweep.exporting.cells import cells, site, texts

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
    row = cells(summary)
    row = row.isel(cell=np.flatnonzero(row["status"] == STATUS.index("ok"))).sortby("ended")
    goodput = (
        samples["goodput"].stack(cell=summary["status"].dims, create_index=False).isel(cell=row["place"])
    )
    figures = {"avg": goodput.mean("time").values, "max": row["throughput_max"].values}
    said = {
        parameter: row[parameter].broadcast_like(row["status"]).values.tolist()
        for parameter in SAID
        if parameter in row.coords
    }
    suffixes = [""] * row.sizes["cell"]
    for axis in _suffixed(summary):
        shown = texts(row[axis])
        suffixes = [f"{suffix}_{axis}={value}" for suffix, value in zip(suffixes, shown, strict=True)]
    where = f"{site(summary)}, {summary.attrs['sweep']}, source->destination"
    written = []
    for place, ended in enumerate(row["ended"].values):
        about = {parameter: values[place] for parameter, values in said.items()}
        for kind, values in figures.items():
            called = name(about, kind) + suffixes[place]
            written.append(f"{ended * 1e3:.0f}, {where}, {called}, {values[place] * MB_PER_S:.6g}")
    return written


def name(said: Mapping[str, Any], kind: str) -> str:
    """Name a figure in the published form, such as network_m2m_avg_01s_08m.

    Args:
        said: the values of SAID for a cell.
        kind: avg or max.
    """
    module = MODULES.get(said["tool"], "http")
    ends = LAYERS.get(said.get("layer", ""), "m2m")
    return f"{module}_{ends}_{kind}_{said['streams']:02}s_{megabytes(said['tcp_buffer'])}m"


def megabytes(size: int) -> str:
    """Give a buffer in MB or MiB, whichever is whole, with two digits: 08 for 8 MB and for 8 MiB."""
    whole = next((size // unit for unit in (10**6, 2**20) if size % unit == 0), None)
    return f"{size / 1e6:g}" if whole is None else f"{whole:02}"


def _suffixed(summary: xr.Dataset) -> Sequence[str]:
    """Axes that names need behind them, or two cells would have the same one."""
    alike = Counter(megabytes(size) for size in summary["tcp_buffer"].values.reshape(-1).tolist())
    named = [axis for axis in NAMED if axis != "tcp_buffer" or max(alike.values()) == 1]
    return [str(axis) for axis in summary["status"].dims if axis not in named]
