# SPDX-License-Identifier: Apache-2.0
"""Content of a sweep's page as plain values: texts, and compact columns of cells; pure functions.

Numbers are texts, so that they are rounded once. With very many cells, series are coarser and fewer transfers are
listed, so that a page of 10⁴ cells has less than 10 MB; the dataset has everything.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, json_number, plain, short
from tpcsweep.data.flags import FLAGS, GRADES, graded
from tpcsweep.data.labels import (
    SIMULATED,
    STATUS,
    data_origin,
    declared_coordinates,
    flag_masks,
    flagged,
    is_mesh,
)
from tpcsweep.data.made_with import host_states
from tpcsweep.data.variables import LIMIT_NAMES, LIMITS, SHARES, SUMMARY
from tpcsweep.pages.answer import answer
from tpcsweep.pages.cell_columns import Cells, doubtful, grid_cells
from tpcsweep.pages.contract import (
    Again,
    Axis,
    CellColumns,
    Change,
    Distinct,
    FlagWords,
    LinkMatrix,
    PageData,
    Points,
    SettingEffects,
    Sparkline,
    View,
)
from tpcsweep.pages.findings import Change as Effect
from tpcsweep.pages.findings import disturbance, enough, findings
from tpcsweep.pages.gains import Forecast, gains
from tpcsweep.pages.limit_colours import LIMIT_COLOURS, LIMIT_LETTERS
from tpcsweep.pages.panel_grid import arrange, arrange_axes, places_of_map
from tpcsweep.pages.remedies import Remedies
from tpcsweep.pages.series import as_texts, cell_series, first_transfers, numbered
from tpcsweep.sweeps.parameters import name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION, cell_paths

_SHOWN = (
    *("duration", "warmup", "source_cpu", "destination_cpu", "client_cpu", "machine_cpu"),
    *("retransmits", "path_drops", "rtt_idle", "rtt_loaded", "transfers", "transfers_failed"),
)
"""Figures of a cell in addition to its throughput, if any cell has them."""
_NOT_MEASURED, _OK, _FAILED, _OUTSIDE = range(4)
_STATES = ("not measured", "without a throughput", "failed", "not part of the sweep")
"""States of a setting on the page: those of a cell, and outside of the sweep."""
_OF_CLAIMS = ("published", "source", "verdict", "reason")
_IN_FILES = ("null: ", "inf: ")  # beginnings of remarks on values that a page shows as words
_SETTINGS = {
    "bandwidth": "path {}",
    "rtt": "RTT {}",
    "origins": "origins {}",
    "cores": "cores: {}",
    "streams": "streams {}",
    "tcp_buffer": "TCP buffer {}",
    "file_size": "files of {}",
    "tool": "{}",
    "copy_mode": "{}",
    "mtu": "MTU {}",
    "congestion_control": "{}",
}
"""Settings in the page's first lines, with their words."""
_FACTS = ("host", "cpu", "kernel", "software", "commit")


class Links(NamedTuple):
    """Content about the links of a mesh."""

    sentences: Sequence[str]
    matrix: LinkMatrix


def page_content(
    summary: xr.Dataset,
    samples: xr.Dataset,
    transfers: xr.Dataset,
    *,
    files: Sequence[tuple[str, str]] = (),
    claims: Sequence[Mapping[str, Any]] = (),
    forecast: Forecast | None = None,
    links: Links | None = None,
    goals: Mapping[str, Any] | None = None,
    effects: SettingEffects | None = None,
    overview: str = "",
    exists: Callable[[str], bool] = lambda _: False,
) -> dict[str, Any]:
    """Return the content of a page: its dataset's, and that of files next to it.

    `files` are linked: path from the page's folder, and description. `overview` is the path to the list of all sweeps,
    or "". `exists` returns whether a path from the page's folder exists.
    """
    gained = gains(summary, forecast.fitted) if forecast else None
    cells = grid_cells(summary)
    remedies = Remedies(cells, gained)
    return {
        "about": dataset_facts(summary),
        "partial": str(summary.attrs.get("partial", "")),
        "banner": disturbance(summary),
        "answer": answer(summary, cells, remedies) if enough(cells, summary) else "",
        "findings": [
            {
                "text": found.text,
                "cells": list(found.cells),
                "changes": [_change(change) for change in found.changes],
            }
            for found in findings(summary, gained)
        ],
        "effects": effects,
        "doubts": _doubts(summary),
        "hosts": _hosts(summary),
        "claims": [{name: str(claim.get(name) or "") for name in _OF_CLAIMS} for claim in claims],
        "models": forecast.section if forecast else None,
        "links": list(links.sentences) if links else [],
        "goals": goals,
        "overview": overview,
        "files": [{"path": path, "what": what} for path, what in files],
        "data": _page_data(
            summary, samples, transfers, forecast, links, _columns(summary, cells, remedies), exists
        ),
    }


