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
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import special
from scipy.signal import lfilter
from tpcsweep.analysis.comparison import compare
from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.data import similar_cells
from tpcsweep.data.labels import MASKS, STATUS, about_flags
from tpcsweep.data.run_effects import NOT_COMPARABLE
from tpcsweep.measuring import steady
from tpcsweep.measuring.cell import DECISION_FACTOR
from tpcsweep.measuring.steady import Course, Steady, analyse
from tpcsweep.measuring.transfer_files import Arrival
from tpcsweep.measuring.transfers import CellTransfers
from tpcsweep.sweeps.sweep import EARLIEST

Floats = NDArray[np.float64]


class Cell(NamedTuple):
    """Goodput of a synthetic cell, and what a measurement knows besides."""

    goodput: Floats
    files: Sequence[tuple[int, float, float]] | None = None
    """Stream, first byte and end of its files, by their ends; None if the streams have none."""
    growth: float = 0.0
    """Predicted seconds of slow start."""

    def begin(self, length: float) -> Cell:
        return self._replace(goodput=self.goodput[: round(length / INTERVAL)])

    def course(self) -> Course:
        """Return what is known of the cell at its end. Without files congestion windows follow the goodput."""
        if self.files is None:
            return Course(windows=self.goodput)
        length = INTERVAL * self.goodput.size
        transfers = CellTransfers("cell", 0.0, len({stream for stream, *_ in self.files}))
        running = {}
        for number, (stream, first, end) in enumerate(self.files):
            name = f"cell.{stream}.{number}"
            arrival = Arrival(max(first, 0.0), 1)
            if end <= length:
                event = {"event": "end", "stream": stream, "number": number, "name": name, "failure": None}
                transfers.add(event | {"start": 0.0, "end": end}, arrival)
            elif first <= length:
                running[name] = arrival
        transfers.cut(length, running)
        return Course(transfers.first_byte + self.growth, transfers.cycle, self.goodput)


Draw = Callable[[np.random.Generator, int, int], Floats | list[Cell]]
"""Function that returns series as (cells, samples), or cells."""

INTERVAL = 0.1
LENGTHS = (6, 9, 11, 15, 18, 30, 60)
"""Lengths of synthetic cells, s."""
SWEEP = (2, 2, 2, 3)
"""Shape of the grid whose cells decide together which of them are too short."""
CELLS = 48
PRECISION, LONGEST = 0.05, 120
"""Precision and longest time (s) of cells that stop when narrow."""
APART = 0.01
"""Largest p-value at which two halves of a measured cell differ."""


def times(count: int) -> Floats:
    """Return the middles of sampling intervals, s."""
    return INTERVAL * (np.arange(count) + 0.5)


def noise(generator: np.random.Generator, shape: tuple[int, int], time: float, spread: float) -> Floats:
    """Return AR(1) noise with a correlation time in s (0 for white noise) and a standard deviation."""
    correlation = np.exp(-INTERVAL / time) if time else 0.0
    before = int(20 * max(time, INTERVAL) / INTERVAL)
    white = generator.normal(size=(shape[0], shape[1] + before))
    values = lfilter([1], [1, -correlation], white, axis=1)[:, before:]
    return np.asarray(spread * np.sqrt(1 - correlation**2) * values)


def correlated(time: float, spread: float = 0.1, white: float = 0.0) -> Draw:
    """Return noise around 1 with a correlation time, plus white noise."""
    return lambda generator, *shape: (
        1 + noise(generator, shape, time, spread) + noise(generator, shape, 0, white)
    )


def shaped(shape: Callable[[Floats], Floats], spread: float = 0.05) -> Draw:
    """Return a course over time that ends at 1, with noise."""
    return lambda generator, cells, count: (
        shape(times(count)) * (1 + noise(generator, (cells, count), 0.14, spread))
    )


def rounds(period: float, course: Callable[[Floats, Floats], Floats], spread: float = 0.1) -> Draw:
    """Courses that repeat in rounds of different lengths; a cell starts in the middle of one.

    Args:
        period: Mean length of a round, s.
        course: Function of the time in the round and its length that returns the level.
        spread: Relative spread of the lengths.
    """

    def one(generator: np.random.Generator, count: int) -> Floats:
        fine = 5
        begin = generator.uniform(5 * period, 8 * period)
        moments = begin + INTERVAL / fine * (np.arange(count * fine) + 0.5)
        lengths = generator.gamma(spread**-2, period * spread**2, int(3 * count * INTERVAL / period) + 60)
        ends = np.cumsum(lengths)
        which = np.searchsorted(ends, moments)
        lasts = lengths[which]
        return np.asarray(course(moments - ends[which] + lasts, lasts).reshape(count, fine).mean(axis=1))

    return lambda generator, cells, count: (
        np.array([one(generator, count) for _ in range(cells)])
        * (1 + noise(generator, (cells, count), 0, 0.02))
    )


def sawtooth(period: float) -> Draw:
    """CUBIC on a long path: a fall to 0.7, and recovery by a cube."""
    return rounds(period, lambda since, lasts: 1 - 0.3 * (1 - since / lasts) ** 3)


