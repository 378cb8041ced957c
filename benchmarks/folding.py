# SPDX-License-Identifier: Apache-2.0
"""Seconds and memory of folding 10⁵ cell files into a dataset, against json and xarray alone.

python -m benchmarks.folding [CELLS]

The cells are synthetic, in the format of real ones: short simulated ones, and measured ones with 50 to 200 samples and
the transfers that ended in that time. They are on tmpfs, so that no disk is measured.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
import xarray as xr
import yaml
from tpcsweep.data import folding, tables
from tpcsweep.data.labels import SIMULATED
from tpcsweep.data.variables import ORIGIN_SAMPLES, SAMPLES, SUMMARY

from tests.support import synthetic

CELLS = 100_000
PLAIN = 2_000
"""Cells for json and xarray alone, which would need hours and tens of gigabytes for 10⁵."""
FLAVOURS = {"simulated": (SIMULATED, range(4, 21)), "measured": ("netns", range(50, 201))}
"""Kind of testbed, and number of samples of cells."""
TESTBED = Path(__file__).parents[1] / "config" / "testbeds" / "simulation.yaml"
BODIES = 61
"""Number of different file contents, a prime, so that they do not correlate with the axes."""


def main() -> None:
    """Print a table of both flavours, each folded in both ways."""
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else CELLS
    print(
        "| cells | files | kB each | by | wall s | CPU s | peak MB | dataset MB | ms a file | ratio of times |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for flavour in FLAVOURS:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            size = make(Path(folder), flavour, cells)
            each = {}
            for way, count in (("tpcsweep", cells), ("json and xarray", min(cells, PLAIN))):
                wall, cpu, peak, written = in_child(way, flavour, folder, cells, count)
                each[way] = wall / count
                ratio = each[way] / each["tpcsweep"]
                print(
                    f"| {flavour} | {count} | {size / cells / 1e3:.1f} | {way} | {wall:.1f} | {cpu:.1f} "
                    f"| {peak:.0f} | {written:.0f} | {each[way] * 1e3:.2f} | {ratio:.1f} |",
                    flush=True,
                )


def axes(cells: int) -> dict[str, tuple[Any, ...]]:
    """Return a grid of `cells` cells (a multiple of 1000) over origins, cores, RTT and streams."""
    return {
        "origins": tuple(range(1, 11)),
        "cores": tuple(float(n) for n in range(1, 11)),
        "rtt": tuple(float(n) for n in range(1, 11)),
        "streams": tuple(range(1, cells // 1000 + 1)),
        "repetition": (1,),
    }


def specifications(flavour: str, cells: int) -> Iterator[dict[str, Any]]:
    """Yield the specification of each cell, in the grid's order."""
    grid = axes(cells)
    for point in itertools.product(*grid.values()):
        yield synthetic.specification(dict(zip(grid, point, strict=True)), FLAVOURS[flavour][0], "large")


def file_of(folder: Path, spec: Mapping[str, Any]) -> Path:
    """Return a cell's file, as in results: one folder for each deployment."""
    given = spec["parameters"]
    deployment = "/".join(f"{name}={given[name]}" for name in ("origins", "cores", "rtt"))
    return folder / f"cells/{deployment}/streams={given['streams']}.json"


def make(folder: Path, flavour: str, cells: int) -> int:
    """Write the files, specification first as in real ones, and return their bytes."""
    bodies = {n: [body(flavour, n, seed) for seed in range(BODIES)] for n in axes(cells)["origins"]}
    written = 0
    for number, spec in enumerate(specifications(flavour, cells)):
        file = file_of(folder, spec)
        file.parent.mkdir(parents=True, exist_ok=True)
        content = (
            orjson.dumps({"spec": spec})[:-1] + b"," + bodies[spec["parameters"]["origins"]][number % BODIES]
        )
        written += file.write_bytes(content)
    return written


