# SPDX-License-Identifier: Apache-2.0
"""How far a cell's steadiness and interval are to be trusted, on series whose truth is known, and on measured ones.

    python -m benchmarks.steadiness                      made-up cells of 6 to 60 s; stopping; comparisons of equals
    python -m benchmarks.steadiness --draws 100          fewer of each (default: 400)
    python -m benchmarks.steadiness --replay FILE.nc …   cells of datasets with their 10 Hz series: how many are steady,
                                                         how wide their intervals, and whether halves of them agree

Prints Markdown tables. Nominal are intervals that hold the truth in 95 % of the cells that pass, and one comparison in
twenty that calls any of 48 equal cells different.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.signal import lfilter
from tpcsweep.comparing.comparison import compare
from tpcsweep.comparing.effects import CONFIDENCE, NOT_COMPARABLE
from tpcsweep.dataset import STATUS
from tpcsweep.dataset.labels import about_flags
from tpcsweep.measure.steady import Steady, analyse, enough

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

INTERVAL = 0.1
LENGTHS = (6, 9, 15, 30, 60)
"""Of made-up cells, s."""
CELLS = 48
PRECISION, LONGEST = 0.05, 240
"""Of cells that stop when narrow; s."""
APART = 0.01
"""p from which on two halves of a measured cell differ."""


def times(count: int) -> Floats:
    """The middles of so many sampling intervals, s."""
    return INTERVAL * (np.arange(count) + 0.5)


def noise(generator: np.random.Generator, count: int, time: float, spread: float) -> Floats:
    """AR(1) of a correlation time in s, 0 for none, and a standard deviation."""
    correlation = np.exp(-INTERVAL / time) if time else 0.0
    before = int(20 * max(time, INTERVAL) / INTERVAL)
    values = lfilter([1], [1, -correlation], generator.normal(size=count + before))[before:]
    return np.asarray(spread * np.sqrt(1 - correlation**2) * values)


def correlated(time: float, spread: float = 0.1, white: float = 0.0) -> Draw:
    """Noise around 1 of a correlation time, and white noise on it."""
    return lambda generator, count: (
        1 + noise(generator, count, time, spread) + noise(generator, count, 0, white)
    )


def shaped(shape: Callable[[Floats], Floats], time: float = 0.15, spread: float = 0.05) -> Draw:
    """A course over time that ends at 1, with noise on it."""
    return lambda generator, count: shape(times(count)) * (1 + noise(generator, count, time, spread))


def rounds(period: float, course: Callable[[Floats, Floats], Floats], late: bool) -> Draw:
    """What goes on in rounds of a period in s that differ by a tenth; `late`: a cell begins in the midst of one.

    `course`: of the time since a round began and of how long it lasts, to a level.
    """

    def draw(generator: np.random.Generator, count: int) -> Floats:
        fine = 10
        begin = generator.uniform(period, 3 * period) if late else 0.0
        moments = begin + INTERVAL / fine * (np.arange(count * fine) + 0.5)
        ends = np.cumsum(period * generator.normal(1, 0.1, int(4 * count * INTERVAL / period) + 20))
        which = np.searchsorted(ends, moments)
        lasts = np.diff(ends, prepend=0)[which]
        levels = course(moments - ends[which] + lasts, lasts)
        return np.asarray(levels.reshape(count, fine).mean(axis=1) * (1 + noise(generator, count, 0, 0.02)))

    return draw


def sawtooth(period: float) -> Draw:
    """CUBIC on a long path: a fall to 0.7, and back by a cube."""
    return rounds(period, lambda since, lasts: 1 - 0.3 * (1 - since / lasts) ** 3, late=True)


def lock_step(seconds: float, pause: float = 0.3) -> Draw:
    """Streams whose files all take as long, with the same pause before each."""
    return rounds(seconds + pause, lambda since, _: (since > pause).astype(float), late=False)


FAMILIES: dict[str, tuple[Draw, float]] = {
    "white noise": (correlated(0), 1),
    "AR(1), 0.14 s": (correlated(0.14), 1),
    "AR(1), 0.95 s": (correlated(0.95), 1),
    "AR(1), 3.3 s": (correlated(3.3), 1),
    "AR(1), 0.95 s, half as large as white noise on it": (correlated(0.95, 0.05, 0.1), 1),
    "AR(1), 3.3 s, half as large as white noise on it": (correlated(3.3, 0.05, 0.1), 1),
    "opening, 1 − exp(−t/1 s)": (shaped(lambda t: 1 - np.exp(-t)), 1),
    "opening, 1 − exp(−t/2 s)": (shaped(lambda t: 1 - np.exp(-t / 2)), 1),
    "opening by a cube, 6 s": (shaped(lambda t: 1 - np.clip(1 - t / 6, 0, None) ** 3), 1),
    "opening by a cube, 9 s": (shaped(lambda t: 1 - np.clip(1 - t / 9, 0, None) ** 3), 1),
    "sawtooth, 3 s": (sawtooth(3), 1 - 0.3 / 4),
    "sawtooth, 8 s": (sawtooth(8), 1 - 0.3 / 4),
    "files of 1 s in lock-step": (lock_step(1), 1 / 1.3),
    "files of 4 s in lock-step": (lock_step(4), 4 / 4.3),
    "a step after a quarter": (shaped(lambda t: np.where(t < t[-1] / 4, 1.3, 1)), 1),
    "a step after two thirds": (shaped(lambda t: np.where(t < t[-1] / 1.5, 1.3, 1)), 1),
    "a drift from 0.9 to 1.1": (shaped(lambda t: 0.9 + 0.2 * t / t[-1]), np.nan),
}
"""How series are drawn, and the mean that a cell of any length is to find; NaN where there is none."""


def main() -> None:
    """Print the tables."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("--draws", type=int, default=400)
    asked.add_argument("--replay", type=Path, nargs="+", metavar="FILE.nc")
    given = asked.parse_args()
    if given.replay:
        table(("dataset", "cells", *REPLAYED), [(file.name, *replayed(file)) for file in given.replay])
        return
    print("Cells that pass as steady, with an interval / of these, intervals that hold the truth, %\n")
    table(("series", *(f"{length} s" for length in LENGTHS)), map(fixed(given.draws), FAMILIES))
    print(f"\nCells that stop when narrow, precision {PRECISION:.0%}, at most {LONGEST} s\n")
    table(("correlation, s", "noise", *STOPPED), map(stopped(given.draws // 4), STOPPING))
    print(f"\nComparisons of equals: any of {CELLS} cells is called different, % (cells compared, %)\n")
    table(("correlation, s", *(f"{length} s" for length in LENGTHS)), map(compared(given.draws // 4), TIMES))


def table(columns: Sequence[str], rows: object) -> None:
    """Print a table as its rows come."""
    print("|" + " | ".join(columns) + "|\n|" + "---|" * len(columns))
    for row in rows:  # type: ignore[attr-defined]
        print("|" + " | ".join(map(str, row)) + "|", flush=True)


def trusted(cell: Steady) -> bool:
    """Whether a cell passes as steady and has an interval."""
    return bool(cell.steady and np.isfinite(cell.low))


def fixed(draws: int) -> Callable[[str], tuple[str, ...]]:
    """The row of a family: cells of fixed length."""

    def row(family: str) -> tuple[str, ...]:
        draw, truth = FAMILIES[family]
        cells = []
        for length in LENGTHS:
            generator = np.random.default_rng(length)
            found = [analyse(draw(generator, 10 * length), INTERVAL, CONFIDENCE) for _ in range(draws)]
            passed = [cell for cell in found if trusted(cell)]
            held = [cell.low <= truth <= cell.high for cell in passed]
            cells.append(f"{len(passed) / draws:.0%} / {percent(held) if np.isfinite(truth) else '–'}")
        return family, *cells

    return row


def percent(events: Sequence[bool]) -> str:
    """A share, and – of nothing."""
    return f"{np.mean(events):.0%}" if events else "–"


STOPPING = ((0, 0.1), (0, 0.3), (0.14, 0.2), (0.95, 0.1), (3.3, 0.1))
"""Correlation time in s and noise."""
STOPPED = ("stopped early", "mean length, s", "interval holds the truth", "mean within 5 % of it")


def stopped(draws: int) -> Callable[[tuple[float, float]], tuple[str, ...]]:
    """The row of cells that open with 1 − exp(−t/2 s) and end when they are narrow."""

    def row(which: tuple[float, float]) -> tuple[str, ...]:
        time, spread = which
        draw = shaped(lambda t: 1 - np.exp(-t / 2), time, spread)
        generator = np.random.default_rng(1)
        held, near, lengths = [], [], []
        for _ in range(draws):
            samples = draw(generator, 10 * LONGEST)
            looks: list[Steady] = []
            for count in range(10, samples.size + 1, 10):
                looks.append(analyse(samples[:count], INTERVAL, CONFIDENCE))
                if enough(looks, PRECISION):
                    held.append(looks[-1].low <= 1 <= looks[-1].high)
                    near.append(abs(looks[-1].mean - 1) <= PRECISION)
                    break
            lengths.append(len(looks))
        shares = f"{len(held) / draws:.0%}", f"{np.mean(lengths):.0f}", percent(held), percent(near)
        return f"{time:g}", f"{spread:.0%}", *shares

    return row


TIMES = (0, 0.14, 0.95, 3.3)
"""Correlation times of compared cells, s."""


def compared(draws: int) -> Callable[[float], tuple[str, ...]]:
    """The row of comparisons of cells that are equal but for noise of a correlation time."""

    def row(time: float) -> tuple[str, ...]:
        shares = []
        for length in LENGTHS:
            generator = np.random.default_rng(length)
            # All cells of all trials at once, and Holm's correction anew for each trial.
            series = (correlated(time)(generator, 10 * length) for _ in range(2 * draws * CELLS))
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
    """A sweep of cells that were measured once."""
    axes = ("streams", "repetition")
    figures = {
        "throughput": [cell.mean for cell in cells],
        "throughput_low": [cell.low for cell in cells],
        "throughput_high": [cell.high for cell in cells],
        "throughput_freedom": [cell.freedom for cell in cells],
    }
    shape = (len(cells), 1)
    return xr.Dataset(
        {name: (axes, np.reshape(values, shape)) for name, values in figures.items()}
        | {
            "status": (axes, np.full(shape, STATUS.index("ok"), np.int8)),
            "flags": (axes, np.zeros(shape, np.int32), about_flags()),
        },
        {"streams": np.arange(len(cells)), "repetition": [1]},
        {"measurement_confidence": CONFIDENCE},
    )


REPLAYED = (
    "steady",
    "with an interval",
    "half its width, median",
    "halves compared",
    f"differ (p < {APART:g})",
)


def replayed(file: Path) -> tuple[str, ...]:
    """The row of a dataset's cells: analysed anew, and the halves after the warm-up against each other.

    Halves of a cell that is steady are cells of the same thing, but for what is correlated across their border.
    """
    summary, samples = xr.load_dataset(file), xr.load_dataset(file, group="samples")
    dimensions = summary["throughput"].dims
    series = samples["goodput"].stack(cell=dimensions).transpose("cell", ...).values
    series = series[summary["status"].stack(cell=dimensions).values == STATUS.index("ok")]
    whole = [one[np.isfinite(one)] for one in series]
    cells = [analyse(one, INTERVAL, CONFIDENCE) for one in whole]
    widths = [cell.half_width / cell.mean for cell in cells if trusted(cell)]
    p = []
    for one, cell in zip(whole, cells, strict=True):
        if trusted(cell):
            first, last = (
                analyse(half, INTERVAL, CONFIDENCE) for half in np.array_split(one[cell.warmup_samples :], 2)
            )
            if trusted(first) and trusted(last):
                p.append(apart(first, last))
    return (
        str(len(cells)),
        str(sum(cell.steady for cell in cells)),
        str(len(widths)),
        f"±{np.median(widths):.1%}",
        str(len(p)),
        str(sum(each < APART for each in p)),
    )


def apart(first: Steady, last: Steady) -> float:
    """The probability of such a difference between equals, as `tpcsweep compare` has it."""
    return float(compare(dataset([first]), dataset([last])).cells["p"].iloc[0])


if __name__ == "__main__":
    main()
