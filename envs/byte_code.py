"""Compile what jobs import, by importing it. Every job starts a Python, which without byte code costs seconds of CPU.

All of .venv would take four times as long, and most of it is never imported.
"""

import importlib
import pkgutil
import sys
from concurrent.futures import ProcessPoolExecutor

import tpcsweep

PROGRAMS = ("snakemake.cli", "papermill.cli", "nbconvert.nbconvertapp", "ipykernel.kernelapp")
"""What runs beside this package's own modules."""


def load(modules: list[str]) -> None:
    """Import modules; those that need an extra which is not there are left out."""
    sys.dont_write_bytecode = False
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            continue


if __name__ == "__main__":
    own = [found.name for found in pkgutil.walk_packages(tpcsweep.__path__, "tpcsweep.")]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(load, [list(PROGRAMS), own]))
