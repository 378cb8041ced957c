# SPDX-License-Identifier: Apache-2.0
"""Trust in a cell's mean and interval, on synthetic series with a known truth, and on measured ones.

    python -m benchmarks.steadiness                      synthetic cells of 6 to 60 s, and cells that stop when narrow
    python -m benchmarks.steadiness --draws 100          fewer of each (default: 400)
    python -m benchmarks.steadiness --against COMMIT     the same by the rule of an earlier commit in git
    python -m benchmarks.steadiness --compare            comparisons of equals
    python -m benchmarks.steadiness --replay FILE.nc …   cells of datasets with their 10 Hz series: number of cells by
                                                         flag, width of intervals, and agreement of halves

Prints Markdown tables. Nominal are intervals that contain the truth in 95 % of the cells, and one comparison in twenty
that calls any of 48 equal cells different. "Of" is the share of cells without `not_steady` and `too_short`, as folding
raises them: each sweep has the demo's grid, and cells of one kind.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import special
from tpcsweep.analysis.comparison import compare
from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.data import similar_cells
from tpcsweep.data.flags import SHORTEST
from tpcsweep.data.labels import MASKS, STATUS, about_flags
from tpcsweep.data.run_effects import NOT_COMPARABLE
from tpcsweep.measuring import steady
from tpcsweep.measuring.cell import DECISION_FACTOR
from tpcsweep.measuring.steady import Course, Steady, analyse
from tpcsweep.sweeps.sweep import EARLIEST

from benchmarks.series import FAMILIES, INTERVAL, Cell, Floats, correlated, drawn

Flags = NDArray[np.bool_]

LENGTHS = (6, 9, 11, 15, 18, 30, 60)
"""Lengths of synthetic cells, s."""
SWEEP = (2, 2, 2, 3)
"""Shape of the grid whose cells decide together which of them are too short."""
CELLS = 48
PRECISION, LONGEST = 0.05, 120
"""Precision and longest time (s) of cells that stop when narrow."""
APART = 0.01
"""Largest p-value at which two halves of a measured cell differ."""


def plain(samples: Floats, interval: float, confidence: float, **_: Any) -> Any:
    """Plain rule: cut 2 s or a quarter, eight batch means, Student's t."""
    kept = samples[int(min(2 / interval, samples.size / 4)) :]
    means = [batch.mean() for batch in np.array_split(kept, 8)]
    half = float(special.stdtrit(7, (1 + confidence) / 2)) * np.std(means, ddof=1) / np.sqrt(8)
    mean = float(kept.mean())
    return SimpleNamespace(mean=mean, low=mean - half, high=mean + half, half_width=half, steady=True)


