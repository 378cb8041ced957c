# SPDX-License-Identifier: Apache-2.0
"""Flags as pages show them: a flag with several reasons is one for each of them; pure functions."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import short
from tpcsweep.data.flags import FLAGS, GRADES, graded
from tpcsweep.data.implausible_figures import implausible_figures
from tpcsweep.data.labels import STATUS, flagged, outside_sweep, short_name
from tpcsweep.data.repetitions import count_in_mean
from tpcsweep.data.short_reasons import short_reasons
from tpcsweep.data.variables import SUMMARY
from tpcsweep.pages.contract import FlagWords, SettingFlag, SettingFlags
from tpcsweep.pages.machine_load import SLOWED_TEXT, cells_on_full_machine, slowed_cells
from tpcsweep.sweeps.sweep import REPETITION

_FREQUENT = 0.9  # share of settings with a note from which rows of the table do not repeat it


class PageFlag(NamedTuple):
    words: FlagWords
    cells: NDArray[np.bool_]  # whether each cell carries it, with the dimensions of `throughput`


def page_flags(summary: xr.Dataset) -> list[PageFlag]:
    """Return the flags that cells of a dataset carry, the worst ones first."""
    worst_first = sorted(FLAGS, key=lambda flag: -GRADES.index(FLAGS[flag].grade))
    of_cells = [one for flag in worst_first for one in _by_reasons(flag, summary)]
    return [one for one in (*of_cells, *_of_the_machine(summary)) if one.cells.any()]


def noted_cells(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells carry a note, with the dimensions of `throughput`."""
    noted = np.asarray(flagged(summary, *graded(FLAGS, "note")).values)
    return np.asarray(np.any([noted, *(one.cells for one in _of_the_machine(summary))], axis=0))


def _of_the_machine(summary: xr.Dataset) -> Iterator[PageFlag]:
    """Yield notes on the load of the measuring machine that no flag of cells contains."""
    slow = f"the measuring machine was at least {SLOWED_TEXT} slower than at its fastest"
    full = "all CPUs of the measuring machine were busy; the servers of endpoints are elsewhere"
    yield PageFlag(FlagWords(grade="note", words="slower machine", meaning=slow), slowed_cells(summary))
    yield PageFlag(
        FlagWords(grade="note", words="full machine", meaning=full), cells_on_full_machine(summary)
    )


def _by_reasons(flag: str, summary: xr.Dataset) -> Iterator[PageFlag]:
    known, left = FLAGS[flag], flagged(summary, flag).values
    for label, meaning, held in _reasons(flag, summary):
        yield PageFlag(FlagWords(grade=known.grade, words=label, meaning=meaning), held)
        left = left & ~held
    yield PageFlag(FlagWords(grade=known.grade, words=known.label, meaning=known.meaning), left)


def _reasons(flag: str, summary: xr.Dataset) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yield label, meaning and cells of each reason of a flag."""
    known = FLAGS[flag]
    if flag == "implausible":
        for figure, held in implausible_figures(summary).items():
            yield f"{known.label}: {_values(summary[figure], held)}", known.meaning, held
    elif known.reasons:
        for key, held in short_reasons(summary).items():
            label, reason = known.reasons[key]
            yield label, f"{reason}: {known.meaning}", held


def _values(figure: xr.DataArray, held: NDArray[np.bool_]) -> str:
    """Return the name of a figure with its value in some cells, or the range of its values."""
    name, values = str(figure.name), figure.values[held]
    if np.isnan(values).all():
        return f"{short_name(name)} missing"
    ends = dict.fromkeys((short(float(values.min())), short(float(values.max()))))
    return " ".join(filter(None, (short_name(name), " to ".join(ends), SUMMARY[name].units.replace("1", ""))))


def frequent_flags(summary: xr.Dataset, carried: Sequence[PageFlag]) -> dict[str, float]:
    """Return the flags of all settings, and the notes of nearly all, with their share of the settings."""
    axis = summary["throughput"].get_axis_num(REPETITION)
    inside = np.asarray(~outside_sweep(summary).all(REPETITION).values)
    found = {}
    for flag in carried:
        held = np.asarray(flag.cells.any(axis=axis))
        share = float(held[inside].mean())
        if share == 1 or (flag.words["grade"] == "note" and share >= _FREQUENT):
            found[label(flag)] = share
    return found


def frequent_sentence(frequent: Mapping[str, float]) -> str:
    """Return the sentence above the table on the flags that its rows do not repeat, or ""."""
    texts = [
        f"{'All' if share == 1 else f'{int(100 * share)} % of all'} settings carry the {flag}."
        for flag, share in frequent.items()
    ]
    return " ".join([*texts, "Rows do not repeat it; the filter by flag finds it."]) if texts else ""


def label(flag: PageFlag) -> str:
    return f"{flag.words['grade']}: {flag.words['words']}"


def setting_flags(
    summary: xr.Dataset, carried: Sequence[PageFlag], frequent: Collection[str]
) -> SettingFlags:
    """Return the flags of each setting; texts lack the frequent ones."""
    axis = summary["throughput"].get_axis_num(REPETITION)
    counts = [flag.cells.sum(axis=axis).ravel().tolist() for flag in carried]
    in_mean = count_in_mean(summary).values
    counting = [(flag.cells & in_mean).any(axis=axis).ravel().tolist() for flag in carried]
    known = summary["status"].transpose(*summary["throughput"].dims) != STATUS.index("not_measured")
    measured = known.sum(REPETITION).values.ravel().tolist()
    rows = (
        [*zip(measured, zip(*counts, strict=True), zip(*counting, strict=True), strict=True)]
        if carried
        else []
    )
    rows = rows or [(of, (), ()) for of in measured]
    number = {row: at for at, row in enumerate(dict.fromkeys(rows))}
    sets: list[list[SettingFlag]] = [
        [
            {"flag": flag, "share": _share(count, of, is_counting)}
            for flag, (count, is_counting) in enumerate(zip(held, are_counting, strict=True))
            if count
        ]
        for of, held, are_counting in number
    ]
    texts = [
        ", ".join(
            carried[one["flag"]].words["words"] + one["share"]
            for one in each
            if label(carried[one["flag"]]) not in frequent
        )
        for each in sets
    ]
    return {"sets": sets, "texts": texts, "at": [number[row] for row in rows]}


def _share(count: int, of: int, is_counting: bool) -> str:
    """Describe in how many repetitions a flag is, unless it is in all, and whether none of these counts in the mean."""
    left_out = "" if is_counting else ", left out"
    return "" if count == of else f" ({count} of {of} repetitions{left_out})"


def cell_marks(carried: Sequence[PageFlag], is_left_out: Sequence[bool]) -> list[str]:
    """Return the flags of each cell in words, after a remark on those that do not count in the mean."""
    columns = [("not in the mean", is_left_out)]
    columns += [(flag.words["words"], flag.cells.ravel().tolist()) for flag in carried]
    names, held = zip(*columns, strict=True)
    return [", ".join(itertools.compress(names, row)) for row in zip(*held, strict=True)]
