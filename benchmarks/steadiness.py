# SPDX-License-Identifier: Apache-2.0
"""Trust in a cell's mean and interval, on synthetic series with a known truth, and on measured ones.

    python -m benchmarks.steadiness                      synthetic cells of 6 to 60 s, and cells that stop when narrow
    python -m benchmarks.steadiness --draws 100          fewer of each (default: 400)
    python -m benchmarks.steadiness --against COMMIT     the same by the rule of an earlier commit in git
    python -m benchmarks.steadiness --compare            comparisons of equals
    python -m benchmarks.steadiness --replay FILE.nc …   cells of datasets with their 10 Hz series: number of cells by
                                                         flag, width of intervals, and agreement of halves

Prints Markdown tables. Nominal are intervals that contain the truth in 95 % of the cells, and one comparison in twenty
that calls any of 48 equal cells different.
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
from scipy.signal import lfilter
from tpcsweep.analysis.comparison import compare
from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.data.labels import MASKS, STATUS, about_flags
from tpcsweep.data.run_effects import NOT_COMPARABLE
from tpcsweep.measuring import steady
from tpcsweep.measuring.cell import DECISION_FACTOR
from tpcsweep.measuring.steady import Steady, analyse
from tpcsweep.sweeps.sweep import EARLIEST

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Floats]
"""Function that returns series as (cells, samples)."""

INTERVAL = 0.1
LENGTHS = (6, 9, 15, 18, 30, 60)
"""Lengths of synthetic cells, s."""
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


def rounds(
    period: float, course: Callable[[Floats, Floats], Floats], late: bool = True, spread: float = 0.1
) -> Draw:
    """Return courses that repeat in rounds of different lengths.

    Args:
        period: Mean length of a round, s.
        course: Function of the time in the round and its length that returns the level.
        late: Whether a cell starts in the middle of a round.
        spread: Relative spread of the lengths.
    """

    def one(generator: np.random.Generator, count: int) -> Floats:
        fine = 5
        begin = generator.uniform(5 * period, 8 * period) if late else 0.0
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


def lock_step(seconds: float, pause: float = 0.3) -> Draw:
    """Streams whose files all take equally long, with the same pause before each."""
    return rounds(seconds + pause, lambda since, _: (since > pause).astype(float), late=False)


def bursts(seconds: float, gap: float, streams: int = 1) -> Draw:
    """Streams with independently random lengths of files and gaps, which vary by half."""

    def one(generator: np.random.Generator, count: int) -> Floats:
        fine = 5
        period = seconds + gap
        pairs = generator.gamma(4, 1 / 4, (int(2 * count * INTERVAL / period) + 60, 2)) * (seconds, gap)
        begin = generator.uniform(5 * period, 8 * period)
        moments = begin + INTERVAL / fine * (np.arange(count * fine) + 0.5)
        sends = np.searchsorted(np.cumsum(pairs), moments) % 2 == 0
        return np.asarray(sends.reshape(count, fine).mean(axis=1))

    def draw(generator: np.random.Generator, cells: int, count: int) -> Floats:
        every = np.array([one(generator, count) for _ in range(cells * streams)])
        flows = every.reshape(cells, streams, count).mean(axis=1)
        return flows * (1 + noise(generator, (cells, count), 0, 0.02))

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
    "files of 2 s, gaps of 0.3 s": (bursts(2, 0.3), 2 / 2.3),
    "files of 0.5 s, gaps of 0.5 s": (bursts(0.5, 0.5), 0.5),
    "four streams, files of 2 s, gaps of 0.3 s": (bursts(2, 0.3, 4), 2 / 2.3),
    "files of 1 s in lock-step": (lock_step(1), 1 / 1.3),
    "files of 4 s in lock-step": (lock_step(4), 4 / 4.3),
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


def plain(samples: Floats, interval: float, confidence: float) -> Any:
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
        rules[f"the rule of {given.against}"] = (before.analyse, lambda _, one: often(before, one))
    pooled = []
    for name, (rule, stop) in rules.items():
        print(f"{name[0].upper()}{name[1:]}\n")
        rows = [family(each, rule, stop, given.draws) for each in FAMILIES]
        table(
            ("series", *(f"{length} s" for length in LENGTHS), *EXTRA),
            [(each, *written(row)) for each, row in zip(FAMILIES, rows, strict=True)],
        )
        print()
        pooled.append((name, *written(np.nanmean(rows[:-1], axis=0))))
    print("All but the drift\n")
    table(("rule", *(f"{length} s" for length in LENGTHS), *EXTRA), pooled)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table row by row."""
    print("|" + " | ".join(columns) + "|\n|" + "---|" * len(columns))
    for row in rows:
        print("|" + " | ".join(row) + "|", flush=True)


