# SPDX-License-Identifier: Apache-2.0
"""Seconds and memory of `snakemake` for 10⁵ simulated cells, from a sweep's file to its page.

python -m benchmarks.chain [CELLS] [TARGET ...]

Results are written to a temporary folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

CELLS = 100_000
EACH = 100
"""Number of values of streams."""
ROOT = Path(__file__).parents[1]


def main() -> None:
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else CELLS
    with tempfile.TemporaryDirectory(prefix="chain-") as name:
        folder = Path(name)
        (folder / "chain.yaml").write_text(yaml.safe_dump(sweep(cells), sort_keys=False))
        wall, cpu, peak = run(folder, sys.argv[2:])
        found = folder / "results" / "chain@simulation"
        written = sum(file.stat().st_size for file in found.rglob("*") if file.is_file())
        print("| cells | wall min | CPU min | peak MB | files | dataset MB | all MB |")
        print("|---|---|---|---|---|---|---|")
        print(
            f"| {cells} | {wall / 60:.1f} | {cpu / 60:.1f} | {peak:.0f} "
            f"| {sum(1 for _ in found.rglob('*'))} | {(found / 'dataset.nc').stat().st_size / 1e6:.0f} "
            f"| {written / 1e6:.0f} |"
        )


def sweep(cells: int) -> dict[str, object]:
    """Return a sweep of `cells` cells (a multiple of 2000) over origins, cores, RTT and streams."""
    rtts = cells // EACH // 20
    return {
        "description": "As many cells as anyone is likely to ask for.",
        "max_cells": max(cells, 10_000),
        "parameters": {
            "origins": [1, 2, 4, 8],
            "cores": [8, 16, 32, 64, 128],
            "rtt": [f"{120 * (number + 1) / rtts:g} ms" for number in range(rtts)],
            "bandwidth": "400 Gbit/s",
            "tcp_buffer": "512 MiB",
            "file_size": "1 GB",
            "streams": [5 * (number + 1) for number in range(EACH)],
        },
    }


def run(folder: Path, targets: list[str]) -> tuple[float, float, float]:
    """Return wall and CPU seconds of Snakemake and its processes, and the MB of the largest process."""
    config = {
        "sweep": folder / "chain.yaml",
        "testbed": "simulation",
        "results": folder / "results",
    }
    given = [f"{name}={value}" for name, value in config.items()]
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *targets, "--config", *given]
    began = time.monotonic()
    child = subprocess.Popen(command, cwd=ROOT)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - began
    if status:
        raise SystemExit(f"{' '.join(command)} failed with status {status}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


if __name__ == "__main__":
    main()
