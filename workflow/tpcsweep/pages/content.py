# SPDX-License-Identifier: Apache-2.0
"""Content of a sweep's page as plain values: texts, and compact columns of cells; pure functions.

Numbers are texts, so that they are rounded once. With very many cells, series are coarser and fewer transfers are
listed, so that a page of 10⁴ cells has less than 10 MB; the dataset has everything.
"""

import base64
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import ArrayLike

from tpcsweep.common.numbers import between, short
from tpcsweep.data.flags import FLAGS, GRADES, graded
from tpcsweep.data.labels import STATUS, data_origin, declared_coordinates, flag_masks, flagged
from tpcsweep.data.variables import LIMIT_NAMES, LIMITS, SHARES, SUMMARY
from tpcsweep.pages.cell_columns import Cells, doubtful, grid_cells
from tpcsweep.pages.contract import (
    Again,
    Axis,
    CellColumns,
    Distinct,
    FlagWords,
    Numbered,
    PageData,
    Points,
    Series,
    Texts,
    Transfers,
)
from tpcsweep.pages.figures.axis_labels import name_text
from tpcsweep.pages.figures.maps import LIMIT_COLOURS, LIMIT_LETTERS
from tpcsweep.pages.figures.panel_grid import arrange_axes
from tpcsweep.pages.findings import Change, disturbance, findings
from tpcsweep.pages.gains import Forecast, Gains, gains
from tpcsweep.pages.remedies import Remedies
from tpcsweep.sweeps.parameters import value_text
from tpcsweep.sweeps.sweep import REPETITION, cell_paths

SERIES_BYTES = 1_500_000  # bytes of all cells' series together, before encoding as text
_FINEST, _COARSEST = 160, 24
"""Points of a cell's series: at most the width of a chart, and no series at all below the smaller number."""
MOST_TRANSFERS = 40_000  # of all cells together
_GAP = 255  # byte of a point without a sample; those below it are levels
_NO_SAMPLES = "No time series: the cell has no samples."
_TOO_LARGE = "The page is too large for time series; the dataset has them."
_SHOWN = (
    *("duration", "warmup", "source_cpu", "destination_cpu", "client_cpu", "machine_cpu"),
    *("retransmits", "path_drops", "rtt_idle", "rtt_loaded", "transfers", "transfers_failed"),
)
"""Figures of a cell in addition to its throughput, if any cell has them."""
_OF_CLAIMS = ("published", "source", "verdict", "reason")
_FACTS = ("host", "cpu", "kernel", "software", "commit")


def page_content(
    summary: xr.Dataset,
    samples: xr.Dataset,
    transfers: xr.Dataset,
    *,
    files: Sequence[tuple[str, str]] = (),
    claims: Sequence[Mapping[str, Any]] = (),
    forecast: Forecast | None = None,
    overview: str = "",
    exists: Callable[[str], bool] = lambda _: False,
) -> dict[str, Any]:
    """Return the content of a page: its dataset's, and that of files next to it.

    `files` are linked: path from the page's folder, and description. `overview` is the path to the list of all sweeps,
    or "". `exists` returns whether a path from the page's folder exists.
    """
    gained = gains(summary, forecast.fitted) if forecast else None
    return {
        "about": dataset_facts(summary),
        "partial": str(summary.attrs.get("partial", "")),
        "banner": disturbance(summary),
        "findings": [
            {"text": found.text, "cells": list(found.cells), "changes": _changes(found.changes)}
            for found in findings(summary, gained)
        ],
        "doubts": _doubts(summary),
        "claims": [{name: str(claim.get(name) or "") for name in _OF_CLAIMS} for claim in claims],
        "models": forecast.section if forecast else None,
        "overview": overview,
        "files": [{"path": path, "what": what} for path, what in files],
        "data": _page_data(summary, samples, transfers, forecast, gained, exists),
    }


