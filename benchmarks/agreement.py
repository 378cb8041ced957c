# SPDX-License-Identifier: Apache-2.0
"""Agreement of the same cells on network namespaces and on a cluster of the same machine.

    python -m benchmarks.agreement                  as root, on an idle machine; about a quarter of an hour
    python -m benchmarks.agreement --folder F       keeps both datasets, in F/results

Measures eight cells with three repetitions each, on the machine and then on three nodes of a temporary Kubernetes, with
the system's release of XRootD, the same paths, and the client next to the source on both. Prints a Markdown table with
the verdicts of `tpcsweep compare`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from tpcsweep.analysis.comparison import compare
from tpcsweep.analysis.sides import axis_text

from tests.cluster import local
from tests.cluster.sweeps import ClusterSweep, local_testbed, on, space
from tests.support.workflow import Sweep

RATE = 0.2
"""Gbit/s of the paths."""
LONGEST = 3600.0
"""Most seconds for each sweep, many times the need of an idle machine."""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("--folder", type=Path, help="else a temporary one")
    asked.add_argument("--repetitions", type=int, default=3)
    asked.add_argument("--seconds", type=float, default=10.0, help="of each cell")
    given = asked.parse_args()
    with contextlib.ExitStack() as undo:
        folder = given.folder or Path(undo.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        here = Sweep(folder, "agreement")
        with on_a_cluster(folder, here.name) as there:
            here.define(
                **content(local_testbed("")["congestion_controls"][0], given.repetitions, given.seconds)
            )
            for sweep in (here, there):
                dataset = sweep.results / "dataset.nc"
                done = sweep.run(str(dataset), timeout=LONGEST)
                if not dataset.exists():
                    sys.exit(done.stdout)
        tell(*(xr.load_dataset(sweep.results / "dataset.nc") for sweep in (here, there)))


def content(congestion_control: str, repetitions: int, seconds: float) -> dict[str, object]:
    """Return the sweep, with explicit values where the testbeds' defaults differ."""
    time = f"{seconds:g} s"
    return {
        "parameters": {
            "rtt": ["0 ms", "20 ms"],
            "cores": [0.15, 0.5],
            "streams": [1, 4],
            "bandwidth": RATE,
            "mtu": 9000,
            "congestion_control": congestion_control,
            "xrootd": "system",
            "tool": "curl",
            "file_size": "64 MiB",
        },
        "repetitions": repetitions,
        "measurement": {"min_time": time, "max_time": time},
    }


@contextlib.contextmanager
def on_a_cluster(folder: Path, name: str) -> Iterator[ClusterSweep]:
    """Yield the sweep with this name on a temporary cluster; the caller writes its file."""
    with (
        local.cluster(folder / "cluster", bandwidth=[RATE] * 3) as cluster,
        space(cluster.kubeconfig, "agreement") as made,
    ):
        sweep = made.sweep(folder, local_testbed(made.name, client=on("n1"), bandwidth=RATE))
        yield ClusterSweep(sweep.folder, name, kubeconfig=sweep.kubeconfig)


def tell(here: xr.Dataset, there: xr.Dataset) -> None:
    """Print throughputs, ratios, and figures that may explain differences."""
    found = compare(here, there, ("namespaces", "Kubernetes"))
    axes = list(found.alignment.axes)
    print(f"| {' | '.join(axes)} | namespaces, Gbit/s | Kubernetes, Gbit/s | ratio (95 %) | verdict |")
    print("|" + "---|" * (len(axes) + 4))
    for _, cell in found.cells.iterrows():
        print(f"| {' | '.join(row(axes, cell))} |")
    others = [axis for axis in axes if axis != "rtt"]
    for name in ("retransmits", "rtt_loaded"):
        medians = [side[name].median((*others, "repetition")) for side in (here, there)]
        for rtt in here["rtt"].values.tolist():
            values = " and ".join(f"{float(side.sel(rtt=rtt)):.3g}" for side in medians)
            print(f"\n{name} at {axis_text('rtt', rtt)}, medians: {values}")
    print(f"\n{found.summary()}")


def row(axes: list[str], cell: pd.Series) -> list[str]:
    ratio = f"{cell['ratio']:.2f} ({cell['ratio_low']:.2f} to {cell['ratio_high']:.2f})"
    rates = [f"{cell[side]:.3f}" for side in ("base", "new")]
    return [*(axis_text(name, cell[name]) for name in axes), *rates, ratio, cell["verdict"]]


if __name__ == "__main__":
    main()
