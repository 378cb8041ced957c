# SPDX-License-Identifier: Apache-2.0
"""Seconds and memory of `snakemake -n` for 10⁴ and 10⁵ cells, ten in each deployment.

python benchmarks/planning.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
GRIDS = {
    10_000: {"rtt": range(1, 101), "tcp_buffer": range(1, 11), "streams": range(1, 11)},
    100_000: {"rtt": range(1, 101), "tcp_buffer": range(1, 101), "streams": range(1, 11)},
}


def main() -> None:
    print("| cells | deployments | wall s | CPU s | peak MB |\n|---|---|---|---|---|")
    for cells, axes in GRIDS.items():
        with tempfile.TemporaryDirectory() as folder:
            sizes = [f"{n} MiB" for n in axes["tcp_buffer"]]
            parameters = {name: list(values) for name, values in axes.items()} | {"tcp_buffer": sizes}
            sweep = Path(folder) / "large.yaml"
            sweep.write_text(
                yaml.safe_dump({"parameters": {**parameters, "file_size": "1 MiB"}, "max_cells": cells})
            )
            wall, cpu, peak = plan(sweep, folder)
        print(f"| {cells} | {cells // 10} | {wall:.1f} | {cpu:.1f} | {peak:.0f} |", flush=True)


def plan(sweep: Path, results: str) -> tuple[float, float, float]:
    """Return wall and CPU seconds and peak memory in MB of one dry run."""
    command = [sys.executable, "-m", "snakemake", "-n", "cells", "--quiet", "all", "--config"]
    began = time.monotonic()
    child = subprocess.Popen(
        [*command, f"sweep={sweep}", f"results={results}"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"snakemake -n failed with status {status}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


if __name__ == "__main__":
    main()
