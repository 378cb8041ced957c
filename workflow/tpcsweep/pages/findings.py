# SPDX-License-Identifier: Apache-2.0
"""Findings of a dataset in a few paragraphs, each with its cells; pure functions.

They describe settings, each by the mean of its repetitions, without warnings or invalid figures, if there are enough.
Those of `pages.trust` follow.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.common.texts import capital
from tpcsweep.data.labels import STATUS
from tpcsweep.data.scatter import RUN_TO_RUN
from tpcsweep.data.variables import NOT_VISIBLE, REMEDIES, UNEXPLAINED, alternatives
from tpcsweep.pages.axis_changes import MOST_RTTS
from tpcsweep.pages.axis_effects import differing, mean_change, pairs_of
from tpcsweep.pages.cell_columns import FULL, Cells
from tpcsweep.pages.finding import Sentence, places
from tpcsweep.pages.full_rates import RAISE, RAISE_OR_FILL, RateOfHost
from tpcsweep.pages.host_limits import MEANINGS, NAMES, WITHOUT_CAUSE, HostRecords
from tpcsweep.pages.remedies import UNDECIDED_PAUSES, Remedies
from tpcsweep.sweeps.parameters import KNOBS, value_text

_HIGHEST = "best settings"
_MOST_LIMITS = 3  # limits of a dataset that have a sentence each
_MOST_NAMED = 3  # best settings with their names
_FEWEST_COSTS = 4  # settings from which a sentence tells their CPU
_ENOUGH, _MANY = 1 / 3, 4
"""Share and number of settings without warnings below which they do not speak for the sweep; half of its settings do.
"""
_LITTLE = 0.25  # share of a setting's time below which relief from a limit helps little: less than 1.34 times
_SEEN = 0.005  # share from which a limit is named
_EQUAL = 0.95  # share of the best, or of the path's bandwidth, from which settings may count as equal to it


def findings(
    settings: xr.Dataset,
    cells: Cells,
    of_hosts: HostRecords,
    remedies: Remedies,
    in_blocks: Collection[str] = (),
) -> list[Sentence]:
    """Return the findings of a dataset, most important first.

    Args:
        settings: The dataset of settings (`data.repetitions.settings_of`).
        cells: Its columns, with limits by the records of hosts.
        of_hosts: The records of hosts.
        remedies: The changes that relieve limits of these cells.
        in_blocks: Settings with effects inside blocks, which the page has in a section of their own.
    """
    if not enough(cells, settings):
        ok, trusted = int((settings["status"] == STATUS.index("ok")).sum()), int(cells.trusted.sum())
        text = f"Too few settings without warnings ({trusted} of {ok}) for findings about the sweep."
        about = [Sentence("too few settings", text, places(cells.trusted))]
    else:
        limits = _limits(cells, remedies, of_hosts)
        about = [*_highest(cells), *limits, *_effects(cells, in_blocks)]
        about += [*_hardly(cells), *_cpu_costs(settings, cells)]
    return [*about, *_host_rates(of_hosts.rates)]


def enough(cells: Cells, settings: xr.Dataset) -> bool:
    """Return whether the settings without warnings are enough to speak for the sweep."""
    ok, trusted = int((settings["status"] == STATUS.index("ok")).sum()), int(cells.trusted.sum())
    return not (trusted < _ENOUGH * ok or trusted < min(_MANY, ok / 2))


def _highest(cells: Cells) -> Iterator[Sentence]:
    """Name the best setting, or the number of those that are equal to it within their intervals, and the cheapest."""
    if not cells.trusted.any():
        return
    rates, half = cells.throughput, (cells.high - cells.low) / 2
    best = int(np.nanargmax(rates))
    spread = np.hypot(np.nan_to_num(half), 2 * RUN_TO_RUN * rates)
    like_best = cells.trusted & (rates[best] - rates <= np.hypot(spread, spread[best]))
    group = like_best & (rates >= _EQUAL * rates[best])
    path = float(cells.bandwidth[best]) if len(np.unique(cells.bandwidth)) == 1 else np.nan
    fills = bool(np.isfinite(path) and rates[best] >= _EQUAL * path)
    if fills:
        group |= cells.trusted & (rates >= _EQUAL * path)
    of = f" of settings{cells.kind}" if cells.kind else ""
    text = f"The highest throughput{of} is {short(rates[best])} Gbit/s"
    if half[best] > 0:
        text += f" ({between(max(cells.low[best], 0), cells.high[best])})"
    if np.isfinite(path):
        text += f", {short(100 * rates[best] / path, 2)} % of the path's {value_text('bandwidth', path)}"
    if group.sum() > 1:
        if not fills:
            within = "their intervals" if np.isfinite(half[group]).all() else "the usual scatter of runs"
            text += f". {group.sum()} settings, its own included, are equal to it within {within}"
            text += _names(group, cells)
        else:
            share = f"{short(100 * _EQUAL)} % of its bandwidth or more"
            text += f". {group.sum()} of {cells.trusted.sum()} settings{cells.kind} fill the path: they reach {share}"
        yield Sentence(_HIGHEST, f"{text}.{_cheapest(group, cells)}", places(group))
    elif (like_best & ~group).any():
        others = counted(int((like_best & ~group).sum()), "other setting")
        text += f". The intervals of {others} include it."
        yield Sentence(_HIGHEST, text, (best, *places(like_best & ~group)))
    else:
        named = [name for name in cells.several() if len(cells.axes[name]) > 1]
        where = ", ".join(cells.value(name, int(cells.places[name][best])) for name in named)
        yield Sentence(_HIGHEST, f"{text}, with {where}." if where else f"{text}.", places(group))


def _names(group: NDArray[np.bool_], cells: Cells) -> str:
    """Return the names of few settings, in brackets; "" of many."""
    names = [
        ", ".join(cells.value(name, int(cells.places[name][at])) for name in cells.several())
        for at in np.flatnonzero(group)[:_MOST_NAMED]
    ]
    return f" ({'; '.join(names)})" if group.sum() <= _MOST_NAMED else ""


def _cheapest(group: NDArray[np.bool_], cells: Cells) -> str:
    """Name the cheapest of some settings at each RTT; of equally cheap ones only what they have in common.

    Nothing is named if all of them cost the same at every RTT.
    """
    several = cells.several()
    knobs = [name for name in KNOBS if name in several]
    if not knobs:
        return ""
    others = [name for name in several if name not in (*knobs, "rtt")]
    rtts: list[int | None] = [None]
    if "rtt" in several:
        known = np.unique(cells.places["rtt"][group])
        rtts = known[np.unique(np.linspace(0, len(known) - 1, MOST_RTTS).round().astype(int))].tolist()
    texts, is_cheaper = [], False
    for rtt in rtts:
        among = np.flatnonzero(group if rtt is None else group & (cells.places["rtt"] == rtt))
        costs = [tuple(cells.axes[name][cells.places[name][cell]] for name in knobs) for cell in among]
        alike = [cell for cell, cost in zip(among, costs, strict=True) if cost == min(costs)]
        is_cheaper |= len(alike) < len(among)
        common = [name for name in others if len({cells.places[name][cell] for cell in alike}) == 1]
        setting = ", ".join(
            cells.value(name, int(cells.places[name][alike[0]])) for name in (*knobs, *common)
        )
        texts.append(setting if rtt is None else f"{setting} at {cells.value('rtt', rtt)}")
    return f" The cheapest of them: {'; '.join(texts)}." if is_cheaper else ""


def _limits(cells: Cells, remedies: Remedies, of_hosts: HostRecords) -> Iterator[Sentence]:
    """Yield a paragraph for each of the most frequent limits: settings, region, share of time and remedies."""
    judged = cells.trusted & (cells.limit != "")
    if not judged.any():
        if cells.trusted.any():
            yield Sentence("limits", "The dataset does not record what limited its settings.", ())
        return
    names, counts = np.unique(cells.limit[judged].astype(str), return_counts=True)
    for limit in names[np.argsort(-counts, kind="stable")][:_MOST_LIMITS].tolist():
        held = judged & (cells.limit == limit)
        whole, partial = held & ~cells.partial, held & cells.partial
        texts = []
        if whole.any():
            where = f"{_region(whole, judged, cells)}{_time(whole, limit, cells)}"
            if partial.any():
                all_held = f"{held.sum()} of {judged.sum()} settings{cells.kind}"
                where = f"{all_held}. It is filled to {short(100 * FULL)} % or more in {where}"
            texts.append(f"{capital(NAMES[limit])} limits {where}. {capital(MEANINGS[limit])}.")
            texts += filter(None, (window.in_settings(whole) for window in of_hosts.windows))
            if limit in WITHOUT_CAUSE:
                texts += filter(None, (rate.below_in(whole) for rate in of_hosts.rates))
                texts += filter(None, [of_hosts.senders.in_settings(whole)])
            texts += _filled_pauses(whole & cells.shared, whole & cells.undecided)
            others = {} if limit == "bandwidth" else dict.fromkeys(remedies.others_than(limit), whole)
            texts += remedies.lines(dict.fromkeys(remedies.of(limit), whole), others)
        if partial.any():
            count = int(partial.sum())
            which = (
                f"{counted(count, 'other setting')} with this limit,"
                if whole.any()
                else f"{count} of {judged.sum()} settings{cells.kind}"
            )
            texts += _full_at_times(partial, which, cells, remedies)
        yield Sentence(f"limit: {NAMES[limit]}", "\n".join(texts), places(held))


def _time(held: NDArray[np.bool_], limit: str, cells: Cells) -> str:
    shares = cells.share(limit)[held]
    if not np.isfinite(shares).any():
        return ""
    return f", for {short(100 * float(np.nanmedian(shares)), 2)} % of their time in the median"


def _filled_pauses(shared: NDArray[np.bool_], undecided: NDArray[np.bool_]) -> Iterator[str]:
    """Say why time between files is not the limit of some settings, and of which nobody knows."""
    if shared.any():
        yield (
            f"In {counted(int(shared.sum()), 'setting')} of these, streams wait between files for most of the time, "
            "but other streams fill the pauses: each has less than half of its throughput among fewer streams."
        )
    if undecided.any():
        yield f"{UNDECIDED_PAUSES[:-1]}, in {counted(int(undecided.sum()), 'setting')}."


def _full_at_times(partial: NDArray[np.bool_], which: str, cells: Cells, remedies: Remedies) -> Iterator[str]:
    """Describe settings that the path's bandwidth limits although they are below 90 % of it, and their remedies."""
    full = cells.share("bandwidth")[partial]
    time = "at times only"
    if np.isfinite(full).any():
        low, high = (short(100 * float(end), 2) for end in (np.nanmin(full), np.nanmax(full)))
        time = f"for {low} % of the time" if low == high else f"for {low} to {high} % of the time"
    seconds = Counter(limit for limit in cells.second[partial] if limit).most_common()
    named = alternatives([f"{NAMES[limit]} ({count})" for limit, count in seconds])
    second = f"; the second limit is {named}" if named else ""
    yield f"In {which} below {short(100 * FULL)} % of its bandwidth, the path was full {time}{second}."
    held = dict.fromkeys(remedies.of("bandwidth"), partial)
    for limit, _ in seconds[:1]:
        held |= dict.fromkeys(remedies.of(limit), partial & (cells.second == limit))
    yield from remedies.lines(held)


