# SPDX-License-Identifier: Apache-2.0
"""Export of a dataset as text for existing dashboards, and as a Zarr store. See `docs/data.md`."""

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from tpcsweep.configuration.sweep import REPETITION, path_text
from tpcsweep.dataset import GROUPS, SIMULATED, STATUS, flag_masks, flags_in, open_group
from tpcsweep.dataset.tables import escape_formula
from tpcsweep.extras import require_extra
from tpcsweep.files import creating_folder
from tpcsweep.flags import FLAGS
from tpcsweep.variables import METRICS_END, SUMMARY, TABLES, metric_head, metric_labels, metric_name

MB_PER_S = 125.0  # MB/s in one Gbit/s
MODULES = {"iperf3": "network", "globus-url-copy": "gridftp", "xrdcp": "xrootd", "xrdcp-direct": "xrootd"}
"""Protocols of tools; all others use HTTP."""
LAYERS = {"memory_to_disk": "m2d", "disk_to_disk": "d2d"}
"""Both ends of a transfer by layer; memory on other layers, and without one."""
FORMAT_AXES = ("streams", "tcp_buffer", "layer", REPETITION)
"""Axes with a place in the published format; repetitions have the same name, but different times."""

UNITS: Mapping[str, tuple[str, float]] = TABLES["openmetrics"]
Frame = list[tuple[str, str]]
"""Common parts of a cell's lines: the labels without the closing brace, and the time of its end."""
ABOUT = ("testbed_kind", "measured_from", "measured_until", "software", "host", "kernel", "cpu", "commit")
"""Attributes of the dataset that are exported once."""


class ExportError(ValueError):
    """A dataset that cannot be exported; the text contains reason and fix."""


def zarr(file: Path, store: Path) -> None:
    """Write a dataset with all its groups as a new Zarr store in format 2, one variable at a time, with its chunks."""
    require_extra("zarr")
    from zarr import consolidate_metadata

    with creating_folder(store) as part:
        # Not as a tree, because the columns of transfers for each axis are no dimensions.
        for group in GROUPS:
            with open_group(file, group, cache=False) as content:
                sizes = {name: one.encoding.get("chunksizes") for name, one in content.variables.items()}
                chunks = {name: {"chunks": size} for name, size in sizes.items() if size}
                how: dict[str, Any] = {"mode": "a", "consolidated": False, "zarr_format": 2}
                content.to_zarr(part, group=group, encoding=chunks, **how)
        consolidate_metadata(part, zarr_format=2)


def _cells(summary: xr.Dataset) -> xr.Dataset:
    """Stack measured and failed cells along the dimension `cell`, in the order of the axes.

    The variable `ended` is the end of a cell's measurement, in s since 1970-01-01 UTC; `place` is its index in the
    whole grid. Raises ExportError if the dataset lacks the time of a cell.
    """
    axes = summary["status"].dims
    row = summary.stack(cell=axes, create_index=False)
    places = np.flatnonzero(row["status"] != STATUS.index("not_measured"))
    row = row.isel(cell=places)
    started = row["started"].values.astype("datetime64[ns]")
    for cell in np.flatnonzero(np.isnat(started))[:1]:
        where = ", ".join(f"{axis}={_text(row[axis].values[cell].item())}" for axis in axes)
        lack = f"the dataset has no time of measurement for the cell {where}, which monitoring needs"
        raise ExportError(f"{lack}; export csv or zarr instead")
    ended = started.astype("int64") / 1e9 + np.nan_to_num(row["duration"].values)
    return row.assign(ended=("cell", ended), place=("cell", places))


@functools.lru_cache(maxsize=None, typed=True)
def _text(value: Any) -> str:
    """Format a coordinate's value in base units; inf becomes "none" and means no limit."""
    return path_text(None if isinstance(value, float) and math.isinf(value) else value)


def monitoring_lines(summary: xr.Dataset, samples: xr.Dataset) -> list[str]:
    """Return two lines for each successful cell, oldest first: average and maximum goodput in MB/s.

    The format is that of the load tests of a Tier 1 and its Tier 2s in 2007 for their monitoring server: time(ms),
    site, module, source->destination, network_m2m_avg_01s_08m, value. The average is over the whole cell including
    ramp-up, as theirs was; the maximum is that of any one second. Raises ExportError if a cell has no time.
    """
    row = _cells(summary)
    row = row.isel(cell=np.flatnonzero(row["status"] == STATUS.index("ok"))).sortby("ended")
    means = samples["goodput"].mean("time").stack(cell=summary["status"].dims, create_index=False)
    average = means.values[row["place"].values]
    cells = row[["ended", "throughput_max"]].assign(average=("cell", average)).reset_coords().to_dataframe()
    suffixed = _suffixed(summary)
    whose = _whose(summary)
    where = f"{_field(whose['testbed'])}, {_field(whose['sweep'])}, source->destination"
    written = []
    for cell in cells.to_dict("records"):
        module = MODULES.get(cell["tool"], "http")
        ends = LAYERS.get(cell.get("layer", ""), "m2m")  # earlier datasets have no layer
        setting = f"{cell['streams']:02}s_{megabytes(cell['tcp_buffer'])}m"
        suffix = "".join(f"_{axis}={_text(cell[axis])}" for axis in suffixed)
        for kind, figure in (("avg", "average"), ("max", "throughput_max")):
            called = _field(f"{module}_{ends}_{kind}_{setting}{suffix}")
            written.append(f"{cell['ended'] * 1e3:.0f}, {where}, {called}, {cell[figure] * MB_PER_S:.6g}")
    return written


