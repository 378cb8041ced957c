# SPDX-License-Identifier: Apache-2.0
"""Findings of a dataset in at most seven paragraphs, each with its cells; pure functions.

They describe successful cells without warnings or invalid figures, if there are enough. Separate sentences count the
other cells.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.effects import mean_ratio
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import STATUS, flagged
from tpcsweep.data.scatter import OF_THE_MACHINE, RUN_TO_RUN
from tpcsweep.data.variables import LIMIT_NAMES, REMEDIES, alternatives
from tpcsweep.pages.cell_columns import FULL, Cells, doubtful, grid_cells
from tpcsweep.pages.gains import Gains
from tpcsweep.pages.remedies import Remedies
from tpcsweep.sweeps.parameters import KNOBS, value_text
from tpcsweep.sweeps.sweep import REPETITION

_MOST_LIMITS = 3  # limits of a dataset that have a sentence each
_MOST_RTTS = 4  # RTTs with a cheapest setting in a sentence
_MANY_DISTURBED = 0.2  # share of measured cells above which the page starts with a warning
_ENOUGH, _MANY = 1 / 3, 4
"""Share and number of cells without warnings below which they do not speak for the sweep; half of its cells do."""
_EQUAL = 0.95  # share of the best, or of the path's bandwidth, from which cells may count as equal to it


@dataclass(frozen=True)
class Change:
    """Effect of an axis: throughput at its last value over that at its first, with the ends of the interval."""

    words: str
    ratio: float
    low: float  # NaN without an interval, like `high`
    high: float
    pairs: int


@dataclass(frozen=True)
class Sentence:
    text: str  # lines, if it has several
    cells: tuple[int, ...]  # indices in the flattened grid of the cells that it describes
    changes: tuple[Change, ...] = ()


def findings(summary: xr.Dataset, gains: Gains | None = None) -> list[Sentence]:
    """Return the findings of a dataset, most important first; `gains` are those of the fitted model."""
    cells = grid_cells(summary)
    if not enough(cells, summary):
        ok, trusted = int((summary["status"] == STATUS.index("ok")).sum()), int(cells.trusted.sum())
        text = f"Too few cells without warnings ({trusted} of {ok}) for findings about the sweep."
        about = [Sentence(text, _places(cells.trusted))]
    else:
        about = [*_highest(cells), *_limits(cells, Remedies(cells, gains)), *_effects(cells)]
    return [*about, *_doubts(summary), *_holes(summary)]


def enough(cells: Cells, summary: xr.Dataset) -> bool:
    """Return whether the cells without warnings are enough to speak for the sweep."""
    ok, trusted = int((summary["status"] == STATUS.index("ok")).sum()), int(cells.trusted.sum())
    return not (trusted < _ENOUGH * ok or trusted < min(_MANY, ok / 2))


def disturbance(summary: xr.Dataset) -> str:
    """Return a warning if the machine was busy or slow during more than a fifth of measured cells, or ""."""
    measured = summary["status"] != STATUS.index("not_measured")
    which = {flag: flagged(summary, flag) & measured for flag in OF_THE_MACHINE}
    count, every = int(np.any([held.values for held in which.values()], axis=0).sum()), int(measured.sum())
    if count <= _MANY_DISTURBED * every:
        return ""
    named = ", ".join(
        f"{FLAGS[flag].label} ({int(held.sum())})" for flag, held in which.items() if held.any()
    )
    return (
        f"The machine was busy or slow during {count} of {every} cells: {named}. Their throughput is that of the "
        "machine, not of the setting. Measure them again on an idle machine, or with fewer cores and a slower path."
    )


def _highest(cells: Cells) -> Iterator[Sentence]:
    """Name the best setting, or the number of those that are equal to it within their intervals, and the cheapest."""
    if not cells.trusted.any():
        return
    rates, half = cells.of_settings()
    best = int(np.nanargmax(rates))
    spread = np.hypot(np.nan_to_num(half), 2 * RUN_TO_RUN * rates)
    like_best = cells.trusted & (rates[best] - rates <= np.hypot(spread, spread[best]))
    group = like_best & (rates >= _EQUAL * rates[best])
    path = float(cells.bandwidth[best]) if len(np.unique(cells.bandwidth)) == 1 else np.nan
    fills = bool(np.isfinite(path) and rates[best] >= _EQUAL * path)
    if fills:
        group |= cells.trusted & (rates >= _EQUAL * path)
    of = f" of cells{cells.kind}" if cells.kind else ""
    text = f"The highest throughput{of} is {short(rates[best])} Gbit/s"
    if np.isfinite(half[best]):
        text += f" ({between(max(rates[best] - half[best], 0), rates[best] + half[best])})"
    if np.isfinite(path):
        text += f", {short(100 * rates[best] / path, 2)} % of the path's {value_text('bandwidth', path)}"
    equals, alike = (len(np.unique(cells.setting[which])) for which in (group, like_best | group))
    if equals > 1:
        text += f". {group.sum()} cells are equal to it within their intervals"
        if fills:
            share = f"{short(100 * _EQUAL)} % of its {value_text('bandwidth', path)} or more"
            text = (
                f"{group.sum()} of {cells.trusted.sum()} cells{cells.kind} fill the path: they reach {share}"
            )
        yield Sentence(f"{text}.{_cheapest(group, cells)}", _places(group))
    elif alike > 1:
        others = counted(int((like_best & ~group).sum()), "other cell")
        yield Sentence(f"{text}. The intervals of {others} include it.", (best, *_places(like_best & ~group)))
    else:
        named = [name for name in cells.several() if len(cells.axes[name]) > 1]
        where = ", ".join(cells.value(name, int(cells.places[name][best])) for name in named)
        yield Sentence(f"{text}, with {where}." if where else f"{text}.", _places(group))


def _cheapest(group: NDArray[np.bool_], cells: Cells) -> str:
    """Name the cheapest of some cells at each RTT; of equally cheap ones only what they have in common."""
    several = cells.several()
    knobs = [name for name in KNOBS if name in several]
    if not knobs:
        return ""
    others = [name for name in several if name not in (*knobs, "rtt")]
    rtts: list[int | None] = [None]
    if "rtt" in several:
        known = np.unique(cells.places["rtt"][group])
        rtts = known[np.unique(np.linspace(0, len(known) - 1, _MOST_RTTS).round().astype(int))].tolist()
    texts = []
    for rtt in rtts:
        among = np.flatnonzero(group if rtt is None else group & (cells.places["rtt"] == rtt))
        costs = [tuple(cells.axes[name][cells.places[name][cell]] for name in knobs) for cell in among]
        alike = [cell for cell, cost in zip(among, costs, strict=True) if cost == min(costs)]
        common = [name for name in others if len({cells.places[name][cell] for cell in alike}) == 1]
        setting = ", ".join(
            cells.value(name, int(cells.places[name][alike[0]])) for name in (*knobs, *common)
        )
        texts.append(setting if rtt is None else f"{setting} at {cells.value('rtt', rtt)}")
    return f" The cheapest of them: {'; '.join(texts)}."


def _limits(cells: Cells, remedies: Remedies) -> Iterator[Sentence]:
    """Yield a paragraph for each of the most frequent limits: number of cells, region, share of time and remedies."""
    judged = cells.trusted & (cells.limit != "")
    if not judged.any():
        if cells.trusted.any():
            yield Sentence("The dataset does not record what limited its cells.", ())
        return
    names, counts = np.unique(cells.limit[judged].astype(str), return_counts=True)
    for limit in names[np.argsort(-counts, kind="stable")][:_MOST_LIMITS].tolist():
        held = judged & (cells.limit == limit)
        whole, partial = held & ~cells.partial, held & cells.partial
        texts = []
        if whole.any():
            name, region = LIMIT_NAMES[limit], _region(whole, judged, cells)
            texts.append(f"{name[0].upper()}{name[1:]} limits {region}{_time(whole, limit, cells)}.")
            texts.append(remedies.sentence(dict.fromkeys(REMEDIES[limit], whole)))
        if partial.any():
            count = int(partial.sum())
            which = (
                counted(count, "other cell")
                if whole.any()
                else f"{count} of {judged.sum()} cells{cells.kind}"
            )
            texts += _full_at_times(partial, which, cells, remedies)
        yield Sentence("\n".join(filter(None, texts)), _places(held))


def _time(held: NDArray[np.bool_], limit: str, cells: Cells) -> str:
    shares = cells.share(limit)[held]
    if not np.isfinite(shares).any():
        return ""
    return f", for {short(100 * float(np.nanmedian(shares)), 2)} % of their time in the median"


def _full_at_times(partial: NDArray[np.bool_], which: str, cells: Cells, remedies: Remedies) -> Iterator[str]:
    """Describe cells that the path's bandwidth limits although they are below 90 % of it, and their remedies."""
    full = cells.share("bandwidth")[partial]
    time = "at times only"
    if np.isfinite(full).any():
        low, high = (short(100 * float(end), 2) for end in (np.nanmin(full), np.nanmax(full)))
        time = f"for {low} % of the time" if low == high else f"for {low} to {high} % of the time"
    seconds = Counter(limit for limit in cells.second[partial] if limit).most_common()
    named = alternatives([f"{LIMIT_NAMES[limit]} ({count})" for limit, count in seconds])
    second = f"; the second limit is {named}" if named else ""
    yield f"In {which} below {short(100 * FULL)} % of its bandwidth, the path was full {time}{second}."
    held = dict.fromkeys(REMEDIES["bandwidth"], partial)
    for limit, _ in seconds[:1]:
        held |= dict.fromkeys(REMEDIES[limit], partial & (cells.second == limit))
    yield remedies.sentence(held)