def _region(held: NDArray[np.bool_], judged: NDArray[np.bool_], cells: Cells) -> str:
    """Describe the number of settings, and the box of the grid that contains most of them."""
    ends = _box(held, judged, cells)
    box = judged & _within(ends, cells)
    count, inside, size = held.sum(), (held & box).sum(), box.sum()
    ranges = [text for name in cells.several() if (text := _range(name, ends.get(name), cells))]
    if not ranges:
        every = f"every setting{cells.kind} ({count})"
        return every if count == judged.sum() else f"{count} of {judged.sum()} settings{cells.kind}"
    where = f"with {' and '.join(ranges)}"
    if inside < count:
        among = f"all {size}" if inside == size else f"{inside} of the {size}"
        return f"{count} of {judged.sum()} settings{cells.kind}, among them {among} {where}"
    if inside == size:
        return f"every setting{cells.kind} {where} ({size} settings)"
    return f"{count} of the {size} settings{cells.kind} {where}"


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


def _effects(cells: Cells, in_blocks: Collection[str]) -> Iterator[Sentence]:
    """Compare throughput at the last and first value of each axis, over settings that differ in nothing else.

    The effects of axes that were measured `in_blocks` are in another section, with intervals over blocks.
    """
    changes, held, axes = [], set[int](), 0
    for axis in cells.several():
        if axis in in_blocks:
            continue
        if isinstance(cells.axes[axis][0], str) and len(cells.axes[axis]) > 2:  # words have no order
            continue
        pairs = pairs_of(cells, axis)
        if pairs.log_ratio.size:
            axes += 1
            held.update(pairs.settings.ravel().tolist())
            changes += [mean_change(cells, pairs), *differing(cells, pairs)]
    if changes:
        text = (
            "Change of the throughput, in the geometric mean of pairs of settings that differ in nothing else, "
            "whatever their limits; gains in settings with one limit are above."
        )
        if len(changes) > axes:
            text += (
                " Rows that begin with a value are the change there: at each RTT, or along the axis on which it "
                "depends most."
            )
        yield Sentence("what each axis changes", text, tuple(sorted(held)), tuple(changes))


