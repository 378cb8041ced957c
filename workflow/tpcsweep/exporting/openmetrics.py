"""OpenMetrics 1.0 text: https://prometheus.io/docs/specs/om/open_metrics_spec/."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain

import xarray as xr

from tpcsweep.dataset import STATUS, flags_in, masks_of
from tpcsweep.exporting.cells import ExportError, cells, site, text, texts
from tpcsweep.flags import FLAGS
from tpcsweep.variables import SUMMARY

PREFIX = "tpcsweep"
UNITS = {
    "Gbit/s": ("bits_per_second", 1e9),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "B": ("bytes", 1.0),
    "cores": ("cores", 1.0),
    "1": ("", 1.0),
}
"""The dataset's units in OpenMetrics' words, and by how much numbers grow."""
Frame = list[tuple[str, str]]
"""For each cell what all of its lines have: the labels without the last brace, and when it ended."""
ABOUT = ("testbed_kind", "measured_from", "measured_until", "software", "host", "kernel", "cpu", "commit")
"""Attributes of the dataset that are said once."""


def exposition(summary: xr.Dataset) -> Iterator[str]:
    """Give a dataset as lines of OpenMetrics text: a gauge for each figure, labelled by the axes, at the cell's end.

    Numbers are in OpenMetrics' base units. Cells that failed have what was seen of them and `tpcsweep_ok` 0.

    Raises:
        ExportError: see `cells`; also for a figure in a unit that OpenMetrics has no word for here. Before any line.
    """
    row = cells(summary)
    axes = [str(axis) for axis in summary["status"].dims]
    columns = [texts(row[axis]) for axis in axes]
    whose = _whose(summary)
    begins = [
        _labels(whose | dict(zip(axes, values, strict=True))).removesuffix("}")
        for values in zip(*columns, strict=True)
    ]
    ends = [f" {ended:.3f}" for ended in row["ended"].values.tolist()]
    frame = list(zip(begins, ends, strict=True))
    figures = [name for name in SUMMARY if name in summary]
    for name in figures:
        if (units := summary[name].attrs["units"]) not in UNITS:
            raise ExportError(f"{name} is in {units}; OpenMetrics is written for {', '.join(UNITS)} alone")
    gauges = (_gauge(row[name], frame) for name in figures)
    return chain(_about(summary), _states(row, frame), *gauges, ["# EOF"])


def _about(summary: xr.Dataset) -> Iterator[str]:
    said = {name: str(summary.attrs.get(name, "")) for name in ABOUT}
    said |= {str(name): text(value.item()) for name, value in summary.coords.items() if not value.dims}
    meaning = "the sweep, and the parameters that are the same for all cells"
    yield from _head(f"{PREFIX}_sweep", "info", "", meaning)
    yield f"{PREFIX}_sweep_info{_labels(_whose(summary) | said)} 1"


def _states(row: xr.Dataset, frame: Frame) -> Iterator[str]:
    """Whether cells went well, and their flags."""
    ok, flags = f"{PREFIX}_ok", f"{PREFIX}_flags"
    yield from _head(ok, "gauge", "", "1 for a cell that was measured, 0 for one that failed")
    for status, (labels, ended) in zip(row["status"].values.tolist(), frame, strict=True):
        yield f"{ok}{labels}}} {int(status == STATUS.index('ok'))}{ended}"
    yield from _head(flags, "stateset", "", "what to know before trusting the cell")
    masks = masks_of(row)
    for value, (labels, ended) in zip(row["flags"].values.tolist(), frame, strict=True):
        carried = flags_in(value, masks)
        for flag in FLAGS:
            yield f'{flags}{labels},{flags}="{flag}"}} {int(flag in carried)}{ended}'


def _gauge(figure: xr.DataArray, frame: Frame) -> Iterator[str]:
    unit, scale = UNITS[figure.attrs["units"]]
    metric = "_".join(filter(None, (PREFIX, str(figure.name), unit)))
    yield from _head(metric, "gauge", unit, figure.attrs["long_name"])
    for value, (labels, ended) in zip((figure.values * scale).tolist(), frame, strict=True):
        if not math.isnan(value):
            yield f"{metric}{labels}}} {value:.10g}{ended}"


def _head(metric: str, kind: str, unit: str, meaning: str) -> Iterator[str]:
    yield f"# TYPE {metric} {kind}"
    if unit:
        yield f"# UNIT {metric} {unit}"
    yield f"# HELP {metric} {_escaped(meaning)}"


def _whose(summary: xr.Dataset) -> dict[str, str]:
    return {"sweep": str(summary.attrs["sweep"]), "testbed": site(summary)}


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
