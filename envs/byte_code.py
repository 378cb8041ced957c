# SPDX-License-Identifier: Apache-2.0
"""Compile what jobs import, by importing it. Every job starts a Python, which without byte code costs seconds of CPU.

All of .venv would take three times the CPU time, and most of it is never imported.
"""

import importlib
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1] / "workflow"
PROGRAMS = (
    "snakemake.cli",
    "snakemake.report.html_reporter",
    "nbconvert.nbconvertapp",
    "ipykernel.kernelapp",
)
"""What runs beside this package's own modules."""


def own() -> list[str]:
    """The modules of this package."""
    files = sorted(path.relative_to(PACKAGES) for path in PACKAGES.glob("tpcsweep/**/*.py"))
    return [".".join(path.with_suffix("").parts) for path in files if path.stem != "__init__"]


def load(modules: list[str]) -> None:
    """Import modules but those that need an extra which is not there."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            continue


if __name__ == "__main__":
    sys.dont_write_bytecode = False
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(load, [list(PROGRAMS), own()]))
