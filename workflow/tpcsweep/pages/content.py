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

from tpcsweep.common.numbers import CONFIDENCE, between, counted, interval_ends, json_number, plain, short
from tpcsweep.common.texts import capital
from tpcsweep.data.flags import FLAGS, GRADES
from tpcsweep.data.labels import (
    SIMULATED,
    STATUS,
    flagged,
    is_mesh,
    outside_sweep,
)
from tpcsweep.data.repetitions import count_in_mean, settings_of
from tpcsweep.data.variables import SUMMARY, Variable
from tpcsweep.pages.answer import answer
from tpcsweep.pages.cell_columns import Cells, grid_cells, limits_of_cells
from tpcsweep.pages.cell_links import CellLink, cell_links
from tpcsweep.pages.contract import (
    Again,
    CellColumns,
    Change,
    LinkMatrix,
    PageData,
    Points,
    Rates,
    SettingEffects,
    SettingFlags,
    SiteRow,
    Sparkline,
    Texts,
)
from tpcsweep.pages.dataset_facts import dataset_facts, results_folder
from tpcsweep.pages.encryption import encryption_text
from tpcsweep.pages.finding import Change as Effect
from tpcsweep.pages.finding import Sentence
from tpcsweep.pages.findings import enough, findings
from tpcsweep.pages.gains import Forecast, gains
from tpcsweep.pages.host_changes import host_changes
from tpcsweep.pages.host_limits import MEANINGS, NAMES, HostRecords, host_records, shares_of_time
from tpcsweep.pages.limit_colours import PAGE_COLOURS, PAGE_COLOURS_ON_DARK, PAGE_LETTERS
from tpcsweep.pages.machine_load import disturbance, loads_of_settings
from tpcsweep.pages.page_axes import axis_meaning, first_places, page_axis, value_texts
from tpcsweep.pages.page_flags import (
    PageFlag,
    cell_marks,
    frequent_flags,
    frequent_sentence,
    page_flags,
    setting_flags,
)
from tpcsweep.pages.panel_grid import arrange_axes
from tpcsweep.pages.remedies import Remedies
from tpcsweep.pages.series import as_texts, cell_series, distinct, first_transfers, missing_interval, numbered
from tpcsweep.pages.setting_states import host_tables, setting_states
from tpcsweep.pages.table_controls import columns, filters
from tpcsweep.pages.trust import WIDE_INTERVAL, doubts
from tpcsweep.sweeps.parameters import name_text, value_text
from tpcsweep.sweeps.study import log_folder
from tpcsweep.sweeps.sweep import REPETITION, cell_paths

_MOST_LISTED = 20
"""Cells with a flag that are listed, if it is a warning or worse."""
_MOST_CELLS = 12
"""Cells of a finding that are listed in place of its settings."""
_SHOWN = (
    *("duration", "warmup", "source_cpu", "destination_cpu", "client_cpu"),
    *("machine_cpu", "machine_others", "machine_slowed"),
    *("host_cpu", "host_iowait", "host_others"),
    *("retransmits", "loss_seen", "path_drops", "rtt_idle", "rtt_loaded", "transfers", "transfers_failed"),
    *("host_rtt", "host_rtt_loaded", "host_rwnd_limited", "host_sndbuf_limited", "host_retransmitted"),
)
"""Figures of a cell in addition to its throughput, if any cell has them."""
_STATES = ("not measured", "without a throughput", "failed", "not part of the sweep")
"""States of a setting on the page: those of `STATUS` without a throughput, and outside of the sweep."""
_OUTSIDE = len(STATUS)
_SCATTER = "Its interval contains the scatter between repetitions, of this and of all other settings:"
_SCATTER_OF_SPREADS = "Its interval has the means of their ends:"
_PAUSE = "it asked for pauses (429 or 503 with Retry-After). Shares count them as time between files."
_OF_CLAIMS = ("published", "source", "verdict", "reason")


