# SPDX-License-Identifier: Apache-2.0
"""A comparison for people, as a table on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from tpcsweep.comparing.comparison import Comparison, lack_of_repetitions
from tpcsweep.comparing.effects import NOT_COMPARABLE, SAME
from tpcsweep.configuration.sides import shown

_MOST_ROWS = 50


def table(comparison: Comparison) -> RenderableType:
    """Return the summary, and the cells that differ, those with the largest change first."""
    alignment = comparison.alignment
    lines = [comparison.summary()]
    if alignment.different:
        pairs = (
            f"{name} {' → '.join('unknown' if value is None else shown(name, value) for value in pair)}"
            for name, pair in alignment.different.items()
        )
        lines.append(f"different from base to new: {', '.join(pairs)}")
    for side, values in alignment.only.items():
        if values:
            left = (
                f"{name} {', '.join(shown(name, each) for each in some)}" for name, some in values.items()
            )
            lines.append(f"only in {side}, not compared: {'; '.join(left)}")
    lines += filter(None, [lack_of_repetitions(comparison)])
    axes = [name for name, values in alignment.axes.items() if len(values) > 1]
    cells = comparison.cells
    cells = cells[~cells["verdict"].isin([SAME, NOT_COMPARABLE])]
    if cells.empty:
        return Group(*lines)
    rows = Table(*axes, "base Gbit/s", "new Gbit/s", "ratio (95 %)", "verdict")
    largest = cells.iloc[cells["log_ratio"].abs().argsort()[::-1]][:_MOST_ROWS]
    for _, row in largest.iterrows():
        rows.add_row(
            *(shown(name, row[name]) for name in axes),
            f"{row['base']:.3g}",
            f"{row['new']:.3g}",
            f"{row['ratio']:.3g} ({row['ratio_low']:.3g} to {row['ratio_high']:.3g})",
            row["verdict"],
        )
    more = len(cells) - len(largest)
    return Group(*lines, rows, *([f"and {more} more cells: --output writes all"] if more else []))
