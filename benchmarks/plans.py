# SPDX-License-Identifier: Apache-2.0
"""How often plans suffice and how often they answer: on hidden laws, and on datasets with cells left out.

python -m benchmarks.plans [SEEDS] [FILE.nc …]

Prints one table: for each probability the number of questions, the share of them with an answer, the share of answers
that suffice, and the share of questions with an answer that needs at most 25 % more cores than the cheapest sufficient
setting. Needs two minutes of one CPU for each seed; nothing is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import xarray as xr

from tests.support.plans import LARGE, LAWS, SMALL, Luck, judged, made_up, on_law, on_left_out

ROOT = Path(__file__).resolve().parents[1]
FIRST = 10  # first seed; tests have 0, 1 and 5


def tables(seeds: range, files: list[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    for name, axes in (("24 cells", SMALL), ("216 cells", LARGE)):
        rows = [row for law in LAWS for seed in seeds for row in on_law(law, axes, Luck(), seed)]
        for where, some in judged(pd.DataFrame(rows)).groupby("where", sort=False):
            yield f"laws, {name}, RTT {where}", some
    made = [
        row for seed in seeds for row in on_left_out(made_up("windows and cores", SMALL, Luck(), seed), seed)
    ]
    yield "a law, 24 cells, a quarter left out", judged(pd.DataFrame(made))
    for file in [str(ROOT / "examples/surface.nc"), *files]:
        ds = xr.load_dataset(file)
        rows = [row for seed in seeds for row in on_left_out(ds, seed)]
        yield f"{Path(file).name}, a quarter left out", judged(pd.DataFrame(rows))


def main() -> None:
    seeds = range(FIRST, FIRST + (int(sys.argv[1]) if len(sys.argv) > 1 else 3))
    print("| data | stated | questions | answered | sufficient | answered, at most 25 % more cores |")
    print("|---|---|---|---|---|---|")
    for name, rows in tables(seeds, sys.argv[2:]):
        for stated, some in rows.groupby("stated"):
            shares = (some["answered"], some["sufficient"].dropna(), some["cheap"].fillna(0))
            shown = " | ".join(f"{100 * share.astype(float).mean():.0f} %" for share in shares)
            print(f"| {name} | {100 * stated:.0f} % | {len(some)} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