class Links(NamedTuple):
    """Content about the links of a mesh."""

    headline: str  # the answer of the mesh, or ""
    sentences: Sequence[str]
    sites: Sequence[SiteRow]
    criterion: str
    """The rule by which a site or link is called slow or fast."""
    matrix: LinkMatrix
    slowest: tuple[str, str] | None
    """Source and destination of the link that is slow although its sites are not, or None."""


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
    settings = settings_of(summary)
    gained = gains(settings, forecast.fitted) if forecast else None
    of_hosts = host_records(summary, settings, measured := grid_cells(settings))
    cells = of_hosts.explained(measured)
    in_blocks = effects["rows"] if effects else []
    remedies = Remedies(cells, gained, in_blocks, host_changes(summary))
    found = findings(settings, cells, of_hosts, remedies, {row["setting"] for row in in_blocks})
    doubted = doubts(summary, cells, bool(in_blocks))
    carried = page_flags(summary)
    frequent = frequent_flags(summary, carried)
    flags, loads = setting_flags(summary, carried, frequent), loads_of_settings(summary)
    points = _points(settings, cells, remedies, forecast, flags, of_hosts, loads)
    limits = of_hosts.instead_of(limits_of_cells(summary, settings))
    data = _page_data(summary, samples, transfers, forecast, links, carried, points, limits, exists)
    data["start"] |= _opened(summary, settings["throughput"], links)
    if goals and data["no_interval"]:
        data["no_interval"] += "; goals take the noise of a typical cell"
    return {
        "about": dataset_facts(summary),
        "partial": str(summary.attrs.get("partial", "")),
        "banner": disturbance(summary),
        "answers": _answers(settings, cells, remedies, of_hosts, effects, links, goals),
        "findings": [_finding(summary, each, number) for number, each in enumerate(found, start=1)],
        "doubts": [_finding(summary, each, number) for number, each in enumerate(doubted, 1 + len(found))],
        "effects": effects,
        "settings": setting_states(summary),
        "flags": _flag_rows(summary),
        "hosts": host_tables(summary),
        "encryption": encryption_text(summary),
        "claims": [{name: str(claim.get(name) or "") for name in _OF_CLAIMS} for claim in claims],
        "models": forecast.section if forecast else None,
        "links": list(links.sentences) if links else [],
        "sites": links.sites if links else [],
        "criterion": links.criterion if links else "",
        "goals": goals,
        "overview": overview,
        "axes": [axis_meaning(summary[name]) for name in summary["throughput"].dims],
        "frequent": frequent_sentence(frequent),
        "files": [{"path": path, "what": what} for path, what in files],
        "filters": filters(data),
        "columns": columns(data),
        "data": data,
    }


def _finding(summary: xr.Dataset, found: Sentence, number: int) -> dict[str, Any]:
    """Return a finding for the page; the `number` of its button is a part of addresses."""
    return {
        "number": number,
        "topic": capital(found.topic),
        "text": found.text,
        "settings": list(found.settings),
        "listed": "Cells" if found.cells else "Settings",
        "links": _listed(summary, found),
        "changes": [_change(change) for change in found.changes],
    }


def _listed(summary: xr.Dataset, found: Sentence) -> list[CellLink]:
    if not found.listed:
        return []
    if not 0 < len(found.cells) <= _MOST_CELLS:
        return _links_of(summary, found.settings)
    shape = summary["throughput"].shape
    return cell_links(summary, np.isin(np.arange(summary["throughput"].size).reshape(shape), found.cells))


def _links_of(summary: xr.Dataset, settings: Sequence[int]) -> list[CellLink]:
    """Return links to some settings, or none if they are very many."""
    first = summary.isel({REPETITION: [0]})
    shape = first["throughput"].shape
    which = np.isin(np.arange(first["throughput"].size).reshape(shape), settings)
    return cell_links(first, which) if len(settings) <= _MOST_LISTED else []


def _opened(summary: xr.Dataset, rates: xr.DataArray, links: Links | None) -> dict[str, str]:
    """Return the setting that the page of a mesh opens, the fastest one of its slow link, or nothing.

    `rates` are means of settings, Gbit/s.
    """
    if links is None or links.slowest is None:
        return {}
    source, destination = links.slowest
    of_link = rates.where((rates["source"] == source) & (rates["destination"] == destination))
    [link] = _links_of(summary, [int(np.nanargmax(of_link.transpose(*rates.dims).values))])
    return {"cell": link.address}


def _answers(
    settings: xr.Dataset,
    cells: Cells,
    remedies: Remedies,
    of_hosts: HostRecords,
    effects: SettingEffects | None,
    links: Links | None,
    goals: Mapping[str, Any] | None,
) -> list[str]:
    """Return the answers that the page starts with: those of a mesh or of settings, then what limits most settings."""
    of_mesh = [links.headline if links else "", str(goals["text"]) if goals else ""]
    found = [
        effects["headline"] if effects else "",
        " ".join(filter(None, of_mesh)),
        answer(settings, cells, remedies, of_hosts, effects is not None) if enough(cells, settings) else "",
    ]
    return [text for text in found if text]