def _region(held: NDArray[np.bool_], judged: NDArray[np.bool_], cells: Cells) -> str:
    """Describe the number of cells, and the box of the grid that contains most of them."""
    ends = _box(held, judged, cells)
    box = judged & _within(ends, cells)
    count, inside, size = held.sum(), (held & box).sum(), box.sum()
    ranges = [text for name in cells.several() if (text := _range(name, ends.get(name), cells))]
    if not ranges:
        every = f"every cell{cells.kind} ({count})"
        return every if count == judged.sum() else f"{count} of {judged.sum()} cells{cells.kind}"
    where = f"with {' and '.join(ranges)}"
    if inside < count:
        among = f"all {size}" if inside == size else f"{inside} of the {size}"
        return f"{count} of {judged.sum()} cells{cells.kind}, among them {among} {where}"
    if inside == size:
        return f"every cell{cells.kind} {where} ({size} cells)"
    return f"{count} of the {size} cells{cells.kind} {where}"


def _box(held: NDArray[np.bool_], judged: NDArray[np.bool_], cells: Cells) -> Mapping[str, tuple[int, int]]:
    """Return the ends, on each ordered axis, of a box that loses outermost values while its F-measure improves."""
    ordered = [name for name in cells.several() if not isinstance(cells.axes[name][0], str)]
    ends = {name: (0, len(cells.axes[name]) - 1) for name in ordered}

    def quality(ends: Mapping[str, tuple[int, int]]) -> float:
        box = judged & _within(ends, cells)
        return float(2 * (held & box).sum() / (held.sum() + box.sum()))

    while True:
        smaller = [
            {**ends, name: end}
            for name, (first, last) in ends.items()
            if first < last
            for end in ((first + 1, last), (first, last - 1))
        ]
        best = max(smaller, key=quality, default=ends)
        if quality(best) <= quality(ends):
            return ends
        ends = best