def _page_data(
    summary: xr.Dataset,
    samples: xr.Dataset,
    transfers: xr.Dataset,
    forecast: Forecast | None,
    links: Links | None,
    columns: CellColumns,
    exists: Callable[[str], bool],
) -> PageData:
    dimensions = [str(name) for name in summary["throughput"].dims]
    places = arrange_axes(summary[["throughput"]].isel({REPETITION: 0}, drop=True), places_of_map(summary))
    masks = flag_masks(summary)
    return {
        "views": _views(columns, forecast is not None, is_mesh(summary)),
        "interval": _interval_head(summary),
        "states": [*_STATES],
        "axes": [_axis(summary[name]) for name in dimensions],
        "x": -1 if places.x is None else dimensions.index(places.x),
        "y": -1 if places.y is None else dimensions.index(places.y),
        "columns": -1 if places.columns is None else dimensions.index(places.columns),
        "flags": [
            {**_flag(flag), "mask": masks[flag]}
            for flag in _worst_first()
            if flag in masks and flagged(summary, flag).any()
        ],
        "limits": [
            (LIMIT_NAMES[name], meaning, LIMIT_COLOURS[name], LIMIT_LETTERS[name])
            for name, meaning in LIMITS.items()
        ],
        "cells": columns,
        "points": _points(summary, _outside(summary), forecast),
        "plans": forecast.section["plans"] if forecast else None,
        "links": links.matrix if links else None,
        "series": cell_series(summary, samples),
        "transfers": first_transfers(transfers, summary["throughput"].size),
        "again": _again(summary, exists),
    }


def _interval_head(summary: xr.Dataset) -> str:
    """Name the ends of a throughput: those of a simulation are no confidence interval."""
    if not summary["throughput_low"].notnull().any():
        return "smallest to largest"
    share = f"{plain(100 * float(summary.attrs['measurement_confidence']))} %"
    return f"{share} of parameter sets" if summary.attrs["testbed_kind"] == SIMULATED else f"{share} interval"


def _views(columns: CellColumns, is_fitted: bool, has_links: bool) -> list[View]:
    """Return the pictures of a page; that of a mesh starts with a map of sites × sites."""
    has_limits = any(limit >= 0 for limit in columns["limit"])
    views = (
        ("lines", "lines", True),
        ("limit", "map of limits", has_limits),
        ("value", "map of throughput", True),
        ("fitted", "map of the fit", is_fitted),
        ("ratio", "fit over measured", is_fitted),
    )
    shown = sorted(views, key=lambda one: has_links and one[0] != "value")
    return [{"key": key, "label": label} for key, label, is_known in shown if is_known]


def _change(change: Effect) -> Change:
    known = math.isfinite(change.low)
    times, interval = short(change.ratio, 2), between(change.low, change.high, 2) if known else ""
    return {
        "words": change.words,
        "ratio": change.ratio,
        "low": change.low if known else None,
        "high": change.high if known else None,
        "times": times,
        "interval": interval,
        "pairs": change.pairs,
        "text": f"{times} times ({', '.join(filter(None, (interval, counted(change.pairs, 'pair'))))})",
    }