def _hardly(cells: Cells) -> Iterator[Sentence]:
    """Name limits that took little time of every setting, and the remedies of these that were not varied.

    Where causes are not visible, nobody knows that.
    """
    most = {
        limit: float(np.nanmax(shares[cells.trusted]))
        for limit, shares in cells.shares.items()
        if np.isfinite(shares[cells.trusted]).any()
    }
    if most.pop(NOT_VISIBLE, 0.0) > 0:
        return
    if not np.isfinite(cells.bandwidth).any():
        most.pop("bandwidth", None)
    hardly = {
        limit: share for limit, share in most.items() if _SEEN <= share < _LITTLE and limit not in UNEXPLAINED
    }
    if not hardly:
        return
    limits = [f"{NAMES[limit]} ({short(100 * share, 2)} %)" for limit, share in _largest_first(hardly)]
    helping = {remedy for limit in most.keys() - hardly.keys() for remedy in REMEDIES.get(limit, ())}
    useless = [
        remedy.words
        for limit, _ in _largest_first(hardly)
        for remedy in REMEDIES.get(limit, ())
        if remedy.axis and remedy.axis not in cells.several() and remedy not in helping
    ]
    text = f"In each setting{cells.kind}, less than a quarter of the time was limited by {', '.join(limits)}."
    if useless:
        text += (
            f" By these shares, what was not varied would help little: {'; '.join(dict.fromkeys(useless))}."
        )
    yield Sentence("what would help little", text, ())


