# SPDX-License-Identifier: Apache-2.0
"""The answer of a sweep of settings in a few sentences: the effect of each value on throughput, best first."""

from collections.abc import Sequence
from operator import attrgetter

import xarray as xr

from tpcsweep.analysis.block_effects import (
    MOST_BLOCKS,
    THROUGHPUT,
    BlockEffects,
    Row,
    block_effects,
    loss_text,
    row_label,
    verdict_text,
)
from tpcsweep.common.numbers import between, counted, plain, short
from tpcsweep.sweeps.parameters import name_text

MOST_NAMED = 3  # values


def headline(found: BlockEffects) -> str:
    """Return the effects of the values of settings over all cells, a line for each, those with a gain first."""
    rates = [row for row in found.rows if row.measure == THROUGHPUT]
    order = ("gain", "undecided", "less")
    overall = sorted(
        (row for row in rates if not row.axis), key=lambda row: (order.index(row.verdict or ""), -row.ratio)
    )
    more = len(overall) - MOST_NAMED
    return "\n".join(
        [
            *(_effect(row, found, _ends_along(row, rates)) for row in overall[:MOST_NAMED]),
            *([f"{counted(more, 'further value')}: see the effects below."] if more > 0 else []),
        ]
    )


def best_two(summary: xr.Dataset, found: BlockEffects) -> str:
    """Compare the two best values of a single setting with each other, if both gain; "" otherwise."""
    rows = [row for row in found.rows if row.measure == THROUGHPUT and not row.axis and row.verdict == "gain"]
    if len(found.references) > 1 or len(rows) < 2:
        return ""
    best, second = sorted(rows, key=lambda row: -row.ratio)[:2]
    between_them = block_effects(summary, best.setting, second.value, found.at_least).rows
    row = next(
        row for row in between_them if (row.value, row.measure, row.axis) == (best.value, THROUGHPUT, "")
    )
    found_or_not = "a difference" if row.differs else "no difference found"
    verdict = verdict_text(row, found.at_least)
    if row.verdict != "undecided":
        verdict += f", for which these {row.blocks} blocks are enough"
    return f"{best.value} against {second.value}: {_times(row)}, {found_or_not}; {verdict}."


def _effect(row: Row, found: BlockEffects, ends: Sequence[tuple[Row, Row]]) -> str:
    # Values of one setting are compared with that of the baseline; with several settings each has its own.
    over = row.reference if len(found.references) == 1 else f"{name_text(row.setting)} {row.reference}"
    label = row_label(found, row)
    for least, most in ends:
        if {least.verdict, most.verdict} == {"gain", "less"}:
            verdicts = "; ".join(
                f"{_times(part)} with {_place(part)}, {_verdict(part, found.at_least)}"
                for part in (least, most)
            )
            dependence = f"{label} against {over} depends on {name_text(least.axis)}"
            return f"{dependence}: {verdicts}. Over all cells: {_times(row)}."
    along = "".join(
        f", from {short(least.ratio)} with {_place(least)} to {short(most.ratio)} with {_place(most)}"
        for least, most in ends
    )
    return f"{label} gives {_times(row)} the throughput of {over}{along}: {_verdict(row, found.at_least)}."


def _times(row: Row) -> str:
    return f"{short(row.ratio)} times ({between(row.low, row.high)})"


def _place(row: Row) -> str:
    return f"{name_text(row.axis)} {row.at}"


def _ends_along(row: Row, rates: list[Row]) -> list[tuple[Row, Row]]:
    """Return the smallest and the largest effect along each axis on which the effect depends."""
    parts = [each for each in rates if each.axis and (each.setting, each.value) == (row.setting, row.value)]
    along = [
        [part for part in parts if part.axis == axis] for axis in dict.fromkeys(part.axis for part in parts)
    ]
    ratio = attrgetter("ratio")
    return [(min(each, key=ratio), max(each, key=ratio)) for each in along]


def _verdict(row: Row, at_least: float) -> str:
    wanted = f"{plain(100 * at_least)} %"
    if row.verdict == "gain":
        return f"a gain of at least {wanted}"
    if row.verdict == "less":
        return loss_text(row) if row.high < 1 else f"less than a gain of {wanted}"
    further = row.further_blocks
    blocks = f"more than {MOST_BLOCKS} more blocks" if further is None else counted(further, "more block")
    return f"a gain of at least {wanted} is not decided; {blocks} would decide"