def files(seconds: float, gap: float, streams: int = 1, spread: float = 0.1, running: bool = False) -> Draw:
    """Streams of files with a pause before each.

    Args:
        seconds: Mean time in which a file sends.
        gap: Mean pause.
        streams: Number of streams.
        spread: Relative spread of both.
        running: Whether streams run before the cell begins, each at a place of its own; otherwise in lock-step.
    """

    def one(generator: np.random.Generator, count: int) -> Cell:
        edges, moved, found = INTERVAL * np.arange(count + 1), np.zeros(count + 1), []
        for stream in range(streams):
            number = int(2 * count * INTERVAL / (seconds + gap)) + 40
            parts = generator.gamma(spread**-2, spread**2, (number, 2)) * (gap, seconds)
            begun = generator.uniform(5, 8) * (seconds + gap) if running else 0.0
            moments, sent = np.cumsum(parts) - begun, np.cumsum(parts[:, 1])
            moved += np.interp(edges, moments, np.stack([sent - parts[:, 1], sent], axis=1).ravel())
            ends = moments[1::2]
            found += [(stream, *pair) for pair in zip(moments[::2][ends > 0], ends[ends > 0], strict=True)]
        return Cell(np.diff(moved) / INTERVAL / streams, sorted(found, key=lambda file: file[2]))

    def draw(generator: np.random.Generator, cells: int, count: int) -> list[Cell]:
        drawn = [one(generator, count) for _ in range(cells)]
        factors = 1 + noise(generator, (cells, count), 0, 0.02)
        return [cell._replace(goodput=cell.goodput * row) for cell, row in zip(drawn, factors, strict=True)]

    return draw


def long_files(exits: tuple[float, float], recovery: float, rtt: float = 0.2) -> Draw:
    """Files longer than the cell on a long path, whose first bytes come after 2 to 4 s.

    Args:
        exits: Range of the share of the rate at which slow start ends; CUBIC grows from there, and holds the rate.
        recovery: Seconds in which it would grow from nothing.
        rtt: s.
    """
    rounds_to_full = 8

    def draw(generator: np.random.Generator, cells: int, count: int) -> list[Cell]:
        found = []
        for first, level in zip(
            generator.uniform(2, 4, cells), generator.uniform(*exits, cells), strict=True
        ):
            since, level = times(count) - first, min(level, 1.0)
            started = np.minimum(2.0 ** (since / rtt - rounds_to_full), level)
            grown = recovery * np.cbrt(1 - level)
            after = np.clip(since - rtt * (rounds_to_full + np.log2(level)), 0, grown)
            growing = level + (1 - level) * (1 - (1 - after / max(grown, 1e-9)) ** 3)
            course = np.where(since < 0, 0, np.where(started < level, started, growing))
            goodput = course * (1 + noise(generator, (count, 1), 0, 0.02)[:, 0])
            found.append(Cell(goodput, [(0, float(first), np.inf)], rtt * rounds_to_full))
        return found

    return draw


def stalls(share: float, spread: float = 0.1, length: int = 3) -> Draw:
    """Noise in which this share of samples starts a stall of 0.3 s."""

    def draw(generator: np.random.Generator, cells: int, count: int) -> Floats:
        begun = generator.random((cells, count + length)) < share
        stalled = np.any([begun[:, length - n : length - n + count] for n in range(length)], axis=0)
        return np.asarray(~stalled * (1 + noise(generator, (cells, count), 0.14, spread)))

    return draw


def two_levels(time: float, low: float = 0.7) -> Draw:
    """Random telegraph between `low` and 1, with a mean dwell time in s."""

    def draw(generator: np.random.Generator, cells: int, count: int) -> Floats:
        jumps = generator.random((cells, count)) < 1 - np.exp(-INTERVAL / time)
        high = (jumps.cumsum(axis=1) + generator.integers(0, 2, (cells, 1))) % 2
        return np.where(high, 1.0, low) + noise(generator, (cells, count), 0.14, 0.05)

    return draw


def lognormal(time: float, spread: float) -> Draw:
    """Noise whose logarithm is AR(1)."""
    return lambda generator, *shape: np.exp(noise(generator, shape, time, spread) - spread**2 / 2)


