# SPDX-License-Identifier: Apache-2.0
"""How often plans suffice and how often they answer: on hidden laws, and on datasets with cells left out.

python -m benchmarks.plans [SEEDS] [FILE.nc …]

Prints one table. Needs minutes of one CPU for each seed; nothing is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import xarray as xr

from tests.support.plans import LARGE, LAWS, SMALL, Luck, judged, on_law, on_left_out

ROOT = Path(__file__).resolve().parents[1]


def tables(seeds: int, files: list[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    for name, axes in (("24 cells", SMALL), ("216 cells", LARGE)):
        rows = [row for law in LAWS for seed in range(seeds) for row in on_law(law, axes, Luck(), seed)]
        for where, some in judged(pd.DataFrame(rows)).groupby("where"):
            yield f"laws, {name}, RTT {where}", some
    for file in [str(ROOT / "examples/surface.nc"), *files]:
        ds = xr.load_dataset(file)
        rows = [row for seed in range(seeds) for row in on_left_out(ds, seed)]
        some = pd.DataFrame(rows).rename(columns={"reached": "sufficient"})
        yield f"{Path(file).name}, a quarter left out", some.assign(cheap=some["cores"] <= 1.25)


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print("| data | stated | questions | answered | sufficient | at most 25 % more cores |")
    print("|---|---|---|---|---|---|")
    for name, rows in tables(seeds, sys.argv[2:]):
        for stated, some in rows.groupby("stated"):
            answers = some[some["answered"]].astype({"sufficient": float, "cheap": float})
            shares = (some["answered"].mean(), answers["sufficient"].mean(), answers["cheap"].mean())
            shown = " | ".join(f"{100 * share:.0f} %" for share in shares)
            print(f"| {name} | {100 * stated:.0f} % | {len(some)} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
