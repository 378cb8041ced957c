# SPDX-License-Identifier: Apache-2.0
"""Cost of sampling: the same transfers with and without samplers, in turn, in one deployment.

python -m benchmarks.sampling [ROUNDS]       as root; three minutes for ten rounds

Only the machine bounds the transfers, so that the CPU of samplers reduces the throughput.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from tpcsweep.measuring.client.client_process import ClientRun
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.site import NetnsSite

from benchmarks.site import site_of

INTERVAL = 0.1
WARM_UP = 3.0
PHASE = 3.0
STREAMS = (4, 16, 64)
FILE = 16 << 20


class Phase(NamedTuple):
    """Some seconds of transfers."""

    throughput: float
    """Gbit/s on the wire."""
    cores: float
    """CPU of this process: samplers, and control of the cell."""


def main(rounds: int) -> None:
    print(
        "| streams | Gbit/s off | Gbit/s on | on/off, median (quartiles) | samplers, cores |\n|---|---|---|---|---|"
    )
    for streams in STREAMS:
        with site_of(rtt=0, bandwidth=20) as site, transferring(site, streams):
            pairs = [turn(site, first) for _, first in zip(range(rounds), alternating(), strict=False)]
        off, on = zip(*pairs, strict=True)
        ratios = [b.throughput / a.throughput for a, b in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        cores = statistics.median(b.cores - a.cores for a, b in pairs)
        rates = (statistics.median(phase.throughput for phase in phases) for phases in (off, on))
        shown = " | ".join(f"{rate:.2f}" for rate in rates)
        print(f"| {streams} | {shown} | {middle:.3f} ({low:.3f} to {high:.3f}) | {cores:.4f} |", flush=True)


def alternating() -> Iterator[bool]:
    """Yield whether samplers are on first, in every other round."""
    while True:
        yield from (False, True)


@contextlib.contextmanager
def transferring(site: NetnsSite, streams: int) -> Iterator[None]:
    """Keep streams active."""
    name = site.add_source(FILE, "sparse", streams)
    request = ClientRun(
        tool="curl",
        streams=streams,
        pairs=site.pairs("redirector"),
        file_name=name,
        prefix="s",
        copy_mode="pull",
        tcp_streams=1,
    )
    site.clients["client"].run(request)
    phase(site, contextlib.nullcontext(), WARM_UP)
    yield
    site.clients["client"].stop()
    site.settle()


def turn(site: NetnsSite, first: bool) -> tuple[Phase, Phase]:
    """Return a phase without and one with samplers, measured in the given order."""
    found = {
        on: phase(site, site.sampler(Measurement(interval=INTERVAL)) if on else contextlib.nullcontext())
        for on in (first, not first)
    }
    return found[False], found[True]


def phase(site: NetnsSite, sampling: AbstractContextManager[object], seconds: float = PHASE) -> Phase:
    """Measure a phase; counters are read before and after, because the samplers own their socket."""
    path = site.counters.targets["path"]
    began, before, used = time.monotonic(), path.read()["wire_throughput"], time.process_time()
    with sampling:
        while time.monotonic() < began + seconds:
            for event in site.clients["client"].events():
                if event["event"] == "end":
                    site.received(event)
            time.sleep(INTERVAL)
    took, cpu = time.monotonic() - began, time.process_time() - used
    return Phase((path.read()["wire_throughput"] - before) * 8e-9 / took, cpu / took)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