EXTRA = (
    "bias at 18 s",
    "half-width at 18 s",
    "flagged at 18 s",
    f"may stop early, {LONGEST} s at most",
    "stopped early",
    "mean length, s",
)


def family(name: str, rule: Any, stop: Any, draws: int) -> Floats:
    """Return a family's figures: coverage and share of cells with an interval by length, then `EXTRA`."""
    draw, truth = FAMILIES[name]
    figures: list[float] = []
    extra: list[float] = []
    for length in LENGTHS:
        series = draw(np.random.default_rng(length), draws, round(length / INTERVAL))
        found = [rule(one, INTERVAL, CONFIDENCE) for one in series]
        has = [one for one in found if np.isfinite(one.low)]
        figures += share([one.low <= truth <= one.high for one in has], truth), len(has) / draws
        if length == 18:
            bias = float(np.mean([one.mean for one in found])) / truth - 1
            width = float(np.median([one.half_width / one.mean for one in has])) if has else np.nan
            extra += bias, width, 1 - float(np.mean([one.steady for one in found]))
    held, early, lengths = [], [], []
    for one in draw(np.random.default_rng(1), draws // 2, round(LONGEST / INTERVAL)):
        cell, length = stop(rule, one)
        lengths.append(length)
        if np.isfinite(cell.low):
            held.append(cell.low <= truth <= cell.high)
            early += [held[-1]] * (length < LONGEST)
    stopping = share(held, truth), len(held) / len(lengths), share(early, truth), len(early) / len(lengths)
    return np.array([*figures, *extra, *stopping, np.mean(lengths)])


def share(events: Sequence[bool], truth: float = 0.0) -> float:
    """Return a share; NaN if empty, or without a truth."""
    return float(np.mean(events)) if events and np.isfinite(truth) else np.nan


def written(row: Floats) -> tuple[str, ...]:
    """Return a row of the table: coverage, with the share of cells behind it unless that is all."""
    *pairs, bias, width, flagged, held, of, early, stopped, length = row
    *fixed, all_held, early_held = [
        percent(share) + ("" if total > 0.995 else f" of {total:.0%}")
        for share, total in [*zip(pairs[::2], pairs[1::2], strict=True), (held, of), (early, stopped)]
    ]
    biased = "–" if np.isnan(bias) else f"{bias:+.1%}".replace("-0.0", "+0.0")
    return *fixed, biased, percent(width, 1), f"{flagged:.0%}", all_held, early_held, f"{length:.0f}"


def percent(value: float, digits: int = 0) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}%}"


def late(rule: Any, samples: Floats) -> tuple[Any, float]:
    """Stop like `until: steady`: from 30 s on, with looks at lengths that grow by half."""
    length = EARLIEST
    while length < LONGEST:
        cell = rule(samples[: round(length / INTERVAL)], INTERVAL, CONFIDENCE)
        if steady.narrow(cell, PRECISION):
            return cell, length
        length *= DECISION_FACTOR
    return rule(samples, INTERVAL, CONFIDENCE), LONGEST


def often(before: ModuleType, samples: Floats) -> tuple[Any, float]:
    """Stop like an earlier commit, with a look each second from 4 s on."""
    looks: list[Any] = []
    for length in range(4, LONGEST):
        looks.append(before.analyse(samples[: round(length / INTERVAL)], INTERVAL, CONFIDENCE))
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
    short = [MASKS["too_short"] * cell.too_short for cell in cells]
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