def dataset_facts(summary: xr.Dataset) -> dict[str, Any]:
    """Return sweep, machine, dates, and the number of cells of each status."""
    attributes = summary.attrs
    status = summary["status"].values
    undeclared = sorted(set(map(str, summary.coords)) - {"record", *declared_coordinates(summary)})
    measured = status != STATUS.index("not_measured")
    loud = doubtful(summary).reshape(status.shape)
    invalid = flagged(summary, *graded(FLAGS, "invalid")).values
    ok = status == STATUS.index("ok")
    counts = {
        "without warnings": ok & ~loud,
        "with warnings": ok & loud & ~invalid,
        "invalid": ok & invalid,
        "failed": status == STATUS.index("failed"),
        "not measured": ~measured,
    }
    return {
        "name": str(attributes["sweep"]),
        "made": _origin(summary),
        "simulated": attributes["testbed_kind"] == SIMULATED,
        "from": str(attributes["measured_from"]),
        "until": str(attributes["measured_until"]),
        "facts": [
            *([name, str(attributes[name])] for name in _FACTS if attributes.get(name)),
            *([name_text(name), value_text(name, math.nan)] for name in undeclared),
        ],
        "description": str(attributes.get("description", "")),
        "settings": _settings(summary),
        "comment": str(attributes.get("comment", "")),
        "references": str(attributes.get("references", "")),
        "count": int(status.size),
        "state": f"{counted(status.size, 'cell')}: "
        + ", ".join(f"{int(which.sum())} {words}" for words, which in counts.items() if which.any()),
        "failed": int(counts["failed"].sum()),
        "missing": int(counts["not measured"].sum()),
        "flagged": int((loud & measured).sum()),
        "measured": int(measured.sum()),
    }


def sparkline(summary: xr.Dataset) -> Sparkline | None:
    """Return mean throughput over the first axis of the map; None if fewer than two values of it have any."""
    ok = summary["throughput"].where(summary["status"] == STATUS.index("ok"))
    axis = arrange_axes(summary[["throughput"]]).x
    means = ok.mean([name for name in ok.dims if name != axis]).values.ravel()
    if axis is None or np.isfinite(means).sum() < 2:
        return None
    return {
        "axis": name_text(axis),
        "values": [value_text(axis, value) for value in summary[axis].values.tolist()],
        "rates": [json_number(mean, digits=3) for mean in means.tolist()],
    }


def _origin(summary: xr.Dataset) -> str:
    """Return the origin of the throughput, with the machine of network namespaces."""
    host, origin = summary.attrs.get("host"), data_origin(summary)
    in_namespaces = host and summary.attrs["testbed_kind"] == "netns"
    return f"{origin}: network namespaces on host {host}" if in_namespaces else origin


def _settings(summary: xr.Dataset) -> list[str]:
    """Return the settings that all cells share and the length of cells, for one line; axes name the others."""
    fixed = [
        words.format(value_text(name, summary[name].item()))
        for name, words in _SETTINGS.items()
        if name in summary.coords and not summary[name].ndim
    ]
    lengths = summary["duration"].values if "duration" in summary else np.array([])
    if not np.isfinite(lengths).any():
        return fixed
    seconds = [float(end(lengths)) for end in (np.nanmin, np.nanmax)]
    ends = dict.fromkeys(short(round(end) or end, 2) for end in seconds)
    return [*fixed, f"cells of {' to '.join(ends)} s"]


def _axis(values: xr.DataArray) -> Axis:
    name, comment = str(values.name), str(values.attrs.get("comment", ""))
    return {
        "key": name,
        "label": name_text(name),
        "comment": "; ".join(part for part in comment.split("; ") if not part.startswith(_IN_FILES)),
        "repetition": name == REPETITION,
        "values": [value_text(name, value) for value in values.values.tolist()],
    }