def _page_data(
    summary: xr.Dataset,
    samples: xr.Dataset,
    transfers: xr.Dataset,
    forecast: Forecast | None,
    gained: Gains | None,
    exists: Callable[[str], bool],
) -> PageData:
    dimensions = [str(name) for name in summary["throughput"].dims]
    places = arrange_axes(summary[["throughput"]].isel({REPETITION: 0}, drop=True))
    return {
        "axes": [_axis(summary[name]) for name in dimensions],
        "x": -1 if places.x is None else dimensions.index(places.x),
        "y": -1 if places.y is None else dimensions.index(places.y),
        "facets": [dimensions.index(name) for name in (*places.rows, places.columns) if name is not None],
        "flags": [
            {**_flag(flag), "mask": mask} for flag, mask in flag_masks(summary).items() if flag in FLAGS
        ],
        "limits": [
            (LIMIT_NAMES[name], meaning, LIMIT_COLOURS[name], LIMIT_LETTERS[name])
            for name, meaning in LIMITS.items()
        ],
        "cells": _columns(summary, grid_cells(summary), gained),
        "points": _points(summary, forecast),
        "plans": forecast.section["plans"] if forecast else None,
        "series": _series(summary, samples),
        "transfers": _transfers(transfers, summary["throughput"].size),
        "again": _again(summary, exists),
    }


