# SPDX-License-Identifier: Apache-2.0
"""How often the interval of a cell that is seen from outside contains the truth: simulated files of known rates.

Each stream transfers files one after the other; a file's time has a factor of the stream, one that changes slowly and
one of the file. Bytes inside files are unknown, so the cell is judged by files alone, as testbeds of kind endpoints do.

    python -m benchmarks.outside
"""

from __future__ import annotations

import numpy as np
from tpcsweep.measure.steady import analyse
from tpcsweep.testbeds.endpoints.site import Span, arrived, known_until

CELLS = 400
INTERVAL = 0.1
SIZE = 64 << 20
SECONDS = 3.0
"""The mean time of a file."""


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


def judged(spans: list[Span], streams: int) -> tuple[float, float, float]:
    times = np.arange(0.0, known_until(spans, streams), INTERVAL)
    rates = np.diff(arrived(times, spans)) / INTERVAL
    first = max(min(span.end for span in spans if span.stream == stream) for stream in range(streams))
    found = analyse(rates, INTERVAL, 0.95, settled=first)
    return found.mean, found.low, found.high


def main() -> None:
    print("| streams | files of each | scatter of files | slow scatter | covered | half width |")
    print("|---|---|---|---|---|---|")
    for streams in (1, 4, 16):
        for files in (4, 8, 16, 32):
            for scatter, slow in ((0.1, 0.0), (0.3, 0.0), (0.1, 0.2)):
                random = np.random.default_rng(7)
                # The truth: a cell as long as ten thousand files.
                long = cell(random, streams, 10_000 // streams, scatter, slow)
                truth = judged(long, streams)[0]
                rows = np.array(
                    [judged(cell(random, streams, files, scatter, slow), streams) for _ in range(CELLS)]
                )
                covered = np.mean((rows[:, 1] <= truth) & (truth <= rows[:, 2]))
                width = np.nanmedian((rows[:, 2] - rows[:, 1]) / 2 / rows[:, 0])
                print(f"| {streams} | {files} | {scatter:.0%} | {slow:.0%} | {covered:.1%} | {width:.1%} |")


if __name__ == "__main__":
    main()
