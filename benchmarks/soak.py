# SPDX-License-Identifier: Apache-2.0
"""Memory and disk usage of a long cell: synthetic readings, and a cell of real transfers.

python -m benchmarks.soak [SECONDS]      as root; SECONDS of the real cell, an hour by default, and a minute
"""

from __future__ import annotations

import sys
import threading
import time
import tracemalloc

import numpy as np
import orjson
import psutil
from tpcsweep.data.variables import QUANTITIES
from tpcsweep.measuring.cell import measure
from tpcsweep.measuring.readings import goodput, sampled_series
from tpcsweep.measuring.sampler import LocalTargets, Record, Sampler
from tpcsweep.measuring.steady import analyse
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement

from benchmarks.site import site_of

MADE_UP_SECONDS = 60
MADE_UP_INTERVAL = 0.001
CONFIDENCE = 0.95
STEPS = 12


def main(seconds: float) -> None:
    made_up()
    real(Measurement(until="seconds", seconds=seconds))


def made_up() -> None:
    """Print usage for a reading every millisecond for a minute: as many as an hour and 40 min at 10 Hz."""
    print("| made-up readings | kept | MiB for them | CPU ms of a look |\n|---|---|---|---|")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with Sampler([LocalTargets({"src1": _record})], MADE_UP_INTERVAL) as sampler:
        for second in range(1, MADE_UP_SECONDS + 1):
            time.sleep(1)
            if second in (5, 10, 20, 40, 60):
                held = tracemalloc.get_traced_memory()[0] - before
                readings = sampler.readings()
                began = time.thread_time()
                analyse(goodput(readings, sampler.interval), sampler.interval, CONFIDENCE)
                look = 1e3 * (time.thread_time() - began)
                kept = len(readings.tables["src1"].rows)
                print(f"| {second * 1000} | {kept} | {held / 2**20:.1f} | {look:.0f} |", flush=True)
    tracemalloc.stop()
    found = {
        name: np.round(values, 6).tolist()
        for name, values in sampled_series(sampler.readings(), sampler.interval).items()
    }
    count = len(found["time"])
    print(
        f"\n{count} samples of {len(found)} columns are {len(orjson.dumps(found)) / 2**20:.1f} MiB of JSON\n"
    )


def _record() -> Record:
    """Return realistic counters that share no object with other records."""
    now = time.monotonic()
    return {name: now * 1.3e6 for name, quantity in QUANTITIES.items() if quantity.sampled}


def real(how: Measurement) -> None:
    """Print the resident memory of the measuring process over time, on a slow path."""
    print("| s of a real cell | resident MiB |\n|---|---|")
    ended = threading.Event()

    def watch() -> None:
        began, process = time.monotonic(), psutil.Process()
        while not ended.wait(how.bounds[1] / STEPS):
            print(f"| {time.monotonic() - began:.0f} | {process.memory_info().rss / 2**20:.1f} |", flush=True)

    with site_of(rtt=10.0, bandwidth=0.1) as site:
        thread = threading.Thread(target=watch)
        thread.start()
        found = measure(
            site, Parameters(streams=4, file_size=16 << 20, tool="curl"), how, "c", lambda *_: None
        )
        ended.set()
        thread.join()
    samples, transfers = (len(orjson.dumps(part)) / 2**20 for part in (found.samples, found.transfers))
    counts = f"{len(found.samples['time'])} samples and {len(found.transfers['start'])} transfers"
    print(f"\nIts file: {counts}, {samples:.2f} and {transfers:.2f} MiB", file=sys.stdout)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0)
