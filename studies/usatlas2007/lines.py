# SPDX-License-Identifier: Apache-2.0
"""Write a dataset as the monitoring lines of the load tests of a Tier 1 and its Tier 2s (US ATLAS, 2007).

    python studies/usatlas2007/lines.py DATASET.nc

Prints two lines for each successful cell, oldest first: average and maximum goodput. README.md has the format.
"""

import argparse
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tpcsweep.data.labels import SIMULATED, STATUS
from tpcsweep.data.opening import load
from tpcsweep.data.tables import escape_formula
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.sweep import REPETITION, path_text

MB_PER_S = 125.0  # MB/s in one Gbit/s
MODULES = {"iperf3": "network", "globus-url-copy": "gridftp", "xrdcp": "xrootd", "xrdcp-direct": "xrootd"}
"""Protocols of tools; all others use HTTP."""
LAYERS = {"memory_to_disk": "m2d", "disk_to_disk": "d2d"}
"""Both ends of a transfer by layer; memory on other layers, and without one."""
NAMED_AXES = ("streams", "tcp_buffer", "layer", REPETITION)
"""Axes with a place in the published format; repetitions have the same name, but different times."""


def monitoring_lines(summary: xr.Dataset, samples: xr.Dataset) -> list[str]:
    """Return two lines for each successful cell, oldest first: average and maximum goodput in MB/s.

    The average is over the whole cell including ramp-up, as in 2007; the maximum is that of any one second. Raises
    ValueError if the dataset lacks the time of a cell.
    """
    axes = summary["status"].dims
    cells = summary[["status", "started", "duration", "throughput_max"]].assign(
        average=samples["goodput"].mean("time")
    )
    cells = cells.stack(cell=axes, create_index=False)
    cells = cells.isel(cell=np.flatnonzero(cells["status"] == STATUS.index("ok")))
    started = cells["started"].values.astype("datetime64[ns]")
    if np.isnat(started).any():
        raise ValueError("the dataset has no times of measurement, which monitoring needs")
    ended = started.astype("int64") / 1e9 + np.nan_to_num(cells["duration"].values)
    rows = cells.assign(ended=("cell", ended)).sortby("ended").reset_coords().to_dataframe()
    simulated = "simulated:" if summary.attrs["testbed_kind"] == SIMULATED else ""
    site = _field(f"{simulated}{summary.attrs['testbed']}")
    begin = f"{site}, {_field(summary.attrs['sweep'])}, source->destination"
    suffixed = _suffixed(summary)
    lines = []
    for cell in rows.to_dict("records"):
        module = MODULES.get(cell["tool"], "http")
        ends = LAYERS.get(cell.get("layer", ""), "m2m")
        setting = f"{cell['streams']:02}s_{_megabytes(cell['tcp_buffer'])}m"
        suffix = "".join(f"_{axis}={_text(cell[axis])}" for axis in suffixed)
        for kind, figure in (("avg", "average"), ("max", "throughput_max")):
            name = _field(f"{module}_{ends}_{kind}_{setting}{suffix}")
            lines.append(f"{cell['ended'] * 1e3:.0f}, {begin}, {name}, {cell[figure] * MB_PER_S:.6g}")
    return lines


def _field(text: str) -> str:
    """Return a text as one field of a line, which no spreadsheet executes."""
    return escape_formula(" ".join(text.replace(",", " ").split()))


def _text(value: Any) -> str:
    """Format a coordinate's value in base units; inf becomes "none" and means no limit."""
    return path_text(None if isinstance(value, float) and math.isinf(value) else value)


def _megabytes(size: int) -> str:
    """Return a whole number of MB or MiB for a buffer, with two digits: 08 for 8 MB and for 8 MiB."""
    whole = next((size // unit for unit in (10**6, 2**20) if size % unit == 0), None)
    return f"{size / 1e6:g}" if whole is None else f"{whole:02}"


def _suffixed(summary: xr.Dataset) -> list[str]:
    """Return the axes to append to names, which would otherwise be equal for two cells."""
    alike = Counter(_megabytes(size) for size in summary["tcp_buffer"].values.reshape(-1).tolist())
    named = [axis for axis in NAMED_AXES if axis != "tcp_buffer" or max(alike.values()) == 1]
    return [str(axis) for axis in summary["status"].dims if axis not in named]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a dataset as the monitoring lines of 2007.")
    parser.add_argument("dataset", metavar="DATASET.nc", type=Path)
    file = parser.parse_args().dataset
    try:
        print(*monitoring_lines(load(file), load(file, "samples")), sep="\n")
    except (ConfigurationError, ValueError, OSError) as error:
        parser.error(str(error))
