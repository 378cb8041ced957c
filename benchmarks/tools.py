# SPDX-License-Identifier: Apache-2.0
"""Cost of each tool: CPU-seconds and start latency of a transfer, at 1, 16, 64 and 1000 streams.

All tools run in one deployment without RTT or quotas, with sparse files of 1 MiB. A row covers the transfers that ended
after the first ones, as many as streams, so that starting the tool is excluded. CPU is that of the tool's cgroup with
all its processes: the client's, including tpcsweep.measuring.client, for tools that request third-party copies; the
source's or destination's, whose server is idle, for tools that move the data themselves. A transfer's start latency
ends when its file exists at the destination.

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
from tpcsweep.measuring.client.client_process import ClientRun
from tpcsweep.measuring.readings import quantity_at
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.site import NetnsSite

from benchmarks.site import site_of

COMPARED = [name for name in TOOLS if name != "iperf3"]
"""All tools that move files."""
STREAMS = (1, 16, 64, 1000)
PROCESSES = 64
"""Most streams of tools with a process for each transfer; two CPUs cannot start more."""
ONE_PROCESS = ("gfal2", "native")
SIZE = 1 << 20
ROUNDS = 3
"""Mean number of counted transfers of each stream."""
FEWEST = 40
SECONDS = 60.0
INTERVAL = 0.25


@dataclass(frozen=True)
class Row:
    """Results of one tool with one number of streams."""

    transfers: int
    failed: int
    rate: float
    """Transfers a second."""
    concurrent: float
    """Connections between the origins, mean."""
    cpu: float
    """CPU-seconds for each transfer."""
    cores: float
    latencies: list[float]


def main() -> None:
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
    with site.sampler(Measurement(interval=INTERVAL)) as sampler:
        client.run(ClientRun(tool=tool, streams=streams, prefix=f"{tool}.{streams}", **run))
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
    [cpu] = np.diff(quantity_at(readings, np.array([begin, end]), f"{known.place}_cpu"))
    counted = [late for late, ended in zip(latencies, ends, strict=True) if ended > begin]
    between = quantity_at(readings, np.arange(begin, end, INTERVAL), "connections").tolist()
    return Row(
        transfers=len(counted),
        failed=failed,
        rate=len(counted) / (end - begin),
        concurrent=statistics.mean(between or [0]),
        cpu=cpu / len(counted),
        cores=cpu / (end - begin),
        latencies=counted,
    )


def births(files: list[Path]) -> list[float]:
    """Return the creation times of files, s since the epoch."""
    if not files:
        return []
    done = subprocess.run(["stat", "--format=%.9W", *files], capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


if __name__ == "__main__":
    main()
