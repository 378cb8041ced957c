# SPDX-License-Identifier: Apache-2.0
"""What each tool costs where it runs: CPU-seconds and start latency of a transfer, at 1, 16, 64 and 1000 streams.

All in one deployment without RTT or quotas, with sparse files of 1 MiB. A row is of the transfers that ended after as
many as there are streams had ended, so that starting the tool is not in it. CPU is that of the cgroup that the tool
runs in, with every process of it: of the client, with tpcsweep.client, for those that ask for third-party copies; of
the source or destination, whose server is idle then, for those that move the data themselves. A transfer's start
latency lasts from when the client starts it until its file is there at the destination.

    python -m benchmarks.tools [TOOL …]       as root; about 10 minutes
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tpcsweep.measure.readings import Reading, Sampler
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.tools import TOOLS

from benchmarks.site import site_of

COMPARED = [name for name in TOOLS if name != "iperf3"]
"""All but the one that moves no files."""
STREAMS = (1, 16, 64, 1000)
PROCESSES = 64
"""Streams at most of the tools that start a process for each transfer: more than that two CPUs cannot start."""
ONE_PROCESS = ("gfal2", "native")
SIZE = 1 << 20
ROUNDS = 3
"""Transfers of each stream that count, on the average."""
FEWEST = 40
SECONDS = 60.0
INTERVAL = 0.25


@dataclass(frozen=True)
class Row:
    """What was found of one tool at one number of streams."""

    transfers: int
    failed: int
    rate: float
    """Transfers a second."""
    concurrent: float
    """Connections between the origins, mean."""
    cpu: float
    """CPU-seconds a transfer."""
    cores: float
    latencies: list[float]


def main() -> None:
    """Print the table."""
    columns = "tool, streams, transfers, failed, a second, connections, CPU-s each, cores, start s"
    with site_of(tools=COMPARED, streams=PROCESSES, bandwidth=1.0) as site:
        print(f"load average at the start: {os.getloadavg()[0]:.1f}\n")
        print("|", columns.replace(", ", " | "), "| slowest 5 % s |")
        print("|---" * 10 + "|")
        for tool in sys.argv[1:] or COMPARED:
            for streams in STREAMS:
                if streams <= PROCESSES or tool in ONE_PROCESS:
                    show(tool, streams, measure(site, tool, streams))


def show(tool: str, streams: int, row: Row) -> None:
    """One line of the table."""
    middle, slow = statistics.median(row.latencies), float(np.quantile(row.latencies, 0.95))
    print(
        f"| {tool} | {streams} | {row.transfers} | {row.failed} | {row.rate:.1f} | {row.concurrent:.0f} "
        f"| {row.cpu:.4f} | {row.cores:.2f} | {middle:.2f} | {slow:.2f} |",
        flush=True,
    )


def measure(site: NetnsSite, tool: str, streams: int) -> Row:
    """Keep streams active until enough transfers have ended."""
    client, known = site.client_of(tool), TOOLS[tool]
    run = {"pairs": site.pairs("direct"), "file_name": site.add_source(SIZE, "sparse", streams)}
    run |= {"copy_mode": known.copy_modes[0], "tcp_streams": 1, "folders": site.folders}
    wanted = streams + max(ROUNDS * streams, FEWEST)
    clock = time.time() - time.monotonic()
    failed = 0
    ends: list[float] = []
    latencies: list[float] = []
    give_up = time.monotonic() + SECONDS
    with Sampler(site.read, INTERVAL) as sampler:
        client.run(tool=tool, streams=streams, prefix=f"{tool}.{streams}", **run)
        while len(ends) < wanted and time.monotonic() < give_up:
            time.sleep(0.1)
            events = client.events()
            good = [event for event in events if event["event"] == "end" and event["failure"] is None]
            failed += len(events) - len(good)
            files = [site.sides["dst"].files / event["name"] for event in good]
            for event, born in zip(good, births(files), strict=True):
                ends.append(event["end"])
                latencies.append(max(0.0, born - clock - event["start"]))  # files are dated by a coarse clock
                site.received(event)
    client.stop()
    site.settle()
    readings = sampler.readings()
    begin, end = sorted(ends)[min(streams - 1, len(ends) // 2)], max(ends)
    at = [reading.time for reading in readings]
    cpu = np.diff(np.interp([begin, end], at, [used(reading, known.place) for reading in readings]))[0]
    counted = [late for late, ended in zip(latencies, ends, strict=True) if ended > begin]
    between = [reading.connections for reading in readings if begin <= reading.time <= end]
    return Row(
        transfers=len(counted),
        failed=failed,
        rate=len(counted) / (end - begin),
        concurrent=statistics.mean(between or [0]),
        cpu=cpu / len(counted),
        cores=cpu / (end - begin),
        latencies=counted,
    )


def used(reading: Reading, place: str) -> float:
    """CPU seconds of the client or of the one origin of a side."""
    return float(np.sum(getattr(reading, f"{place}_cpu")))


def births(files: list[Path]) -> list[float]:
    """When files were made, s since the epoch."""
    if not files:
        return []
    done = subprocess.run(["stat", "--format=%.9W", *files], capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


if __name__ == "__main__":
    main()
