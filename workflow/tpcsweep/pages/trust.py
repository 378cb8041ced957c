# SPDX-License-Identifier: Apache-2.0
"""Findings about the cells to trust less or not at all: warnings, wide intervals, outliers, and missing ones; pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.common.texts import capital
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import STATUS, flagged, is_mesh, outside_sweep
from tpcsweep.data.lost_links import LostLink, by_site, main_reason
from tpcsweep.pages.cell_columns import Cells, doubtful
from tpcsweep.pages.finding import Sentence, places
from tpcsweep.pages.outliers import LOADED, UNLIKE, are_alike, on_a_loaded_machine, outliers
from tpcsweep.pages.page_flags import noted_cells
from tpcsweep.sweeps.parameters import LINK, link_text, value_text
from tpcsweep.sweeps.sweep import REPETITION

WIDE_INTERVAL = 0.25  # half-width over the mean of settings that maps draw pale
WARNINGS, WIDE = "warnings", "wide intervals"
_MOST_LOST = 8  # groups of links without a measurement that have a line each
_UNRECORDED = " Nothing is recorded of cells that were not measured: {}."


def doubts(summary: xr.Dataset, cells: Cells, in_blocks: bool) -> list[Sentence]:
    """Return the findings; `in_blocks` is whether the page has effects of settings, which use cells with a warning."""
    found = [
        *_flagged(summary, in_blocks),
        *_wide(cells),
        *outliers(summary),
        *on_a_loaded_machine(summary),
    ]
    return [*_in_short(summary, found), *found, *_holes(summary)]


def _in_short(summary: xr.Dataset, found: Sequence[Sentence]) -> Iterator[Sentence]:
    """Count the settings against which some of the findings speak, each once."""
    named = [each for each in found if each.settings and each.topic in (WARNINGS, WIDE, UNLIKE, LOADED)]
    places_named = [place for each in named for place in each.settings]
    settings = sorted({*places_named})
    measured = (summary["status"] != STATUS.index("not_measured")).any(REPETITION)
    if not measured.any():
        return
    kinds = ", ".join(f"{each.topic} ({len(each.settings)})" for each in named)
    several = ", some by several of these" if len(places_named) > len(settings) else ""
    text = f"To trust less: {len(settings)} of {int(measured.sum())} measured settings, by {kinds}{several}."
    if not named:
        text = "No measured setting has a warning or a wide interval."
    elif len(settings) < measured.sum():
        text += " The others have notes at most."
    if are_alike(summary):
        text += " No repetition's throughput is far from that of the others of its setting."
    yield Sentence("in short", text, tuple(settings))


def _flagged(summary: xr.Dataset, in_blocks: bool) -> Iterator[Sentence]:
    measured = (summary["status"] != STATUS.index("not_measured")).values.ravel()
    loud = graded(FLAGS, "warning", "invalid")
    counts_by_flag = ((int((flagged(summary, flag).values.ravel() & measured).sum()), flag) for flag in loud)
    counts = sorted(filter(lambda pair: pair[0], counts_by_flag), reverse=True)
    held = doubtful(summary) & measured
    if not measured.any():
        return
    if not counts:
        ok = summary["status"] == STATUS.index("ok")
        notes = int((noted_cells(summary) & ok.values).sum())
        noted = f"; {notes} of them have notes" if notes else ""
        text = f"All {int(ok.sum())} cells with a throughput are without a warning{noted}."
        yield Sentence(WARNINGS, text, ())
        return
    which = ", ".join(f"{FLAGS[flag].label} ({count})" for count, flag in counts)
    invalid = any(FLAGS[flag].grade == "invalid" for _, flag in counts)
    carry = f"cells carry a warning{' or are invalid' if invalid else ''}"
    text = f"{held.sum()} of {measured.sum()} {carry}: {which}. Findings leave them out"
    if is_mesh(summary):
        text += ", but links and goals use those with a warning"
    elif in_blocks:
        text += ", but effects of settings use those with a warning"
    text += "."
    settings = _settings_with(summary, held)
    if summary.sizes[REPETITION] > 1:
        others = len(set(settings) & {*_settings_with(summary, measured & ~held)})
        of_them = f"They belong to {counted(len(settings), 'setting')}"
        text += f" {of_them}; {others} of these count by their other repetitions, as without warnings."
    yield Sentence(WARNINGS, text, settings, listed=True, cells=places(held))


def _wide(cells: Cells) -> Iterator[Sentence]:
    """Count the settings without warnings whose means are hardly known, and name the widest interval."""
    means = np.where(cells.throughput > 0, cells.throughput, np.nan)
    widths = (cells.high - cells.low) / 2 / means
    wide = widths > WIDE_INTERVAL
    if wide.any():
        worst = int(np.nanargmax(widths))
        interval = between(max(float(cells.low[worst]), 0.0), float(cells.high[worst]))
        example = f"{short(cells.measured[worst])} Gbit/s ({interval})"
        number = int(wide.sum())
        which = f"{counted(number, 'setting')} that findings use {'has' if number == 1 else 'have'}"
        width = f"an interval wider than ±{short(100 * WIDE_INTERVAL)} %"
        text = f"{which} {width}, at worst {example}."
        yield Sentence(WIDE, text, places(wide), listed=True)


def _holes(summary: xr.Dataset) -> Iterator[Sentence]:
    inside = ~outside_sweep(summary).values.ravel()
    status = summary["status"].values.ravel()
    names = {"failed": "failed", "not_measured": "were not measured"}
    counts = [(int((inside & (status == STATUS.index(name))).sum()), text) for name, text in names.items()]
    numbers = " and ".join(f"{count} {text}" for count, text in counts if count)
    if numbers:
        values = (f" All cells with {value} are among them{why}." for value, why in _lost_values(summary))
        mesh = is_mesh(summary)
        whole = "".join(f"\n{line}" for line in lost_links(summary)) if mesh else "".join(values)
        which = inside & (status != STATUS.index("ok"))
        # A dataset of a run under way has the attribute.
        stopped = f"the run was stopped before them {summary.attrs.get('stopped', '')}".rstrip()
        state = "the run may go on" if summary.attrs.get("partial") else stopped
        why = _UNRECORDED.format(state) if _without_record(summary).any() else ""
        text = f"{inside.sum()} cells: {numbers}.{whole}{why}"
        yield Sentence("missing cells", text, _settings_with(summary, which), listed=not mesh)


def _without_record(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return the cells of the sweep that were not measured for no recorded reason, flattened."""
    missing = (summary["status"] == STATUS.index("not_measured")) & ~outside_sweep(summary)
    return np.asarray(
        (missing & (summary.get("message", xr.full_like(missing, "", object)) == "")).values.ravel()
    )


