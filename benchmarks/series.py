# SPDX-License-Identifier: Apache-2.0
"""Synthetic cells whose true mean is known: noise, stalls, levels, files, slow starts and ramps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from tpcsweep.measuring.steady import Course
from tpcsweep.measuring.transfer_files import Arrival
from tpcsweep.measuring.transfers import CellTransfers

Floats = NDArray[np.float64]


class Cell(NamedTuple):
    """Goodput of a synthetic cell, and what else a measurement knows."""

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


def flicker(spread: float) -> Draw:
    """Noise whose spectrum is 1/f down to an eighth of the cell's frequency."""

    def draw(generator: np.random.Generator, cells: int, count: int) -> Floats:
        frequencies = np.fft.rfftfreq(8 * count)
        frequencies[0] = frequencies[1]
        spectrum = np.fft.rfft(generator.normal(size=(cells, 8 * count))) / np.sqrt(frequencies)
        values = np.fft.irfft(spectrum, 8 * count)
        return np.asarray(1 + spread * (values / values.std())[:, :count])

    return draw


def stalls(share: float, spread: float = 0.1, length: int = 3) -> Draw:
    """Noise in which this share of samples starts a stall of `length` samples."""

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


KINDS: dict[str, dict[str, tuple[Draw, float]]] = {
    "fast noise": {
        "white noise": (correlated(0), 1),
        "AR(1), 0.14 s": (correlated(0.14), 1),
        "two levels, 1 and 0.7, for 0.3 s each": (two_levels(0.3), 0.85),
        "lognormal, σ 0.5, 0.14 s": (lognormal(0.14, 0.5), 1),
        "lognormal, σ 0.4, 0.95 s": (lognormal(0.95, 0.4), 1),
    },
    "slow noise and levels": {
        "AR(1), 0.95 s": (correlated(0.95), 1),
        "AR(1), 3.3 s": (correlated(3.3), 1),
        "AR(1), 10 s": (correlated(10), 1),
        "1/f noise": (flicker(0.1), 1),
        "two levels, for 1 s each": (two_levels(1), 0.85),
        "two levels, for 3 s each": (two_levels(3), 0.85),
        "sawtooth, 3 s": (sawtooth(3), 1 - 0.3 / 4),
        "sawtooth, 8 s": (sawtooth(8), 1 - 0.3 / 4),
    },
    "slow noise under fast noise": {
        "AR(1), 0.95 s, under white noise twice as large": (correlated(0.95, 0.05, 0.1), 1),
        "AR(1), 3.3 s, under white noise twice as large": (correlated(3.3, 0.05, 0.1), 1),
        "AR(1), 5 s, under white noise as large": (correlated(5, 0.05, 0.05), 1),
        "AR(1), 10 s, under white noise twice as large": (correlated(10, 0.05, 0.1), 1),
    },
    "rare stalls": {
        "stalls of 0.3 s, begun by 1 % of samples": (stalls(0.01), 0.99**3),
        "the same in noise of 3 %": (stalls(0.01, 0.03), 0.99**3),
        "stalls, begun by 0.3 %": (stalls(0.003), 0.997**3),
        "stalls, begun by 0.1 %": (stalls(0.001), 0.999**3),
        "stalls of 1 s, begun by 0.3 %": (stalls(0.003, length=10), 0.997**10),
        "the same in noise of 3 %, 1 s": (stalls(0.003, 0.03, 10), 0.997**10),
    },
    "pauses between files": {
        "files of 2 s, gaps of 0.3 s": (files(2, 0.3, spread=0.5, running=True), 2 / 2.3),
        "files of 0.5 s, gaps of 0.5 s": (files(0.5, 0.5, spread=0.5, running=True), 0.5),
        "four streams, files of 2 s, gaps of 0.3 s": (files(2, 0.3, 4, spread=0.5, running=True), 2 / 2.3),
        "files of 1 s in lock-step, gaps of 0.3 s": (files(1, 0.3), 1 / 1.3),
        "files of 4 s in lock-step, gaps of 0.3 s": (files(4, 0.3), 4 / 4.3),
        "files of 1.5 s in lock-step, gaps of 1 s": (files(1.5, 1), 0.6),
        "eight streams of such files": (files(1.5, 1, 8), 0.6),
    },
    "slow starts, ramps and steps": {
        "a long file at 200 ms": (long_files((1, 1), 0), 1),
        "a long file at 200 ms, slow start left early": (long_files((0.5, 1.2), 21), 1),
        "opening, 1 − exp(−t/1 s)": (shaped(lambda t: 1 - np.exp(-t)), 1),
        "opening, 1 − exp(−t/2 s)": (shaped(lambda t: 1 - np.exp(-t / 2)), 1),
        "opening by a cube, 6 s": (shaped(lambda t: 1 - np.clip(1 - t / 6, 0, None) ** 3), 1),
        "opening by a cube, 9 s": (shaped(lambda t: 1 - np.clip(1 - t / 9, 0, None) ** 3), 1),
        "slow ramp from 0.5 in 5 s": (shaped(lambda t: np.clip(0.5 + t / 10, None, 1)), 1),
        "a step from 1.3 after 1.5 s": (shaped(lambda t: np.where(t < 1.5, 1.3, 1)), 1),
        "a step from 1.3 after 4 s": (shaped(lambda t: np.where(t < 4, 1.3, 1)), 1),
    },
}
"""Series of each kind, with the true mean for a cell of any length."""
DRIFT = {"a drift from 0.9 to 1.1 in the cell": (shaped(lambda t: 0.9 + 0.2 * t / t[-1]), np.nan)}
FAMILIES = {name: family for some in (*KINDS.values(), DRIFT) for name, family in some.items()}
"""All series, with the true mean, or NaN if there is none."""


def drawn(draw: Draw, generator: np.random.Generator, count: int, length: float) -> list[Cell]:
    return [
        each if isinstance(each, Cell) else Cell(each)
        for each in draw(generator, count, round(length / INTERVAL))
    ]