def _changes(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the rows of a table of changes, each with the ends of a bar in % of a width that is centred on 1."""
    ends = np.array([(each.low, each.ratio, each.high) for each in changes])
    most = np.nanmax(np.abs(np.log(ends)), initial=np.log(2))
    return [
        {
            "words": each.words,
            "ratio": short(each.ratio, 2),
            "interval": between(each.low, each.high, 2) if known else "",
            "pairs": each.pairs,
            "bar": [f"{place:.1f}" for place in 50 + 50 * np.log([each.low, each.high]) / most]
            if known
            else [],
            "at": f"{50 + 50 * math.log(each.ratio) / most:.1f}",
        }
        for each in changes
        for known in [math.isfinite(each.low)]
    ]


def dataset_facts(summary: xr.Dataset) -> dict[str, Any]:
    """Return sweep, machine, dates, and the number of cells of each status."""
    attributes = summary.attrs
    status = summary["status"].values
    undeclared = sorted(set(map(str, summary.coords)) - {"record", *declared_coordinates(summary)})
    measured = status != STATUS.index("not_measured")
    loud = doubtful(summary).reshape(status.shape)
    invalid = flagged(summary, *graded(FLAGS, "invalid")).values
    ok = status == STATUS.index("ok")
    return {
        "name": str(attributes["sweep"]),
        "made": data_origin(summary),
        "simulated": attributes["testbed_kind"] == "simulation",
        "from": str(attributes["measured_from"]),
        "until": str(attributes["measured_until"]),
        "facts": [
            *([name, str(attributes[name])] for name in _FACTS if attributes.get(name)),
            *([name_text(name), value_text(name, math.nan)] for name in undeclared),
        ],
        "comment": str(attributes.get("comment", "")),
        "references": str(attributes.get("references", "")),
        "count": int(status.size),
        "ok": int((ok & ~loud).sum()),
        "warned": int((ok & loud & ~invalid).sum()),
        "invalid": int((ok & invalid).sum()),
        "failed": int((status == STATUS.index("failed")).sum()),
        "missing": int((status == STATUS.index("not_measured")).sum()),
        "flagged": int((loud & measured).sum()),
        "measured": int(measured.sum()),
    }


def sparkline(summary: xr.Dataset) -> dict[str, str]:
    """Return mean throughput over the first axis of the map: points in a box of 100 × 30, and texts of the axes."""
    ok = summary["throughput"].where(summary["status"] == STATUS.index("ok"))
    axis = arrange_axes(summary[["throughput"]]).x
    means = ok.mean([name for name in ok.dims if name != axis]).values.ravel()
    [known] = np.nonzero(np.isfinite(means))
    if axis is None or len(known) < 2:
        return {"line": ""}
    top = float(means[known].max()) or 1.0
    points = zip(known * 100 / (len(means) - 1), 29 - 28 * means[known] / top, strict=True)
    first, *_, last = (value_text(axis, value) for value in summary[axis].values.tolist())
    return {
        "line": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "top": f"{short(top)} Gbit/s",
        "first": f"{name_text(axis)} {first}",
        "last": last,
    }


def _axis(values: xr.DataArray) -> Axis:
    name = str(values.name)
    return {
        "label": name_text(name),
        "repetition": name == REPETITION,
        "values": [value_text(name, value) for value in values.values.tolist()],
    }


def _columns(summary: xr.Dataset, cells: Cells, gained: Gains | None) -> CellColumns:
    messages = summary["message"].values.ravel()
    shown = {name: _texts(summary[name]) for name in _SHOWN if name in summary}
    ok = (summary["status"] == STATUS.index("ok")).values
    return {
        "value": _texts(summary["throughput"].where(ok)),
        "low": _texts(summary["throughput_low"].where(ok)),
        "high": _texts(summary["throughput_high"].where(ok)),
        "status": summary["status"].values.ravel().tolist(),
        "flags": summary["flags"].values.ravel().tolist(),
        "limit": _limit_places(summary["limit"].values.ravel()),
        "second": _limit_places(cells.second),
        "shares": _shares(summary),
        "advice": _distinct([*Remedies(cells, gained).of_cells()]),
        "message": _numbered(messages),
        "figures": [
            {
                "key": name,
                "name": SUMMARY[name].meaning,
                "units": SUMMARY[name].units.replace("1", ""),
                "values": values,
            }
            for name, values in shown.items()
            if any(value is not None for value in values)
        ],
    }


def _limit_places(limits: Iterable[str]) -> list[int]:
    names = list(LIMITS)
    return [names.index(limit) if limit in names else -1 for limit in limits]


def _shares(summary: xr.Dataset) -> list[list[list[int]]] | None:
    """Return each cell's limits with their percentage of its time, largest first; datasets may lack them."""
    names = [name for name, share in SHARES.items() if share in summary and summary[share].notnull().any()]
    if not names:
        return None
    numbers = np.array([list(LIMITS).index(name) for name in names])
    shares = np.stack([summary[SHARES[name]].values.ravel() for name in names], axis=1)
    percent = np.rint(100 * np.nan_to_num(shares)).astype(int)
    order = np.argsort(-percent, axis=1, kind="stable")
    return [
        [[int(numbers[at]), int(row[at])] for at in places if row[at] > 0]
        for row, places in zip(percent, order, strict=True)
    ]


def _points(summary: xr.Dataset, forecast: Forecast | None) -> Points:
    mean = summary["throughput"].where(summary["status"] == STATUS.index("ok")).mean(REPETITION)
    if forecast is None:
        return {"value": _texts(mean), "fitted": None, "ratio": None}
    fitted = forecast.fitted.transpose(*mean.dims)
    return {"value": _texts(mean), "fitted": _texts(fitted), "ratio": _texts(fitted / mean.where(mean > 0))}


def _distinct(texts: Sequence[str]) -> Distinct:
    number = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    return {"texts": list(number), "at": [number[text] for text in texts]}


def _texts(values: ArrayLike) -> Texts:
    return [short(value) if math.isfinite(value) else None for value in np.ravel(values).tolist()]


def _numbered(texts: Iterable[object]) -> Numbered:
    return [(at, str(text)) for at, text in enumerate(texts) if text]


def _series(summary: xr.Dataset, samples: xr.Dataset) -> Series:
    """Return each cell's goodput as bytes: means over equal times, scaled from zero to the cell's maximum."""
    cells, times = summary["throughput"].size, samples.sizes.get("time", 0)
    points = min(_FINEST, times, SERIES_BYTES // max(cells, 1))
    if points < min(_COARSEST, max(times, 1)) or not times:
        absent = _TOO_LARGE if times else _NO_SAMPLES
        return {
            "points": 0,
            "step": 0.0,
            "step_text": "",
            "top": [],
            "gap": _GAP,
            "bytes": "",
            "absent": absent,
        }
    goodput = samples["goodput"]
    flat = goodput.transpose(*summary["throughput"].dims, "time")
    # One part of the grid at a time, because all samples of many cells would exceed the memory.
    parts = (flat.isel({flat.dims[0]: first}).values.reshape(-1, times) for first in range(flat.shape[0]))
    bins = np.arange(times) * points // times
    means = np.concatenate([pd.DataFrame(part.T).groupby(bins).mean().T for part in parts])
    top = np.nan_to_num(means).max(axis=1)
    levels = np.rint(means / np.where(top > 0, top, 1)[:, None] * (_GAP - 1))
    coded = np.nan_to_num(levels, nan=_GAP).astype(np.uint8)
    step = float(samples["time"].values[-1]) / points
    return {
        "points": points,
        "step": step,
        "step_text": short(step),
        "top": _texts(top),
        "gap": _GAP,
        "bytes": base64.b64encode(coded.tobytes()).decode(),
        "absent": _NO_SAMPLES,
    }


def _transfers(transfers: xr.Dataset, cells: int) -> Transfers:
    """Return the first transfers of each cell in the order of their starts, and the number of transfers."""
    names = ["cell", "stream", "start", "end", "rate", "ok", "message"]
    rows = transfers[names].to_dataframe().sort_values(["cell", "start"])
    counts = np.bincount(rows["cell"].astype(int), minlength=cells)
    most = max(2, MOST_TRANSFERS // max(int((counts > 0).sum()), 1))
    kept = rows.groupby("cell").head(most)
    return {
        "counts": counts.tolist(),
        "most": most,
        "stream": kept["stream"].astype(int).tolist(),
        "ok": kept["ok"].astype(int).tolist(),
        "start": _texts(kept["start"]),
        "end": _texts(kept["end"]),
        "rate": _texts(kept["rate"]),
        "message": _numbered(kept["message"]),
    }


def _doubts(summary: xr.Dataset) -> list[dict[str, Any]]:
    counts = {flag: int(flagged(summary, flag).sum()) for flag in FLAGS}
    worst_first = sorted(FLAGS, key=lambda flag: -GRADES.index(FLAGS[flag].grade))
    return [{**_flag(flag), "count": counts[flag]} for flag in worst_first if counts[flag]]


def _flag(flag: str) -> FlagWords:
    known = FLAGS[flag]
    return {"grade": known.grade, "words": known.label, "meaning": known.meaning}


def _again(summary: xr.Dataset, exists: Callable[[str], bool]) -> Again | None:
    if "command" not in summary.attrs:
        return None
    names = [str(name) for name in summary["throughput"].dims]
    # A coordinate is infinite if the parameter is null.
    values = ([None if v == math.inf else v for v in summary[name].values.tolist()] for name in names)
    paths = [
        cell_paths(dict(zip(names, place, strict=True)), summary.attrs["repeat"])
        for place in itertools.product(*values)
    ]
    for at in np.ravel(summary.attrs.get("excluded", [])).astype(int):
        paths[at] = "", ""
    deployments = _distinct([deployment for deployment, _ in paths])
    return {
        "folder": summary.attrs["cells"],
        "command": summary.attrs["command"],
        "deployments": deployments["texts"],
        "deployment": deployments["at"],
        "cell": [cell for _, cell in paths],
        "logs": [exists(f"logs/{deployment}") for deployment in deployments["texts"]],
        "files": [exists(f"cells/{deployment}/{cell}.json") for deployment, cell in paths],
    }