def _field(text: str) -> str:
    """Return a text as one field of a line, which no spreadsheet executes."""
    return escape_formula(" ".join(text.replace(",", " ").split()))


def megabytes(size: int) -> str:
    """Return a whole number of MB or MiB for a buffer, with two digits: 08 for 8 MB and for 8 MiB."""
    whole = next((size // unit for unit in (10**6, 2**20) if size % unit == 0), None)
    return f"{size / 1e6:g}" if whole is None else f"{whole:02}"


def _suffixed(summary: xr.Dataset) -> Sequence[str]:
    """Return the axes to append to names, which would otherwise be equal for two cells."""
    alike = Counter(megabytes(size) for size in summary["tcp_buffer"].values.reshape(-1).tolist())
    named = [axis for axis in FORMAT_AXES if axis != "tcp_buffer" or max(alike.values()) == 1]
    return [str(axis) for axis in summary["status"].dims if axis not in named]


def exposition(summary: xr.Dataset) -> Iterator[str]:
    """Return a dataset as OpenMetrics 1.0: one gauge for each figure, labelled by axes, at the cell's end.

    Numbers are in OpenMetrics' base units. Failed cells have their recorded figures and `tpcsweep_ok` 0. Raises
    ExportError if a cell has no time, before the first line.
    """
    row = _cells(summary)
    axes = [str(axis) for axis in summary["status"].dims]
    whose = _whose(summary)
    begins = [
        metric_labels(whose | dict(zip(axes, map(_text, values), strict=True))).removesuffix("}")
        for values in zip(*(row[axis].values.tolist() for axis in axes), strict=True)
    ]
    ends = [f" {ended:.3f}" for ended in row["ended"].values.tolist()]
    frame = list(zip(begins, ends, strict=True))
    gauges = (_gauge(row[name], frame) for name in SUMMARY if name in summary)
    latest = ends[int(np.argmax(row["ended"].values))] if ends else ""
    return chain(_about(summary, latest), _states(row, frame), *gauges, [METRICS_END])


def _about(summary: xr.Dataset, ended: str) -> Iterator[str]:
    """Yield facts about the dataset, with the time of its last cell, because history loaders need one."""
    said = {name: str(summary.attrs.get(name, "")) for name in ABOUT}
    said |= {str(name): _text(value.item()) for name, value in summary.coords.items() if not value.dims}
    info = metric_name("sweep")
    yield from metric_head(info, "info", "", "the sweep, and the parameters that are the same for all cells")
    yield f"{info}_info{metric_labels(_whose(summary) | said)} 1{ended}"


def _states(row: xr.Dataset, frame: Frame) -> Iterator[str]:
    ok, flags = metric_name("ok"), metric_name("flags")
    yield from metric_head(ok, "gauge", "", "1 for a cell that was measured, 0 for one that failed")
    for status, (labels, ended) in zip(row["status"].values.tolist(), frame, strict=True):
        yield f"{ok}{labels}}} {int(status == STATUS.index('ok'))}{ended}"
    yield from metric_head(flags, "stateset", "", "what to know before trusting the cell")
    masks = flag_masks(row)
    for value, (labels, ended) in zip(row["flags"].values.tolist(), frame, strict=True):
        carried = flags_in(value, masks)
        for flag in FLAGS:
            yield f'{flags}{labels},{flags}="{flag}"}} {int(flag in carried)}{ended}'


def _gauge(figure: xr.DataArray, frame: Frame) -> Iterator[str]:
    unit, scale = UNITS[figure.attrs["units"]]
    metric = metric_name(str(figure.name), unit)
    yield from metric_head(metric, "gauge", unit, figure.attrs["long_name"])
    for value, (labels, ended) in zip((figure.values * scale).tolist(), frame, strict=True):
        if not math.isnan(value):
            yield f"{metric}{labels}}} {value:.10g}{ended}"


def _whose(summary: xr.Dataset) -> dict[str, str]:
    simulated = "simulated:" if summary.attrs["testbed_kind"] == SIMULATED else ""
    return {"sweep": str(summary.attrs["sweep"]), "testbed": f"{simulated}{summary.attrs['testbed']}"}