def _largest_first(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda each: -each[1])


def _cpu_costs(settings: xr.Dataset, cells: Cells) -> Iterator[Sentence]:
    """Tell the CPU of the servers of a side for each Gbit/s, as median and range of the settings without warnings."""
    texts, held = [], cells.trusted & (cells.throughput > 0)
    for side in ("source", "destination"):
        used = settings.get(f"{side}_cpu", xr.full_like(settings["throughput"], np.nan)).values.ravel()
        each = used[held] / cells.throughput[held]
        if (known := each[np.isfinite(each)]).size >= _FEWEST_COSTS:
            low, middle, high = np.percentile(known, [10, 50, 90])
            texts.append(f"{short(middle)} cores of the {side}'s servers ({between(low, high)})")
    if texts:
        many = "median of settings, in brackets the range of 80 % of them"
        yield Sentence("CPU for each Gbit/s", f"Each Gbit/s takes {' and '.join(texts)}: {many}.", ())


def _host_rates(rates: Sequence[RateOfHost]) -> Iterator[Sentence]:
    for limit in rates:
        if limit.full.any():
            raised = RAISE_OR_FILL if limit.at_times.any() else RAISE
            text = f"{limit.in_settings(limit.full)} {raised}"
            yield Sentence("limit of a host", text, places(limit.full))
