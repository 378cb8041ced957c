# SPDX-License-Identifier: Apache-2.0
"""What a round of a mesh costs this machine: processes, memory and CPU time of one link, and of 25 side by side.

python -m benchmarks.mesh_round [LINKS …]

Fifty sites are folders of ten XRootD servers in namespaces. Each row is one run of Snakemake with cells of 30 s.
Needs root, and two minutes for each row on a quiet machine.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil
import yaml

from tests.support.farm import Farm, Uplink, farm_of
from tests.support.workflow import Sweep, started

SERVERS = [f"S{number}" for number in range(10)]
SITES = 50
SWEEP = {
    "parameters": {"tool": "native", "file_size": "1 MiB", "streams": 4},
    "measurement": {"until": "seconds", "seconds": "30 s", "interval": "1 s"},
    "retry_share": 0,
}
MIB = 1 << 20
PAUSE = 1.0  # s between looks at the processes


def folder_of(farm: Farm, site: int) -> str:
    """Make the folder of a site on its server; return its URL."""
    user, server = pwd.getpwnam("xrootd"), SERVERS[site % len(SERVERS)]
    place = farm.folder / server / f"files/data/test/{site}"
    place.mkdir(exist_ok=True)
    os.chown(place, user.pw_uid, user.pw_gid)
    return f"{farm.url(server)}/{site}"


def processes_of(run: psutil.Process) -> Iterator[tuple[str, float]]:
    """Yield the command line of each process below a run, and its share of the memory (PSS) in MiB."""
    for process in run.children(recursive=True):
        try:
            yield " ".join(process.cmdline()), process.memory_full_info().pss / MIB
        except psutil.Error:
            continue


def measure(farm: Farm, links: int, folder: Path) -> str:
    sites = [
        {"name": f"P{at}", "urls": [folder_of(farm, at)], "bandwidth": "5 Mbit/s"} for at in range(SITES)
    ]
    pairs = [f"P{at} -> P{at + SITES // 2}" for at in range(links)]
    testbed = farm.testbed(sites=sites, pairs=pairs, max_streams=100)
    (folder / "mine.yaml").write_text(yaml.safe_dump(testbed))
    sweep = Sweep(folder).define(**SWEEP)
    results = folder / "results/probe@mine"
    asked = sweep.command("--cores", "2", str(results / "dataset.nc"))
    command = farm.inside(*asked, f"testbed={folder}/mine.yaml")
    run = started(command, folder / "output.log", {**os.environ, "XDG_STATE_HOME": str(folder / "state")})
    most: list[tuple[str, float]] = []
    ended = threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(PAUSE):
            most = max(most, [*processes_of(psutil.Process(run.pid))], key=len)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, used = os.wait4(run.pid, 0)
    ended.set()
    watcher.join()
    run.returncode = os.waitstatus_to_exitcode(status)
    assert run.returncode == 0, (folder / "output.log").read_text()
    cells = [json.loads(file.read_text()) for file in (results / "cells").rglob("*.json")]
    cells = [cell for cell in cells if "started" in cell["provenance"]]  # not placeholders
    starts = sorted(datetime.fromisoformat(cell["provenance"]["started"]).timestamp() for cell in cells)
    clients = [pss for line, pss in most if "measuring.client" in line]
    others = [pss for line, pss in most if "measuring.client" not in line]
    row = [
        f"{links}, {sum(cell['status'] == 'ok' for cell in cells)} measured",
        f"{len(most)}, {len(clients)} of them clients",
        f"{sum(clients) + sum(others):.0f} ({sum(clients):.0f} clients)",
        f"{used.ru_utime + used.ru_stime:.0f}",
        f"{starts[-1] - starts[0]:.1f}",
        f"{sum(cell['summary']['throughput'] or 0 for cell in cells):.3f}",
    ]
    return f"| {' | '.join(row)} |"


def main() -> None:
    print(
        "| links | most processes | PSS, MiB | CPU of the run, s | first to last cell's start, s | Gbit/s |"
    )
    print("|---|---|---|---|---|---|")
    with farm_of({server: Uplink("5mbit") for server in SERVERS}) as farm:
        for links in map(int, sys.argv[1:] or ("1", "25")):
            with tempfile.TemporaryDirectory() as folder:
                print(measure(farm, links, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