def _page_data(
    summary: xr.Dataset,
    samples: xr.Dataset,
    transfers: xr.Dataset,
    forecast: Forecast | None,
    links: Links | None,
    carried: Sequence[PageFlag],
    points: Points,
    limits: NDArray[Any],
    exists: Callable[[str], bool],
) -> PageData:
    dims = [str(name) for name in summary["throughput"].dims if name != REPETITION]
    varied = [name for name in dims if summary.sizes[name] > 1]
    views = _views(points, forecast is not None, is_mesh(summary))
    return {
        "views": views,
        "start": {"view": next(iter(views)), **first_places(summary, varied)},
        "interval": _interval_head(summary),
        "no_interval": missing_interval(summary),
        "wide": WIDE_INTERVAL,
        "scatter": _SCATTER_OF_SPREADS if summary.attrs["testbed_kind"] == SIMULATED else _SCATTER,
        "states": [*_STATES],
        "warned": "in no finding; Links and Goals use it" if links else "in no finding",
        "pause": _PAUSE,
        "axes": [page_axis(summary[name]) for name in varied],
        "repetitions": value_texts(summary[REPETITION]),
        "flags": [flag.words for flag in carried],
        "limits": [
            {
                "name": NAMES[name],
                "meaning": meaning,
                "letter": PAGE_LETTERS[name],
                "colour": PAGE_COLOURS[name],
                "on_dark": PAGE_COLOURS_ON_DARK[name],
            }
            for name, meaning in MEANINGS.items()
        ],
        "cells": _columns(summary, carried, limits),
        "points": points,
        "plans": forecast.section["plans"] if forecast else None,
        "links": links.matrix if links else None,
        "series": cell_series(summary, samples),
        "transfers": first_transfers(transfers, summary["throughput"].size),
        "again": _again(summary, exists),
    }


def _interval_head(summary: xr.Dataset) -> str:
    """Name the ends of a throughput: those of a simulation are no confidence interval."""
    share = f"{plain(100 * float(summary.attrs.get('measurement_confidence', CONFIDENCE)))} %"
    return f"{share} of parameter sets" if summary.attrs["testbed_kind"] == SIMULATED else f"{share} interval"


def _views(points: Points, is_fitted: bool, has_links: bool) -> dict[str, str]:
    """Return the pictures of a page; that of a mesh starts with a map of sites × sites."""
    has_limits = any(limit >= 0 for limit in points["limit"])
    views = (
        ("lines", "lines", True),
        ("limit", "map of limits", has_limits),
        ("value", "map of throughput", True),
        ("fitted", "map of the fit", is_fitted),
        ("ratio", "fit over measured", is_fitted),
    )
    shown = sorted(views, key=lambda one: has_links and one[0] != "value")
    return {key: label for key, label, is_known in shown if is_known}


def _change(change: Effect) -> Change:
    known = math.isfinite(change.low)
    times, interval = short(change.ratio, 2), between(change.low, change.high) if known else ""
    return {
        "words": change.words,
        "ratio": change.ratio,
        "low": change.low if known else None,
        "high": change.high if known else None,
        "times": times,
        "interval": interval,
        "pairs": change.pairs,
        "each": short(change.ratio ** (1 / abs(change.doublings)), 3) if abs(change.doublings) > 1 else "",
        "text": f"{times} times ({', '.join(filter(None, (interval, counted(change.pairs, 'pair'))))})",
    }


def sparkline(summary: xr.Dataset) -> Sparkline | None:
    """Return mean throughput over the first axis of the map; None if fewer than two values of it have any."""
    ok = summary["throughput"].where(count_in_mean(summary)).mean(REPETITION)
    axis = arrange_axes(summary[["throughput"]]).x
    means = ok.mean([name for name in ok.dims if name != axis]).values.ravel()
    if axis is None or np.isfinite(means).sum() < 2:
        return None
    return {
        "axis": name_text(axis),
        "values": [value_text(axis, value) for value in summary[axis].values.tolist()],
        "rates": [json_number(mean, digits=3) for mean in means.tolist()],
    }


def _columns(summary: xr.Dataset, carried: Sequence[PageFlag], limits: NDArray[Any]) -> CellColumns:
    messages = summary["message"].values.ravel()
    shown = {name: as_texts(summary[name]) for name in _SHOWN if name in summary}
    successful = summary.where(summary["status"] == STATUS.index("ok"))
    rates = _rates(successful[["throughput", "throughput_low", "throughput_high"]])
    counted = count_in_mean(summary).values.ravel()
    is_left_out = [
        rate is not None and not count for rate, count in zip(rates["value"], counted, strict=True)
    ]
    return {
        **rates,
        "status": summary["status"].values.ravel().tolist(),
        "marks": distinct(cell_marks(carried, is_left_out)),
        "counts": counted.astype(int).tolist(),
        "limit": _limit_places(limits),
        "message": numbered(messages),
        "started": _starts(summary),
        "figures": [
            {
                "key": name,
                "name": _with_unit(SUMMARY[name]),
                "values": values,
            }
            for name, values in shown.items()
            if any(value is not None for value in values)
        ],
    }


def _with_unit(figure: Variable) -> str:
    return figure.meaning if figure.units == "1" else f"{figure.meaning} ({figure.units})"


