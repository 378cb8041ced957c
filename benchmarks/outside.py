# SPDX-License-Identifier: Apache-2.0
"""How often the interval of a cell that is seen from outside contains the truth: simulated files of known rates.

Each stream transfers files one after the other; a file's time has a factor of the stream, one that changes slowly and
one of the file. Bytes inside files are unknown, so the cell is judged by files alone, as testbeds of kind endpoints do.
A second table has files of a minute, whose rate changes meanwhile, without and with performance markers.

    python -m benchmarks.outside
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from tpcsweep.measuring.rounds import by_rounds
from tpcsweep.measuring.steady import Course, analyse
from tpcsweep.measuring.transfer_files import Arrival
from tpcsweep.measuring.transfers import CellTransfers
from tpcsweep.testbeds.endpoints.spans import Span, arrived, known_until, split

CELLS = 400
INTERVAL = 0.1
SIZE = 64 << 20
SECONDS = 3.0
"""The mean time of a file."""
MINUTE = 60.0
"""The mean time of a long file, s."""
PERIOD = 5.0
"""The time between performance markers, s."""


def cell(random: np.random.Generator, streams: int, files: int, scatter: float, slow: float) -> list[Span]:
    """Files of a cell, `files` for each stream; relative deviations of times of files, and of the shared slow part."""
    shared = np.zeros(4 * files + 20)
    for step in range(1, shared.size):
        shared[step] = 0.8 * shared[step - 1] + 0.6 * random.normal()
    spans = []
    for stream in range(streams):
        now = 0.0
        for _ in range(files):
            drift = slow * shared[min(int(now / SECONDS), shared.size - 1)]
            seconds = SECONDS * np.exp(scatter * random.normal() - scatter**2 / 2 + drift - slow**2 / 2)
            spans.append(Span(stream, now, now + seconds, SIZE))
            now += seconds
    return spans


def long_cell(
    random: np.random.Generator, streams: int, files: int
) -> tuple[list[Span], list[dict[str, float]]]:
    """Long files, and their markers; the rate of a stream scatters by 30 %, correlated over some seconds."""
    spans, markers = [], []
    for stream in range(streams):
        scatter = np.zeros(int(3 * files * MINUTE) + 100)
        for second in range(1, scatter.size):
            scatter[second] = 0.8 * scatter[second - 1] + 0.6 * random.normal()
        moved = np.concatenate([[0.0], np.cumsum(np.exp(0.3 * scatter - 0.045))]) * SIZE / MINUTE
        clock = np.arange(moved.size, dtype=float)
        ends = np.interp(SIZE * np.arange(files + 1), moved, clock)
        for number, (start, end) in enumerate(pairwise(ends.tolist())):
            spans.append(Span(stream, start, end, SIZE))
            for time in np.arange(start + PERIOD, end, PERIOD).tolist():
                count = float(np.interp(time, clock, moved)) - number * SIZE
                markers.append({"stream": stream, "start": start, "time": time, "bytes": count})
    return spans, markers


def judged(
    spans: list[Span], streams: int, parts: list[Span] | None = None
) -> tuple[float, float, float, bool]:
    """Mean and interval of a cell, by its files or by known parts of them, and whether it has too few files."""
    parts = parts or spans
    times = np.arange(0.0, known_until(parts, streams), INTERVAL)
    rates = np.diff(arrived(times, parts)) / INTERVAL
    transfers = CellTransfers("", 0.0, streams)
    for number, (stream, start, end, size) in enumerate(sorted(spans, key=lambda span: span.end)):
        event = {"event": "end", "stream": stream, "number": number, "name": f"{number}", "failure": None}
        event |= {"start": start, "end": end, "followed": parts is not spans}
        transfers.add(event, Arrival(None, size))
    found = replace(analyse(rates, INTERVAL, 0.95, course=Course(cycle=transfers.cycle)), too_short=False)
    if transfers.whole_files:
        found = by_rounds(found, *transfers.rounds(), 0.95)
    return found.mean, found.low, found.high, found.too_short


def coverage(rows: list[tuple[float, float, float, bool]], truth: float) -> str:
    means, lows, highs, short = np.array(rows).T
    covered, width = (lows <= truth) & (truth <= highs), np.nanmedian((highs - lows) / 2 / means)
    kept = short == 0
    unflagged = f"{covered[kept].mean():.0%} of {kept.mean():.0%}" if kept.any() else "none"
    return f"{covered.mean():.1%} | {width:.1%} | {unflagged}"


def main() -> None:
    print(
        "| streams | files of each | scatter of files | slow scatter | covered | half width | covered without a flag |"
    )
    print("|---|---|---|---|---|---|---|")
    for streams in (1, 4, 16):
        for files in (4, 8, 16, 32):
            for scatter, slow in ((0.1, 0.0), (0.3, 0.0), (0.1, 0.2)):
                random = np.random.default_rng(7)
                # The truth: a cell as long as ten thousand files.
                long = cell(random, streams, 10_000 // streams, scatter, slow)
                truth = judged(long, streams)[0]
                rows = [judged(cell(random, streams, files, scatter, slow), streams) for _ in range(CELLS)]
                print(f"| {streams} | {files} | {scatter:.0%} | {slow:.0%} | {coverage(rows, truth)} |")
    print("\n| streams | long files of each | markers | covered | half width | covered without a flag |")
    print("|---|---|---|---|---|---|")
    for streams in (1, 4):
        for files in (2, 4, 8):
            random = np.random.default_rng(7)
            cells = [long_cell(random, streams, files) for _ in range(CELLS)]
            truth = streams * SIZE / MINUTE
            for name, known in (("no", False), ("yes", True)):
                rows = [
                    judged(spans, streams, split(spans, markers, SIZE) if known else None)
                    for spans, markers in cells
                ]
                print(f"| {streams} | {files} | {name} | {coverage(rows, truth)} |")


if __name__ == "__main__":
    main()
