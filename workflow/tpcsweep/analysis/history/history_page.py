# SPDX-License-Identifier: Apache-2.0
"""Content of a history's page as plain values: texts, and the ratios that its charts show."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd  # type: ignore[import-untyped]

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
from tpcsweep.common.files import is_file, write_text
from tpcsweep.common.numbers import between, short
from tpcsweep.data.labels import STATUS
from tpcsweep.data.run_effects import FASTER, SAME, SLOWER
from tpcsweep.data.scatter import Floats
from tpcsweep.pages.contract import History
from tpcsweep.pages.making import PAGE
from tpcsweep.pages.rendering import render
from tpcsweep.sweeps.parameters import name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION


def make_history(dataset: Path, folder: Path) -> SweepHistory:
    """Add a dataset to a history's folder, and write the history's page and history.json.

    Raises HistoryError if the dataset has no date of measurement, MissingExtraError without the extra `history`.
    """
    runs.keep_run(dataset, folder)
    history = find_history(*runs.read_kept_runs(folder))
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    write_text(folder / "history.json", orjson.dumps(history.to_dict(), option=options).decode())
    links = [(path, text) for path, text in _LINKS.items() if is_file(folder / path)]
    write_text(folder / PAGE, render("history", **history_content(history, links)))
    return history


_LINKS = {f"../{PAGE}": "The sweep as it is now", f"../../{PAGE}": "All sweeps"}
_LEAST_SPAN = 0.02  # smallest span of ratios, so that small scatter is not magnified
_MOST_ROWS = 300  # cells with a line of their own, which a browser draws in less than a second


def history_content(history: SweepHistory, links: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Return the content of a history's page, which starts with links: path from its folder, and text."""
    last = history.runs[-1]
    runs_shown, rows = list(_runs(history)), list(_rows(history))
    shown = _shown(rows)
    trend = _trend(history, runs_shown)
    means = ["" if kept["ratio"] is None else short(kept["ratio"]) for kept in trend["runs"]]
    return {
        "links": links,
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
                "direction": _direction(each),
            }
            for each in history.changes
        ],
        "broken": history.broken,
        "history": trend,
        "axes": [name_text(axis) for axis in history.axes],
        "rows": [rows[at] | paths for at, paths in zip(shown, _sparklines(history, shown), strict=True)],
        "change_lines": "".join(f"M{x:.1f},0V100" for x in _across(history, _change_times(history))),
        "scale": between(*_span(_ratios(history))),
        "since": day(history.runs[history.changes[-1].place]) if history.changes else "",
        "runs": [run | {"mean": mean} for run, mean in zip(runs_shown, means, strict=True)][::-1],
        "left_out": sorted(history.skipped_files.items()),
    }


def _shown(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the places of the rows that the page shows: first those that changed or have no throughput."""
    by_interest = sorted(range(len(rows)), key=lambda at: not (rows[at]["verdict"] or rows[at]["status"]))
    return sorted(by_interest[:_MOST_ROWS])


def _trend(history: SweepHistory, shown: Sequence[Mapping[str, Any]]) -> History:
    """Return means of all cells by run and between changes, relative to that before the first one."""
    mean = np.log(mean_cell(history.cells)["throughput"].values)
    edges = [0, *(change.place for change in history.changes), len(mean)]
    parts = [mean[slice(*pair)] for pair in itertools.pairwise(edges)]
    levels = [float(part[np.isfinite(part)].mean()) if np.isfinite(part).any() else np.nan for part in parts]
    ends = [run.ended for run in history.runs]
    return {
        "runs": [
            {
                "time": end.isoformat(),
                "ratio": ratio,
                "differs": bool(run["with"]),
                "text": "\n".join([f"{run['day']}: {ratio}", *run["with"]]),
            }
            for end, ratio, run in zip(ends, _rounded(np.exp(mean - levels[0])), shown, strict=True)
        ],
        "changes": [
            {
                "time": time.isoformat(),
                "verdict": _direction(change),
            }
            for change, time in zip(history.changes, _change_times(history), strict=True)
        ],
        "levels": _rounded(np.exp(np.array(levels) - levels[0])),
    }


def _change_times(history: SweepHistory) -> list[datetime]:
    """Return the middle of the times of the runs before and after each change."""
    ends = [run.ended for run in history.runs]
    pairs = [ends[change.place - 1 : change.place + 1] for change in history.changes]
    return [before + (after - before) / 2 for before, after in pairs]


def _across(history: SweepHistory, times: Iterable[datetime]) -> list[float]:
    """Return the places of times in a box of 100 × 100 from the first run to the last one."""
    first, last = history.runs[0].ended, history.runs[-1].ended
    return [100 * ((time - first) / (last - first)) if last > first else 50.0 for time in times]


def _sparklines(history: SweepHistory, cells: Sequence[int]) -> list[dict[str, str]]:
    """Return SVG paths for each cell in a box of 100 × 100: its ratios over time, all on one scale.

    A run without the cell interrupts the line; a run between two interruptions is a dot.
    """
    ratios = _ratios(history)
    low, high = _span(ratios)
    across = _across(history, [run.ended for run in history.runs])
    return [_sparkline(across, 100 * (high - ratios[:, cell]) / (high - low)) for cell in cells]


def _sparkline(across: Sequence[float], down: Floats) -> dict[str, str]:
    known = np.isfinite(down)
    before, after = np.append(False, known[:-1]), np.append(known[1:], False)
    places = [f"{x:.1f},{y:.1f}" for x, y in zip(across, down.tolist(), strict=True)]
    parts = [("L" if begun else "M") + place for place, begun in zip(places, before, strict=True)]
    return {
        "line": "".join(itertools.compress(parts, known)),
        "dots": "".join(f"M{place}h0" for place in itertools.compress(places, known & ~before & ~after)),
    }


def _direction(change: Change) -> str:
    return " and ".join(sorted(change.directions))


def _rounded(ratios: Floats) -> list[float | None]:
    return [round(value, 4) if math.isfinite(value) else None for value in ratios.tolist()]


def _rows(history: SweepHistory) -> Iterator[dict[str, Any]]:
    """Yield a row for each cell: its values, its last result, and the effect of the last change."""
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


def _runs(history: SweepHistory) -> Iterator[dict[str, Any]]:
    """Yield a row for each run, the first one first; that after a change has its verdict."""
    changes = {change.place: change for change in history.changes}
    for at, run in enumerate(history.runs):
        others = changed_settings(history.runs[at - 1], run) if at else []
        change = changes.get(at)
        yield {
            "day": day(run),
            "file": run.file,
            "ok": run.count("ok"),
            "failed": run.count("failed"),
            "missing": run.count("not_measured"),
            "flagged": run.flagged,
            "verdict": _direction(change) if change else "",
            "size": f"{short(change.overall.ratio)} times" if change else "",
            "interval": _interval(change.overall.low, change.overall.high) if change else "",
            "with": [f"{it.name}: {it.before or 'unknown'} → {it.after or 'unknown'}" for it in others],
        }


def _span(ratios: Floats) -> tuple[float, float]:
    known = ratios[np.isfinite(ratios)]
    low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 1.0)
    lack = max(0.0, _LEAST_SPAN - (high - low)) / 2
    return low - lack, high + lack