def _starts(summary: xr.Dataset) -> Texts | None:
    """Return the times at which cells were started, None for cells without a known time; None without any."""
    if "started" not in summary or summary.attrs["testbed_kind"] == SIMULATED:
        return None
    times = summary["started"].values.ravel().astype("datetime64[s]")
    known = ~np.isnat(times)
    if not known.any():
        return None
    return [f"{time}".replace("T", " ") if ok else None for time, ok in zip(times, known, strict=True)]


def _limit_places(limits: Iterable[str]) -> list[int]:
    names = list(MEANINGS)
    return [names.index(limit) if limit in names else -1 for limit in limits]


def _points(
    settings: xr.Dataset,
    cells: Cells,
    remedies: Remedies,
    forecast: Forecast | None,
    flags: SettingFlags,
    of_hosts: HostRecords,
    loads: Sequence[str],
) -> Points:
    mean = settings["throughput"]
    grades = np.maximum.reduce(
        [flagged(settings, flag).values * (1 + GRADES.index(known.grade)) for flag, known in FLAGS.items()]
    )
    fitted = forecast.fitted.transpose(*mean.dims) if forecast else None
    path, quota = (_setting(settings, name, mean) for name in ("bandwidth", "cores"))
    advice = [
        "\n".join([lines[0], *_gains_in(remedy)] if is_full else [*lines, *filter(None, [remedy])])
        for is_full, lines, remedy in zip(of_hosts.full, of_hosts.lines, remedies.of_settings(), strict=True)
    ]
    return {
        **_rates(settings),
        "half": _half_widths(settings),
        "state": settings["status"].where(~outside_sweep(settings), _OUTSIDE).values.ravel().tolist(),
        "flags": flags,
        "grade": grades.ravel().tolist(),
        "limit": _limit_places(cells.limit),
        "second": _limit_places(cells.second),
        "shares": shares_of_time(settings, of_hosts),
        "paused": as_texts(np.rint(100 * cells.paused)) if np.isfinite(cells.paused).any() else None,
        "advice": distinct(advice),
        "machine": distinct(loads) if any(loads) else None,
        "path": as_texts(path),
        "quota": as_texts(quota),
        "fitted": None if fitted is None else as_texts(fitted),
        "ratio": None if fitted is None else as_texts(fitted / mean.where(mean > 0)),
    }


def _gains_in(advice: str) -> list[str]:
    """Return the lines with measured gains, which alone say something where a host's rate is full."""
    return [line for line in advice.split("\n") if line.startswith("Measured gain")]


def _rates(summary: xr.Dataset) -> Rates:
    """Return throughput with the ends of its intervals, as texts; an end below zero is not shown."""
    names = ("throughput", "throughput_low", "throughput_high")
    rates, low, high = (summary[name].values.ravel().tolist() for name in names)
    ends = [
        interval_ends(max(first, 0.0), last) if math.isfinite(first + last) else (None, None)
        for first, last in zip(low, high, strict=True)
    ]
    return {"value": as_texts(rates), "low": [first for first, _ in ends], "high": [last for _, last in ends]}


def _half_widths(settings: xr.Dataset) -> Texts:
    """Return half the width of each interval in percent of the mean: whole numbers, or one digit below 1."""
    rates = settings["throughput"].where(settings["throughput"] > 0)
    percent = 50 * (settings["throughput_high"] - settings["throughput_low"]) / rates
    return [
        None if not math.isfinite(value) else f"{value:.0f}" if value >= 1 else short(value, 1)
        for value in percent.transpose(*rates.dims).values.ravel().tolist()
    ]


def _setting(summary: xr.Dataset, name: str, mean: xr.DataArray) -> xr.DataArray:
    """Return a parameter of each setting: an axis, a coordinate, or NaN."""
    values: xr.DataArray = summary.coords.get(name, xr.DataArray(np.nan))
    known = values if values.dtype.kind in "iuf" else xr.DataArray(np.nan)
    return known.broadcast_like(mean).transpose(*mean.dims)


def _flag_rows(summary: xr.Dataset) -> list[dict[str, Any]]:
    measured = (summary["status"] != STATUS.index("not_measured")).values
    counts = [(flag, int((flag.cells & measured).sum())) for flag in page_flags(summary)]
    return [
        {**flag.words, "count": count, "cells": cell_links(summary, flag.cells & measured)[:_MOST_LISTED]}
        for flag, count in counts
        if count
    ]


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
    for at in np.flatnonzero(outside_sweep(summary)):
        paths[at] = "", ""
    deployments = distinct([deployment for deployment, _ in paths])
    folders = [log_folder(deployment) for deployment in deployments["texts"]]
    return {
        "results": results_folder(summary),
        "command": summary.attrs["command"],
        "deployments": deployments["texts"],
        "deployment": deployments["at"],
        "cell": [cell for _, cell in paths],
        "log_folders": folders,
        "logs": [exists(folder) for folder in folders],
        "files": [exists(f"cells/{deployment}/{cell}.json") for deployment, cell in paths],
    }