def _within(ends: Mapping[str, tuple[int, int]], cells: Cells) -> NDArray[np.bool_]:
    inside = np.ones(len(cells.throughput), bool)
    for name, (first, last) in ends.items():
        inside &= (cells.places[name] >= first) & (cells.places[name] <= last)
    return inside


def _range(name: str, ends: tuple[int, int] | None, cells: Cells) -> str:
    last_place = len(cells.axes[name]) - 1
    first, last = ends or (0, last_place)
    if (first, last) == (0, last_place):
        return ""
    if first == last:
        return cells.value(name, first)
    text = value_text(name, cells.axes[name][first])
    if first == 0:
        return cells.value(name, last, "up to ")
    if last == last_place:
        return f"{cells.value(name, first)} or more"
    return cells.value(name, last, f"{text} to ")


def _effects(cells: Cells) -> Iterator[Sentence]:
    """Compare throughput at the last and first value of each axis, over settings that differ in nothing else.

    Repetitions of a setting count once, by the mean of their logarithms.
    """
    shape = tuple(map(len, cells.axes.values()))
    number = np.arange(len(cells.throughput)).reshape(shape)
    logs = np.ma.log(cells.throughput.reshape(shape))  # masked without a positive number
    settings = logs.mean(list(cells.axes).index(REPETITION), keepdims=True)
    changes, held = [], set[int]()
    for axis in cells.several():
        values = cells.axes[axis]
        if isinstance(values[0], str) and len(values) > 2:  # words have no order
            continue
        dimension, ends = list(cells.axes).index(axis), [0, -1]
        first, last = (np.ma.take(settings, [end], dimension) for end in ends)
        change = last - first
        count = int(change.count())
        if not count:
            continue
        interval = mean_ratio(np.exp(change.compressed()), np.nan)
        low, high = (interval.low, interval.high) if interval else (np.nan, np.nan)
        words = f"{cells.value(axis, len(values) - 1)} instead of {value_text(axis, values[0])}"
        changes.append(Change(words, float(np.exp(change.mean())), low, high, count))
        masked = np.ma.getmaskarray(change) | np.ma.getmaskarray(logs).take(ends, dimension)
        held.update(number.take(ends, dimension)[~masked].tolist())
    if changes:
        text = "Change of the throughput, in the geometric mean of pairs of settings that differ in nothing else:"
        yield Sentence(text, tuple(sorted(held)), tuple(changes))


