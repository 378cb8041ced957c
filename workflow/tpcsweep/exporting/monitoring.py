"""Lines as the load tests of a Tier 1 and its Tier 2s wrote them in 2007 for their monitoring server:

time(ms), site, module, source->destination, network_m2m_avg_01s_08m, value
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import xarray as xr

from tpcsweep.dataset import SIMULATED, STATUS
from tpcsweep.exporting.cells import cells
from tpcsweep.sweep import REPETITION, path_text

MB_PER_S = 125.0
"""MB/s of a Gbit/s."""
MODULES = {"iperf3": "network", "globus-url-copy": "gridftp", "xrdcp": "xrootd", "xrdcp-direct": "xrootd"}
"""What a tool speaks; the others speak HTTP."""
LAYERS = {"memory_to_disk": "m2d", "disk_to_disk": "d2d"}
"""What is at both ends; without a layer, and on the others, it is memory."""
NAMED = ("streams", "tcp_buffer", "layer", REPETITION)
"""Axes that the published form has a place for; repetitions have one name, and each its time."""


def lines(summary: xr.Dataset, samples: xr.Dataset) -> list[str]:
    """Give two lines a cell that went well, oldest first: average and maximum goodput in MB/s.

    The average is over the whole cell, ramp-up included, as theirs was; the maximum is that of any one second.

    Raises:
        ExportError: see `cells`.
    """
    goodput = samples["goodput"].load().transpose(*summary["status"].dims, "time")
    suffixed = _suffixed(summary)
    found = []
    for cell in sorted(cells(summary), key=lambda cell: cell.ended):
        here = summary.isel(cell.index)
        if int(here["status"]) != STATUS.index("ok"):
            continue
        average = np.nanmean(goodput.isel(cell.index).values)
        for kind, value in (("avg", average), ("max", here["throughput_max"].item())):
            where = [_site(summary), str(summary.attrs["sweep"]), "source->destination"]
            called = "_".join([name(here, kind), *(f"{n}={path_text(cell.axes[n])}" for n in suffixed)])
            found.append(", ".join([f"{cell.ended * 1e3:.0f}", *where, called, f"{value * MB_PER_S:.6g}"]))
    return found


def _site(summary: xr.Dataset) -> str:
    """The testbed, which says so itself where nothing was measured."""
    testbed = str(summary.attrs["testbed"])
    return f"simulated:{testbed}" if summary.attrs["testbed_kind"] == SIMULATED else testbed


def name(cell: xr.Dataset, kind: str) -> str:
    """The name of a figure in the published form, such as network_m2m_avg_01s_08m.

    cell: one cell of a dataset. kind: avg or max.
    """
    said = {str(name): one.item() for name, one in cell.coords.items()}
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