FAMILIES: dict[str, tuple[Draw, float]] = {
    "white noise": (correlated(0), 1),
    "AR(1), 0.14 s": (correlated(0.14), 1),
    "AR(1), 0.95 s": (correlated(0.95), 1),
    "AR(1), 3.3 s": (correlated(3.3), 1),
    "AR(1), 0.95 s, under white noise twice as large": (correlated(0.95, 0.05, 0.1), 1),
    "AR(1), 3.3 s, under white noise twice as large": (correlated(3.3, 0.05, 0.1), 1),
    "lognormal, σ 0.5, 0.14 s": (lognormal(0.14, 0.5), 1),
    "lognormal, σ 0.4, 0.95 s": (lognormal(0.95, 0.4), 1),
    "stalls of 0.3 s, begun by 1 % of samples": (stalls(0.01), 0.99**3),
    "the same in noise of 3 %": (stalls(0.01, 0.03), 0.99**3),
    "stalls, begun by 0.3 %": (stalls(0.003), 0.997**3),
    "stalls, begun by 0.1 %": (stalls(0.001), 0.999**3),
    "two levels, 1 and 0.7, for 0.3 s each": (two_levels(0.3), 0.85),
    "two levels, for 1 s each": (two_levels(1), 0.85),
    "two levels, for 3 s each": (two_levels(3), 0.85),
    "files of 2 s, gaps of 0.3 s": (files(2, 0.3, spread=0.5, running=True), 2 / 2.3),
    "files of 0.5 s, gaps of 0.5 s": (files(0.5, 0.5, spread=0.5, running=True), 0.5),
    "four streams, files of 2 s, gaps of 0.3 s": (files(2, 0.3, 4, spread=0.5, running=True), 2 / 2.3),
    "files of 1 s in lock-step, gaps of 0.3 s": (files(1, 0.3), 1 / 1.3),
    "files of 4 s in lock-step, gaps of 0.3 s": (files(4, 0.3), 4 / 4.3),
    "files of 1.5 s in lock-step, gaps of 1 s": (files(1.5, 1), 0.6),
    "eight streams of such files": (files(1.5, 1, 8), 0.6),
    "a long file at 200 ms": (long_files((1, 1), 0), 1),
    "a long file at 200 ms, slow start left early": (long_files((0.5, 1.2), 21), 1),
    "sawtooth, 3 s": (sawtooth(3), 1 - 0.3 / 4),
    "sawtooth, 8 s": (sawtooth(8), 1 - 0.3 / 4),
    "opening, 1 − exp(−t/1 s)": (shaped(lambda t: 1 - np.exp(-t)), 1),
    "opening, 1 − exp(−t/2 s)": (shaped(lambda t: 1 - np.exp(-t / 2)), 1),
    "opening by a cube, 6 s": (shaped(lambda t: 1 - np.clip(1 - t / 6, 0, None) ** 3), 1),
    "opening by a cube, 9 s": (shaped(lambda t: 1 - np.clip(1 - t / 9, 0, None) ** 3), 1),
    "slow ramp from 0.5 in 5 s": (shaped(lambda t: np.clip(0.5 + t / 10, None, 1)), 1),
    "a step from 1.3 after 1.5 s": (shaped(lambda t: np.where(t < 1.5, 1.3, 1)), 1),
    "a step from 1.3 after 4 s": (shaped(lambda t: np.where(t < 4, 1.3, 1)), 1),
    "a drift from 0.9 to 1.1 in the cell": (shaped(lambda t: 0.9 + 0.2 * t / t[-1]), np.nan),
}
"""Series with the true mean for a cell of any length, NaN if there is none."""


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
        cells = drawn(draw, np.random.default_rng(length), draws, length)
        found = [rule(one.goodput, INTERVAL, CONFIDENCE, course=one.course()) for one in cells]
        held = np.array([one.low <= truth <= one.high for one in found])
        clean = unflagged(found, length)
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


def mean_row(rows: Floats) -> Floats:
    """Return the means over families, and the coverage of unflagged cells over all of these."""
    columns = [row[np.isfinite(row)] for row in rows.T]
    means = np.array([column.mean() if column.size else np.nan for column in columns])
    for place in range(1, 3 * len(LENGTHS), 3):
        covered, weights = rows[:, place], rows[:, place + 1]
        means[place] = np.nansum(covered * weights) / weights.sum() if weights.any() else np.nan
    return means


def drawn(draw: Draw, generator: np.random.Generator, count: int, length: float) -> list[Cell]:
    return [
        each if isinstance(each, Cell) else Cell(each)
        for each in draw(generator, count, round(length / INTERVAL))
    ]


def unflagged(cells: Sequence[Any], length: float) -> NDArray[np.bool_]:
    """Return which cells carry neither flag, as folding raises them; under an older rule by themselves."""
    found = np.array([cell.steady for cell in cells])
    if all(hasattr(cell, "weights") for cell in cells):
        return found & ~pooled_short(cells) & (length >= similar_cells.SHORTEST)
    return found & ~np.array([getattr(cell, "too_short", False) for cell in cells])


def pooled_short(cells: Sequence[Steady]) -> NDArray[np.bool_]:
    """Return which cells are too short, if `SWEEP` cells after each other are a sweep."""
    whole = np.full((-(-len(cells) // int(np.prod(SWEEP))), *SWEEP), np.nan)
    lengths, widths = whole.copy(), whole.copy()
    lengths.flat[: len(cells)] = [cell.length for cell in cells]
    widths.flat[: len(cells)] = [2 * cell.half_width / cell.mean for cell in cells]
    endless = np.full(SWEEP, np.inf)
    short = [similar_cells.too_short(some, endless, wide) for some, wide in zip(lengths, widths, strict=True)]
    return np.ravel(short)[: len(cells)]


def share(events: NDArray[np.bool_], truth: float = 0.0) -> float:
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
            # All cells of all trials at once, with a separate Holm correction for each trial.
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