def body(flavour: str, origins: int, seed: int) -> bytes:
    """Return a cell file's content without specification and opening brace."""
    random = np.random.default_rng((origins, seed))
    kind, lengths = FLAVOURS[flavour]
    count = int(random.integers(lengths.start, lengths.stop))
    cell = synthetic.cell(synthetic.specification({"origins": origins, "repetition": 1}, kind))
    del cell["spec"]

    def numbers(many: int) -> list[float]:
        return [float(f"{value:.6g}") for value in random.gamma(4.0, 2.0, many)]

    cell["summary"] = dict(zip(SUMMARY, numbers(len(SUMMARY)), strict=True))
    cell["samples"] = {"time": [round(n * 0.1, 4) for n in range(1, count + 1)], "goodput": numbers(count)}
    many = 0
    if kind == SIMULATED:
        cell["provenance"]["simulation"] = yaml.safe_load(TESTBED.read_text())
    else:  # simulated cells lack the figures of kernels and tools
        many = count // 10
        cell["samples"] |= {name: numbers(count) for name in SAMPLES}
        cell["samples"] |= {name: [numbers(count) for _ in range(origins)] for name in ORIGIN_SAMPLES}
    cell["transfers"] = {name: values[:1] * many for name, values in cell["transfers"].items()}
    cell["transfers"] |= {name: numbers(many) for name in ("start", "first_byte", "end")}
    return orjson.dumps(cell)[1:]


def in_child(
    way: str, flavour: str, folder: str, cells: int, count: int
) -> tuple[float, float, float, float]:
    """Return wall and CPU seconds, peak MB of memory, and MB of the dataset, of one way in a child.

    CPU and memory include its child processes; shared memory is counted once.
    """
    command = [sys.executable, "-m", "benchmarks.folding", way, flavour, folder, str(cells), str(count)]
    began = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = psutil.Popen(command)
    peak = 0.0
    while child.poll() is None:
        time.sleep(0.2)
        peak = max(peak, memory(child))
    wall = time.monotonic() - began
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed with status {child.returncode}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, peak, (Path(folder) / "dataset.nc").stat().st_size / 1e6


def memory(process: psutil.Process) -> float:
    """Return the MB that a process and its children currently use."""
    taken = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
        for one in (process, *process.children(recursive=True)):
            taken += one.memory_full_info().pss / 1e6
    return taken


def folded(flavour: str, folder: Path, cells: int, count: int) -> None:
    """Fold like the workflow, checking every specification, and write dataset and table."""
    specs = itertools.islice(specifications(flavour, cells), count)
    processes = len(os.sched_getaffinity(0))
    wanted, named = itertools.tee(specs)
    made = folding.fold((file_of(folder, spec) for spec in named), axes(cells), wanted, processes)
    folding.write(made, folder / "dataset.nc")
    tables.write_table(made.summary, folder / "cells.csv")


def plain(flavour: str, folder: Path, cells: int, count: int) -> None:
    """Read each file with json into a dataset, and concatenate them with xarray along one dimension."""
    found = []
    for spec in itertools.islice(specifications(flavour, cells), count):
        cell = json.loads(file_of(folder, spec).read_text())
        samples = cell["samples"]
        content: dict[str, Any] = dict(cell["summary"])
        for name in SAMPLES.keys() & samples.keys():
            content[name] = ("time", np.array(samples[name], np.float32))
        for name in ORIGIN_SAMPLES:  # their number differs between cells, and concat does not align them
            for origin, row in enumerate(samples.get(name, ())):
                content[f"{name}_{origin}"] = ("time", np.array(row, np.float32))
        time_of = np.round(samples["time"], 1)
        found.append(xr.Dataset(content, {"time": time_of, **spec["parameters"]}))
    joined = xr.concat(found, "cell", join="outer", coords="all", data_vars="all", compat="override")
    joined.drop_vars([name for name, one in joined.variables.items() if one.dtype == object]).to_netcdf(
        folder / "dataset.nc"
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        ways = {"tpcsweep": folded, "json and xarray": plain}
        ways[sys.argv[1]](sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
