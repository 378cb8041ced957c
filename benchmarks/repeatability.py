# SPDX-License-Identifier: Apache-2.0
"""Agreement of two runs of the same sweep (A/A test), by `tpcsweep compare`.

    python -m benchmarks.repeatability                            the demo twice, in different order; as root
    python -m benchmarks.repeatability --sweep FILE.yaml          another sweep
    python -m benchmarks.repeatability --against TREE             first the same in another checkout, set up on its own
    python -m benchmarks.repeatability --datasets FOLDER FOLDER   two existing runs, as folders of results

Prints a Markdown table: first measurements, results after repeating disturbed cells, and cells without a warning.
Nominal are 5 % of cells called different, and a mean ratio of 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xarray as xr
import yaml
from tpcsweep.analysis.comparison import Comparison, compare
from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.data.flags import graded
from tpcsweep.data.labels import STATUS
from tpcsweep.data.run_effects import NOT_COMPARABLE

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = (
    "runs",
    "cells compared",
    "called different",
    "share",
    "after correction",
    "median half-width of intervals",
    "median difference",
    "largest",
    "mean ratio (95 %)",
)
FIGURES = ("throughput", "throughput_low", "throughput_high", "throughput_freedom")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("--sweep", type=Path, default=ROOT / "config/sweeps/demo.yaml")
    asked.add_argument("--against", type=Path, metavar="TREE")
    asked.add_argument("--datasets", type=Path, nargs=2, metavar="FOLDER")
    given = asked.parse_args()
    print("|" + " | ".join(COLUMNS) + "|\n|" + "---|" * len(COLUMNS))
    if given.datasets:
        tell("", given.datasets)
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.against:
            tell(
                "before: ", [run(given.against, given.sweep, seed, Path(folder, "before")) for seed in (1, 2)]
            )
        tell("", [run(ROOT, given.sweep, seed, Path(folder, "now")) for seed in (1, 2)])


def run(tree: Path, sweep: Path, seed: int, folder: Path) -> Path:
    """Run a sweep in the order of a seed; return the folder of its results."""
    content = yaml.safe_load(sweep.read_text()) | {"seed": seed}
    name = f"order-{seed}"
    (folder / name).mkdir(parents=True)
    file = folder / name / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content))
    command = [tree / ".venv/bin/snakemake" if tree != ROOT else Path(sys.executable).with_name("snakemake")]
    done = subprocess.run(
        [*command, "--config", f"sweep={file}", f"results={folder}", "--", str(folder / name / "dataset.nc")],
        cwd=tree,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if not (folder / name / "dataset.nc").exists():
        sys.exit(done.stderr)
    return folder / name


def tell(prefix: str, folders: list[Path]) -> None:
    """Print the rows of two runs."""
    pairs = [(first(folder), kept(folder)) for folder in folders]
    for what, at in (("as first measured", 0), ("after measuring once more", 1)):
        found = compare(*(pair[at] for pair in pairs))
        print(row(prefix + what, found), flush=True)
    print(row(f"{prefix}of these, no warning", unwarned(found)), flush=True)


def kept(folder: Path) -> xr.Dataset:
    return xr.load_dataset(folder / "dataset.nc")


def first(folder: Path) -> xr.Dataset:
    """Return a run's dataset with each cell's first measurement."""
    summary = kept(folder)
    for file in (folder / "cells").rglob("*.json"):
        cell = orjson.loads(file.read_bytes())
        others = sorted(cell.get("others", []), key=lambda one: one["started"])
        if others and others[0]["started"] < cell["provenance"]["started"]:
            at = place(summary, cell["spec"])
            for name in FIGURES:
                value = others[0].get(name)
                summary[name].loc[at] = np.nan if value is None else value
            summary["status"].loc[at] = STATUS.index(others[0]["status"])
    return summary


def place(summary: xr.Dataset, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the position of a cell in its dataset."""
    known = spec["parameters"] | {"repetition": spec["repetition"]}
    return {str(name): known[str(name)] for name in summary["throughput"].dims}


def unwarned(found: Comparison) -> Comparison:
    """Return the comparison of cells without a warning on either side."""
    cells = found.cells
    flags = (cells["base_flags"] + " " + cells["new_flags"]).str.split()
    good = [not graded(one, "warning", "invalid") for one in flags]
    return replace(found, cells=cells[good])


def row(what: str, found: Comparison) -> str:
    cells = found.cells[found.cells["verdict"] != NOT_COMPARABLE]
    if len(cells) < 2:
        return "|" + " | ".join([what, str(len(cells)), *["—"] * (len(COLUMNS) - 2)]) + "|"
    logs = cells["log_ratio"].to_numpy(float)
    error = float(np.std(logs, ddof=1) / np.sqrt(len(logs)))
    mean, ends = np.exp(logs.mean()), np.exp(logs.mean() + np.array([-1.96, 1.96]) * error)
    # of one measurement, not of the difference of two
    half = np.median(cells["error"].to_numpy(float)) / np.sqrt(2) * 1.96
    different = int((cells["p"] < 1 - CONFIDENCE).sum())
    corrected = int((cells["p_corrected"] < 1 - CONFIDENCE).sum())
    values = (
        what,
        str(len(cells)),
        str(different),
        f"{different / len(cells):.1%}",
        str(corrected),
        f"±{half:.1%}",
        f"{np.median(np.abs(np.expm1(logs))):.1%}",
        f"{np.abs(np.expm1(logs)).max():.0%}",
        f"{mean:.3f} ({ends[0]:.3f} to {ends[1]:.3f})",
    )
    return "|" + " | ".join(values) + "|"


if __name__ == "__main__":
    main()