def _columns(summary: xr.Dataset, cells: Cells, remedies: Remedies) -> CellColumns:
    messages = summary["message"].values.ravel()
    shown = {name: as_texts(summary[name]) for name in _SHOWN if name in summary}
    ok = (summary["status"] == STATUS.index("ok")).values
    return {
        "value": as_texts(summary["throughput"].where(ok)),
        "low": as_texts(summary["throughput_low"].where(ok)),
        "high": as_texts(summary["throughput_high"].where(ok)),
        "status": summary["status"].values.ravel().tolist(),
        "flags": summary["flags"].values.ravel().tolist(),
        "limit": _limit_places(summary["limit"].values.ravel()),
        "second": _limit_places(cells.second),
        "shares": _shares(summary),
        "advice": _distinct([*remedies.of_cells()]),
        "message": numbered(messages),
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


def _points(summary: xr.Dataset, outside: NDArray[np.bool_], forecast: Forecast | None) -> Points:
    """Return the columns of settings: each is the mean over its repetitions, with the ends of all their intervals."""
    combined = arrange(summary).cells
    mean = combined["throughput"]
    grades = np.maximum.reduce(
        [
            flagged(summary, flag).any(REPETITION).values * (1 + GRADES.index(known.grade))
            for flag, known in FLAGS.items()
        ]
    )
    lacking = np.where(combined["failed"].values, _FAILED, _NOT_MEASURED)
    lacking[
        outside.reshape(summary["throughput"].shape).all(summary["throughput"].get_axis_num(REPETITION))
    ] = _OUTSIDE
    fitted = forecast.fitted.transpose(*mean.dims) if forecast else None
    path, quota = (_setting(summary, name, mean) for name in ("bandwidth", "cores"))
    return {
        "value": as_texts(mean),
        "low": as_texts(combined["low"]),
        "high": as_texts(combined["high"]),
        "state": np.where(np.isfinite(mean), _OK, lacking).ravel().tolist(),
        "grade": grades.ravel().tolist(),
        "limit": _frequent_limits(summary),
        "path": as_texts(path),
        "quota": as_texts(quota),
        "fitted": None if fitted is None else as_texts(fitted),
        "ratio": None if fitted is None else as_texts(fitted / mean.where(mean > 0)),
    }


def _setting(summary: xr.Dataset, name: str, mean: xr.DataArray) -> xr.DataArray:
    """Return a parameter of each setting: an axis, a coordinate, or NaN."""
    values: xr.DataArray = summary.coords.get(name, xr.DataArray(np.nan))
    known = values if values.dtype.kind in "iuf" else xr.DataArray(np.nan)
    return known.broadcast_like(mean).transpose(*mean.dims)


def _frequent_limits(summary: xr.Dataset) -> list[int]:
    """Return the place of the limit that most of a setting's successful repetitions share, or -1."""
    places = np.reshape(_limit_places(summary["limit"].values.ravel()), summary["limit"].shape)
    places[(summary["status"] != STATUS.index("ok")).values] = -1
    axis = summary["limit"].get_axis_num(REPETITION)
    votes = np.stack([(places == place).sum(axis) for place in range(len(LIMITS))])
    return np.where(votes.any(axis=0), votes.argmax(axis=0), -1).ravel().tolist()


def _distinct(texts: Sequence[str]) -> Distinct:
    number = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    return {"texts": list(number), "at": [number[text] for text in texts]}


def _doubts(summary: xr.Dataset) -> list[dict[str, Any]]:
    counts = {flag: int(flagged(summary, flag).sum()) for flag in FLAGS}
    return [{**_flag(flag), "count": counts[flag]} for flag in _worst_first() if counts[flag]]


def _hosts(summary: xr.Dataset) -> list[dict[str, Any]]:
    """Return the settings of each recorded host, and those of them that differ between deployments."""
    return [
        {
            "name": host,
            "settings": {name: " | ".join(values) for name, values in sorted(settings.items())},
            "differing": sorted(name for name, values in settings.items() if len(values) > 1),
        }
        for host, settings in sorted(host_states(summary).items())
    ]


def _worst_first() -> list[str]:
    return sorted(FLAGS, key=lambda flag: -GRADES.index(FLAGS[flag].grade))


def _flag(flag: str) -> FlagWords:
    known = FLAGS[flag]
    return {"grade": known.grade, "words": known.label, "meaning": known.meaning}


def _outside(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells of the flattened grid the sweep excludes."""
    outside = np.zeros(summary["throughput"].size, bool)
    outside[np.ravel(summary.attrs.get("excluded", [])).astype(int)] = True
    return outside


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
    for at in np.flatnonzero(_outside(summary)):
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