def _doubts(summary: xr.Dataset) -> Iterator[Sentence]:
    measured = (summary["status"] != STATUS.index("not_measured")).values.ravel()
    loud = graded(FLAGS, "warning", "invalid")
    counts_by_flag = ((int((flagged(summary, flag).values.ravel() & measured).sum()), flag) for flag in loud)
    counts = sorted(filter(lambda pair: pair[0], counts_by_flag), reverse=True)
    held = doubtful(summary) & measured
    if not measured.any():
        return
    if not counts:
        yield Sentence(f"All {measured.sum()} cells are without a warning.", ())
        return
    which = ", ".join(f"{FLAGS[flag].label} ({count})" for count, flag in counts)
    text = f"{held.sum()} of {measured.sum()} cells carry a warning or are invalid, and count in no finding: {which}."
    yield Sentence(text, _places(held))


def _holes(summary: xr.Dataset) -> Iterator[Sentence]:
    status = summary["status"].values.ravel()
    names = {"failed": "failed", "not_measured": "were not measured"}
    counts = [(int((status == STATUS.index(name)).sum()), text) for name, text in names.items()]
    counted = " and ".join(f"{count} {text}" for count, text in counts if count)
    if counted:
        whole = "".join(
            f" All cells with {value} are among them{why}." for value, why in _lost_values(summary)
        )
        yield Sentence(f"{len(status)} cells: {counted}.{whole}", _places(status != STATUS.index("ok")))


def _lost_values(summary: xr.Dataset) -> Iterator[tuple[str, str]]:
    """Yield each value of an axis without any measured cell, if others have some, and the reason if it is one."""
    ok, names = summary["status"] == STATUS.index("ok"), [*summary["status"].dims]
    reasons = summary.get("message", xr.full_like(ok, "", object))
    for name in names:
        others = [other for other in names if other != name]
        alive = ok.any(others).values
        for index in np.flatnonzero(~alive) if name != REPETITION and alive.any() else ():
            messages = set(map(str, reasons.isel({name: index}).values.ravel())) - {""}
            value = value_text(str(name), summary[name].values[index])
            why = f": {messages.pop()}" if len(messages) == 1 else ""
            yield f"{name} {value}", why


def _places(which: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(which).tolist())
