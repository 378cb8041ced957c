"""OpenMetrics 1.0 text: https://prometheus.io/docs/specs/om/open_metrics_spec/."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import xarray as xr

from tpcsweep.dataset import STATUS, flag_words
from tpcsweep.exporting.cells import Cell, ExportError, cells, plain
from tpcsweep.sweep import path_text
from tpcsweep.variables import FLAGS, SUMMARY

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
ABOUT = ("testbed_kind", "measured_from", "measured_until", "software", "host", "kernel", "cpu", "commit")
"""Attributes of the dataset that are said once."""


def exposition(summary: xr.Dataset) -> str:
    """Give a dataset as OpenMetrics text: a gauge for each figure, labelled by the axes, at the time of the cell's end.

    Numbers are in OpenMetrics' base units. Cells that failed have what was seen of them and `tpcsweep_ok` 0.

    Raises:
        ExportError: see `cells`; also for a figure in a unit that OpenMetrics has no word for here.
    """
    measured = list(cells(summary))
    text = [*_about(summary), *_states(summary, measured)]
    for name, variable in SUMMARY.items():
        if name in summary:
            text += _gauge(summary, measured, name, variable.long_name)
    return "\n".join([*text, "# EOF", ""])


def _about(summary: xr.Dataset) -> Iterator[str]:
    fixed = {str(name): one for name, one in summary.coords.items() if not one.dims}
    said = {name: str(summary.attrs.get(name, "")) for name in ABOUT}
    said |= {name: path_text(plain(one.item())) for name, one in fixed.items()}
    yield from _head(
        f"{PREFIX}_sweep", "info", "", "the sweep, and the parameters that are the same for all cells"
    )
    yield f"{PREFIX}_sweep_info{_labels(_whose(summary) | said)} 1"


def _states(summary: xr.Dataset, measured: Iterable[Cell]) -> Iterator[str]:
    """Whether cells went well, and their flags."""
    ok, flags = f"{PREFIX}_ok", f"{PREFIX}_flags"
    cell_of = [(cell, summary.isel(cell.index)) for cell in measured]
    yield from _head(ok, "gauge", "", "1 for a cell that was measured, 0 for one that failed")
    for cell, here in cell_of:
        went_well = int(here["status"]) == STATUS.index("ok")
        yield _sample(ok, _whose(summary) | _axes(cell), int(went_well), cell)
    yield from _head(flags, "stateset", "", "what to know before trusting the cell")
    for cell, here in cell_of:
        carried = flag_words(int(here["flags"])).split()
        for flag in FLAGS:
            labels = _whose(summary) | _axes(cell) | {flags: flag}
            yield _sample(flags, labels, int(flag in carried), cell)


def _gauge(summary: xr.Dataset, measured: Iterable[Cell], name: str, meaning: str) -> Iterator[str]:
    units = summary[name].attrs["units"]
    if units not in UNITS:
        raise ExportError(f"{name} is in {units}; OpenMetrics is written for {', '.join(UNITS)} alone")
    unit, scale = UNITS[units]
    metric = "_".join(filter(None, (PREFIX, name, unit)))
    yield from _head(metric, "gauge", unit, meaning)
    values = summary[name].values
    for cell in measured:
        value = float(values[tuple(cell.index.values())]) * scale
        if not math.isnan(value):
            yield _sample(metric, _whose(summary) | _axes(cell), value, cell)


def _head(metric: str, kind: str, unit: str, meaning: str) -> Iterator[str]:
    yield f"# TYPE {metric} {kind}"
    if unit:
        yield f"# UNIT {metric} {unit}"
    yield f"# HELP {metric} {_escaped(meaning)}"


def _sample(metric: str, labels: Mapping[str, str], value: float, cell: Cell) -> str:
    return f"{metric}{_labels(labels)} {value:.10g} {cell.ended:.3f}"


def _whose(summary: xr.Dataset) -> dict[str, str]:
    return {"sweep": str(summary.attrs["sweep"]), "testbed": str(summary.attrs["testbed"])}


def _axes(cell: Cell) -> dict[str, str]:
    return {name: path_text(value) for name, value in cell.axes.items()}


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