def lost_links(summary: xr.Dataset) -> list[str]:
    """Return a line for each site, or each reason, with links that have no throughput in some cell."""
    cells = (summary["status"] != STATUS.index("ok")) & ~outside_sweep(summary)
    reasons = summary.get("message", xr.full_like(cells, "", object)).values[cells.values].astype(str)
    ends = (
        [
            str(value)
            for value in summary[role].broadcast_like(cells).transpose(*cells.dims).values[cells.values]
        ]
        for role in LINK
    )
    links = Counter(zip(*ends, reasons.tolist(), strict=True))
    lost = [
        LostLink(link_text(source, destination), frozenset([source, destination]), why, count)
        for (source, destination, why), count in links.items()
    ]
    groups = [(where, main_reason(group)) for where, group in by_site(lost)]
    lines = [f"{capital(where)}{why and f': {why}'}." for where, why in groups[:_MOST_LOST]]
    if (more := len(groups) - _MOST_LOST) > 0:
        lines.append(f"{counted(more, 'further group')} of links: select them in the matrix.")
    return lines


def _lost_values(summary: xr.Dataset) -> Iterator[tuple[str, str]]:
    """Yield each value of an axis without any measured cell, if others have some, and the reason if it is one."""
    ok, names = summary["status"] == STATUS.index("ok"), [*summary["status"].dims]
    reasons = summary.get("message", xr.full_like(ok, "", object))
    for name in names:
        others = [other for other in names if other != name]
        alive = ok.any(others).values
        for index in np.flatnonzero(~alive) if alive.any() else ():
            messages = set(map(str, reasons.isel({name: index}).values.ravel())) - {""}
            value = value_text(str(name), summary[name].values[index])
            why = f": {messages.pop()}" if len(messages) == 1 else ""
            yield f"{name} {value}", why


def _settings_with(summary: xr.Dataset, cells: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the places of the settings that have some of the flattened cells."""
    which = summary["throughput"].copy(data=cells.reshape(summary["throughput"].shape))
    return places(which.any(REPETITION).values.ravel())
