# SPDX-License-Identifier: Apache-2.0
"""Content of a history's page as plain values: texts, and lines in per cent of their boxes."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.ticker import MaxNLocator

from tpcsweep.analysis.history import runs
from tpcsweep.analysis.history.change_points import (
    FEWEST_RUNS,
    Change,
    SweepHistory,
    changed_settings,
    day,
    find_history,
    sentence,
)
from tpcsweep.analysis.history.runs import log_throughput, mean_cell
from tpcsweep.common.files import write_text
from tpcsweep.common.numbers import between, short
from tpcsweep.data.labels import STATUS
from tpcsweep.data.run_effects import FASTER, SAME, SLOWER
from tpcsweep.data.scatter import Floats
from tpcsweep.pages.figures.axis_labels import name_text
from tpcsweep.pages.figures.panel_grid import evenly
from tpcsweep.pages.making import PAGE
from tpcsweep.pages.rendering import render
from tpcsweep.sweeps.parameters import value_text
from tpcsweep.sweeps.sweep import REPETITION


def make_history(dataset: Path, folder: Path) -> SweepHistory:
    """Add a dataset to a history's folder, and write the history's page and history.json.

    Raises HistoryError if the dataset has no date of measurement, MissingExtraError without the extra `history`.
    """
    runs.keep_run(dataset, folder)
    history = find_history(*runs.read_kept_runs(folder))
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    write_text(folder / "history.json", orjson.dumps(history.to_dict(), option=options).decode())
    write_text(folder / PAGE, render("history", **history_content(history)))
    return history


_MARGIN = 0.06  # share of a chart's height above and below the drawing, and of its width at both sides
_MOST_DATES = 5  # of runs, below the chart
_DATE_WIDE = 18  # per cent of a chart's width between dates, on a telephone
_LEAST_SPAN = 0.02  # smallest span of ratios, so that small scatter is not magnified


def history_content(history: SweepHistory) -> dict[str, Any]:
    last = history.runs[-1]
    times = np.array([run.ended.timestamp() for run in history.runs])
    across = _scaled(times, times.min(), times.max()) if len(times) > 1 else np.array([50.0])
    marks = [round(float(across[one.place - 1 : one.place + 1].mean()), 2) for one in history.changes]
    return {
        "name": last.identity[0],
        "made": last.made,
        "first": day(history.runs[0]),
        "last": day(last),
        "count": len(history.runs),
        "cells": int(np.prod([history.cells.sizes[axis] for axis in history.axes], dtype=int)),
        "enough": FEWEST_RUNS,
        "changes": [
            {
                "text": sentence(history, each),
                "new": each.new,
                "direction": " and ".join(sorted(each.directions)),
            }
            for each in history.changes
        ],
        "broken": history.broken,
        "trend": _trend(history, across, marks),
        "axes": [name_text(axis) for axis in history.axes],
        "rows": list(_rows(history, across)),
        "scale": between(*_span(_ratios(history))),
        "marks": marks,
        "since": day(history.runs[history.changes[-1].place]) if history.changes else "",
        "runs": list(_runs(history)),
        "left_out": sorted(history.skipped_files.items()),
    }


def _trend(history: SweepHistory, across: Floats, marks: Sequence[float]) -> dict[str, Any]:
    """Return the mean of all cells by run and between changes, relative to that before the first one."""
    mean = np.log(mean_cell(history.cells)["throughput"].values)
    edges = [0, *(change.place for change in history.changes), len(mean)]
    parts = [mean[slice(*pair)] for pair in itertools.pairwise(edges)]
    levels = [float(part[np.isfinite(part)].mean()) if np.isfinite(part).any() else np.nan for part in parts]
    ratios, steps = np.exp(mean - levels[0]), np.exp(np.array(levels) - levels[0])
    low, high = _span(ratios)
    ticks = np.array([tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high])
    up, level, scale = ((100 - _scaled(values, low, high)).round(2) for values in (ratios, steps, ticks))
    texts = [f"{day(run)}: {ratio:.3f}" for run, ratio in zip(history.runs, ratios, strict=True)]
    bounds = itertools.pairwise([0.0, *marks, 100.0])
    return {
        "dots": [dot for dot in zip(across.round(2), up, texts, strict=True) if np.isfinite(dot[1])],
        "steps": [(*ends, y) for ends, y in zip(bounds, level, strict=True) if np.isfinite(y)],
        "dates": list(_dates(history, across, marks)),
        "ticks": list(zip(scale, map(short, ticks), strict=True)),
    }


def _dates(history: SweepHistory, across: Floats, marks: Sequence[float]) -> Iterator[tuple[float, str]]:
    """Yield positions and texts of dates below the chart: of changes, and of some runs where there is room."""
    of_changes = zip(marks, (change.place for change in history.changes), strict=True)
    of_runs = ((float(across[at]), int(at)) for at in evenly(len(across), _MOST_DATES))
    taken: list[float] = []
    for x, at in (*of_changes, *of_runs):
        if x in marks or all(abs(x - other) >= _DATE_WIDE for other in taken):
            taken.append(x)
            yield round(x, 2), f"{history.runs[at].ended:%Y-%m-%d}"


def _rows(history: SweepHistory, across: Floats) -> Iterator[dict[str, Any]]:
    """Yield a row for each cell: its values, its last result, its line, and the effect of the last change."""
    ratios = _ratios(history)
    low, high = _span(ratios)
    up = 100 - _scaled(ratios, low, high)
    last = history.cells.isel({REPETITION: -1})
    flat = {name: last[name].values.reshape(-1) for name in last.data_vars}
    change = history.changes[-1] if history.changes else None
    places = itertools.product(*(history.cells[axis].values.tolist() for axis in history.axes))
    for at, place in enumerate(places):
        status = STATUS[int(flat["status"][at])]
        yield {
            "values": [value_text(axis, value) for axis, value in zip(history.axes, place, strict=True)],
            "rate": short(flat["throughput"][at]) if status == "ok" else "",
            "interval": _interval(flat["throughput_low"][at], flat["throughput_high"][at]),
            "status": "" if status == "ok" else status.replace("_", " "),
            "message": str(flat["message"][at] or ""),
            "lines": list(_lines(across, up[:, at])),
            **_changed(change, at),
        }


def _ratios(history: SweepHistory) -> Floats:
    """Return runs × cells."""
    logs = pd.DataFrame(log_throughput(history.cells))
    return np.asarray(np.exp(logs - logs.mean()))


def _changed(change: Change | None, at: int) -> dict[str, str]:
    """Return the ratio of a cell at a change, with its interval, and its verdict as a CSS class."""
    row = change.comparison.cells.iloc[at] if change else None
    if row is None or not np.isfinite(row["ratio"]):
        return {"ratio": "", "ratio_interval": "", "verdict": ""}
    return {
        "ratio": short(row["ratio"]),
        "ratio_interval": _interval(row["ratio_low"], row["ratio_high"]),
        "verdict": {SLOWER: SLOWER, FASTER: FASTER, SAME: ""}[row["verdict"]],
    }


def _interval(low: float, high: float) -> str:
    return between(low, high) if np.isfinite(low + high) else ""


def _lines(across: Floats, up: Floats) -> Iterator[str]:
    """Yield the points of lines through known values; a run without the cell interrupts the line."""
    points = zip(across, up, strict=True)
    for known, part in itertools.groupby(points, lambda point: bool(np.isfinite(point[1]))):
        held = [f"{x:.1f},{y:.1f}" for x, y in part]
        if known:
            # A line without length has round ends, which draw a single point.
            yield " ".join(held if len(held) > 1 else held * 2)


def _runs(history: SweepHistory) -> Iterator[dict[str, Any]]:
    for at, run in reversed(list(enumerate(history.runs))):
        others = changed_settings(history.runs[at - 1], run) if at else []
        yield {
            "day": day(run),
            "file": run.file,
            "ok": run.count("ok"),
            "failed": run.count("failed"),
            "missing": run.count("not_measured"),
            "flagged": run.flagged,
            "with": [f"{it.name}: {it.before or 'unknown'} → {it.after or 'unknown'}" for it in others],
        }


def _span(ratios: Floats) -> tuple[float, float]:
    known = ratios[np.isfinite(ratios)]
    low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 1.0)
    lack = max(0.0, _LEAST_SPAN - (high - low)) / 2
    return low - lack, high + lack


def _scaled(values: Floats, low: float, high: float) -> Floats:
    """Return positions in per cent of a box, with a margin at both ends."""
    return 100 * (_MARGIN + (1 - 2 * _MARGIN) * (values - low) / (high - low))
