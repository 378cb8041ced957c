# SPDX-License-Identifier: Apache-2.0
"""Seconds of a sweep beyond measuring: for each deployment, for each cell, and for Snakemake itself.

python benchmarks/overhead.py        as root; 1+1 and 4+4 origins, a few minutes
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from tpcsweep.measuring.cell import measure
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement

from benchmarks.site import site_of

ROOT = Path(__file__).resolve().parents[1]
HOW = Measurement(min_time=2.0, max_time=2.0)
REPEATS = 5
CELLS = 5


def main() -> None:
    print(
        "| origins | up s | of which path s | a cell s | down s | a deployment s |\n|---|---|---|---|---|---|"
    )
    for origins in (1, 4):
        rows = [deployment(origins) for _ in range(REPEATS)]
        up, path, cell, down = (statistics.median(column) for column in zip(*rows, strict=True))
        print(
            f"| {origins}+{origins} | {up:.2f} | {path:.2f} | {cell:.3f} | {down:.2f} | {up + down:.2f} |",
            flush=True,
        )
    print("\nA whole run of Snakemake, 2 deployments of 4+4 origins with 4 cells of 2 s each:")
    wall, measured = workflow()
    print(f"{wall:.1f} s, of which {measured:.1f} s measured")


def deployment(origins: int) -> tuple[float, float, float, float]:
    """Return seconds to start, of that for the path, of a cell beyond measuring, and to remove."""
    began = time.monotonic()
    with site_of(origins=origins, rtt=10.0) as site:
        up = time.monotonic() - began
        beside = []
        for number in range(CELLS):
            start = time.monotonic()
            found = measure(site, Parameters(streams=4), HOW, f"c{number}", lambda *_: None)
            beside.append(time.monotonic() - start - found.summary.duration)
        path = site.provenance["seconds"]["path"]
        ending = time.monotonic()
    return up, path, statistics.median(beside), time.monotonic() - ending


def workflow() -> tuple[float, float]:
    """Return wall seconds of a sweep from the command to its last cell, and seconds measured."""
    with tempfile.TemporaryDirectory() as folder:
        parameters = {"origins": 4, "rtt": [10, 20], "streams": [1, 2, 4, 8]}
        sweep = {"parameters": parameters, "measurement": {"min_time": 2, "max_time": 2}}
        file = Path(folder) / "overhead.yaml"
        file.write_text(yaml.safe_dump(sweep))
        command = [sys.executable, "-m", "snakemake", "cells", "--quiet", "--config"]
        began = time.monotonic()
        subprocess.run(
            [*command, f"sweep={file}", f"results={folder}"], cwd=ROOT, check=True, capture_output=True
        )
        return time.monotonic() - began, 8 * HOW.max_time


if __name__ == "__main__":
    main()