def earlier(commit: str) -> ModuleType:
    """Return the module `steady` of a commit."""
    path = f"{commit}:workflow/tpcsweep/measuring/steady.py"
    source = subprocess.run(["git", "show", path], check=True, capture_output=True, text=True).stdout
    module = sys.modules[path] = ModuleType(path)
    exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102
    return module


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("--draws", type=int, default=400)
    asked.add_argument("--against", metavar="COMMIT")
    asked.add_argument("--compare", action="store_true")
    asked.add_argument("--replay", type=Path, nargs="+", metavar="FILE.nc")
    given = asked.parse_args()
    if given.replay:
        table(("dataset", "cells", *REPLAYED), [(file.name, *replayed(file)) for file in given.replay])
        return
    if given.compare:
        print(f"Comparisons of equals: any of {CELLS} cells is called different, % (cells compared, %)\n")
        table(
            ("correlation, s", *(f"{length} s" for length in LENGTHS)), map(compared(given.draws // 4), TIMES)
        )
        return
    rules: dict[str, tuple[Any, Any]] = {
        "this rule": (analyse, late),
        "the plain rule: 2 s, eight batch means": (plain, late),
    }
    if given.against:
        before = earlier(given.against)
        stop = late if hasattr(before, "narrow") else lambda _, one: often(before, one)
        rules[f"the rule of {given.against}"] = (as_then(before), stop)
    pooled = []
    for name, (rule, stop) in rules.items():
        print(f"{name[0].upper()}{name[1:]}\n")
        rows = [family(each, rule, stop, given.draws) for each in FAMILIES]
        table(
            ("series", *(f"{length} s" for length in LENGTHS), *EXTRA),
            [(each, *written(row)) for each, row in zip(FAMILIES, rows, strict=True)],
        )
        print()
        pooled.append((name, *written(mean_row(np.array(rows[:-1])))))
    print("All but the drift\n")
    table(("rule", *(f"{length} s" for length in LENGTHS), *EXTRA), pooled)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table row by row."""
    print("|" + " | ".join(columns) + "|\n|" + "---|" * len(columns))
    for row in rows:
        print("|" + " | ".join(row) + "|", flush=True)


EXTRA = (
    "bias at 18 s",
    "of unflagged cells",
    "half-width at 18 s",
    f"may stop early, {LONGEST} s at most",
    "stopped early",
    "mean length, s",
)


def family(name: str, rule: Any, stop: Any, draws: int) -> Floats:
    """Return for each length coverage of all cells, of unflagged ones and their share; then `EXTRA`."""
    draw, truth = FAMILIES[name]
    figures: list[float] = []
    extra: list[float] = []
    for length in LENGTHS:
        found, held, clean = judged(name, rule, length, draws)
        figures += share(held, truth), share(held[clean], truth), clean.mean()
        if length == 18:
            ratios = np.array([one.mean for one in found]) / truth - 1
            width = float(np.nanmedian([one.half_width / one.mean for one in found]))
            extra += ratios.mean(), ratios[clean].mean() if clean.any() else np.nan, width
    stops = [stop(rule, one) for one in drawn(draw, np.random.default_rng(1), draws // 2, LONGEST)]
    held, lengths = (
        np.array([cell.low <= truth <= cell.high for cell, _ in stops]),
        np.array([n for _, n in stops]),
    )
    early = lengths < LONGEST
    stopping = share(held, truth), share(held[early], truth), early.mean(), lengths.mean()
    return np.array([*figures, *extra, *stopping])


def judged(name: str, rule: Any, length: int, draws: int) -> tuple[list[Any], Flags, Flags]:
    """Return cells of a series, which intervals hold the truth, and which cells carry no flag."""
    draw, truth = FAMILIES[name]
    cells = drawn(draw, np.random.default_rng(length), draws, length)
    found = [rule(one.goodput, INTERVAL, CONFIDENCE, course=one.course()) for one in cells]
    return found, np.array([one.low <= truth <= one.high for one in found]), unflagged(found, length)


def mean_row(rows: Floats) -> Floats:
    """Return the means over families, and the coverage of unflagged cells over all of these."""
    columns = [row[np.isfinite(row)] for row in rows.T]
    means = np.array([column.mean() if column.size else np.nan for column in columns])
    for place in range(1, 3 * len(LENGTHS), 3):
        covered, weights = rows[:, place], rows[:, place + 1]
        means[place] = np.nansum(covered * weights) / weights.sum() if weights.any() else np.nan
    return means


def unflagged(cells: Sequence[Any], length: float) -> Flags:
    """Return which cells carry neither flag, as folding raises them; under an older rule by themselves."""
    found = np.array([cell.steady for cell in cells])
    if all(hasattr(cell, "correlation") for cell in cells):
        return found & ~pooled_short(cells) & (length >= SHORTEST)
    return found & ~np.array([getattr(cell, "too_short", False) for cell in cells])


def pooled_short(cells: Sequence[Steady]) -> Flags:
    """Return which cells are too short, if `SWEEP` cells after each other are a sweep."""
    whole = np.full((-(-len(cells) // int(np.prod(SWEEP))), *SWEEP), np.nan)
    correlations, widths = whole.copy(), whole.copy()
    correlations.flat[: len(cells)] = [cell.correlation for cell in cells]
    widths.flat[: len(cells)] = [
        np.nan if cell.cycles < similar_cells.FEWEST_CYCLES else 2 * cell.half_width / cell.mean
        for cell in cells
    ]
    endless = np.full(SWEEP, np.inf)
    short = [
        similar_cells.too_short(some, endless, wide) for some, wide in zip(correlations, widths, strict=True)
    ]
    return np.ravel(short)[: len(cells)]


def share(events: Flags, truth: float = 0.0) -> float:
    """Return a share; NaN if empty, or without a truth."""
    return float(np.mean(events)) if len(events) and np.isfinite(truth) else np.nan


def written(row: Floats) -> tuple[str, ...]:
    """Return a row of the table: coverage of all cells, and of the unflagged ones with their share."""
    *triples, bias, clean_bias, width, held, early_held, early, length = row
    fixed = [
        f"{percent(every)}, {percent(clean)} of {percent(of)}"
        for every, clean, of in np.reshape(triples, (-1, 3))
    ]
    biases = (
        "–" if np.isnan(value) else f"{value:+.1%}".replace("-0.0", "+0.0") for value in (bias, clean_bias)
    )
    return (
        *fixed,
        *biases,
        percent(width, 1),
        percent(held),
        f"{percent(early_held)} of {early:.0%}",
        f"{length:.0f}",
    )


def percent(value: float, digits: int = 0) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}%}"


def as_then(before: ModuleType) -> Any:
    """Return the rule of an earlier commit, whose warm-up waited for the first file of each stream."""

    def rule(samples: Floats, interval: float, confidence: float, course: Course) -> Any:
        if hasattr(before, "Course"):
            return before.analyse(samples, interval, confidence, course=course)
        settled = max(course.ramp, np.nan_to_num(course.cycle))
        return before.analyse(samples, interval, confidence, settled=settled)

    return rule


def late(rule: Any, cell: Cell) -> tuple[Any, float]:
    """Stop like `until: steady`: from 30 s on, with looks at lengths that grow by half."""
    length = EARLIEST
    while length < LONGEST:
        begun = cell.begin(length)
        found = rule(begun.goodput, INTERVAL, CONFIDENCE, course=begun.course())
        if steady.narrow(found, PRECISION):
            return found, length
        length *= DECISION_FACTOR
    return rule(cell.goodput, INTERVAL, CONFIDENCE, course=cell.course()), LONGEST


def often(before: ModuleType, cell: Cell) -> tuple[Any, float]:
    """Stop like an earlier commit, with a look each second from 4 s on."""
    looks: list[Any] = []
    for length in range(4, LONGEST):
        looks.append(before.analyse(cell.begin(length).goodput, INTERVAL, CONFIDENCE))
        if before.enough(looks, PRECISION):
            return looks[-1], length
    return looks[-1], LONGEST


TIMES = (0, 0.14, 0.95, 3.3)
"""Correlation times of compared cells, s."""


def compared(draws: int) -> Callable[[float], tuple[str, ...]]:
    """Return a function for the row of comparisons of cells that differ only in noise."""

    def row(time: float) -> tuple[str, ...]:
        shares = []
        for length in LENGTHS:
            generator = np.random.default_rng(length)
            # All cells of all trials at once, with a separate correction for each trial.
            series = correlated(time)(generator, 2 * draws * CELLS, 10 * length)
            found = [analyse(samples, INTERVAL, CONFIDENCE) for samples in series]
            cells = compare(dataset(found[::2]), dataset(found[1::2])).cells
            comparable = cells["verdict"] != NOT_COMPARABLE
            trial = np.arange(len(cells)) // CELLS
            least = cells["p"].where(comparable).groupby(trial).min()
            different = least * CELLS < 1 - CONFIDENCE
            shares.append(f"{different.mean():.1%} ({comparable.mean():.0%})")
        return f"{time:g}", *shares

    return row


def dataset(cells: Sequence[Steady]) -> xr.Dataset:
    """Return a sweep of cells that were measured once."""
    axes = ("streams", "repetition")
    figures = {
        "throughput": [cell.mean for cell in cells],
        "throughput_low": [cell.low for cell in cells],
        "throughput_high": [cell.high for cell in cells],
        "throughput_freedom": [cell.freedom for cell in cells],
    }
    shape = (len(cells), 1)
    short = MASKS["too_short"] * pooled_short(cells)
    return xr.Dataset(
        {name: (axes, np.reshape(values, shape)) for name, values in figures.items()}
        | {
            "status": (axes, np.full(shape, STATUS.index("ok"), np.int8)),
            "flags": (axes, np.reshape(short, shape).astype(np.int32), about_flags()),
        },
        {"streams": np.arange(len(cells)), "repetition": [1]},
        {"measurement_confidence": CONFIDENCE},
    )


REPLAYED = (
    "not steady",
    "too short",
    "with an interval",
    "half its width, median",
    "halves compared",
    f"differ (p < {APART:g})",
)


def replayed(file: Path) -> tuple[str, ...]:
    """Return the row of a dataset's cells: a new analysis, and a comparison of halves after the warm-up.

    Halves of a steady cell are equal cells, except for correlations across their border.
    """
    summary, samples = xr.load_dataset(file), xr.load_dataset(file, group="samples")
    dimensions = summary["throughput"].dims
    series = samples["goodput"].stack(cell=dimensions).transpose("cell", ...).values
    series = series[summary["status"].stack(cell=dimensions).values == STATUS.index("ok")]
    whole = [one[np.isfinite(one)] for one in series]
    cells = [analyse(one, INTERVAL, CONFIDENCE) for one in whole]
    trusted = [np.isfinite(cell.low) and cell.steady for cell in cells]
    p = []
    for one, cell in [
        pair for pair, well in zip(zip(whole, cells, strict=True), trusted, strict=True) if well
    ]:
        halves = np.array_split(one[cell.warmup_samples :], 2)
        p.append(apart(*(analyse(half, INTERVAL, CONFIDENCE) for half in halves)))
    return (
        str(len(cells)),
        str(sum(not cell.steady for cell in cells)),
        str(sum(cell.too_short for cell in cells)),
        str(sum(np.isfinite(cell.low) for cell in cells)),
        f"±{np.nanmedian([cell.half_width / cell.mean for cell in cells]):.1%}",
        str(len(p)),
        str(sum(each < APART for each in p)),
    )


def apart(first: Steady, last: Steady) -> float:
    """Return the probability of such a difference between equals, as in `tpcsweep compare`."""
    return compare(dataset([first]), dataset([last])).overall.p


if __name__ == "__main__":
    main()
