# SPDX-License-Identifier: Apache-2.0
"""Gains in a dataset from raising one axis, by the limit before.

    python -m benchmarks.limits_intervention DATASET

If the named limit binds, raising its axis (streams for `window`, cores for `cpu_source` and `cpu_destination`) raises
the throughput, and raising another axis does not. Each pair of neighbouring cells along an axis is one intervention;
cells whose largest share is below `LEAST` are skipped, because two limits bind them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator

import xarray as xr
from tpcsweep.variables import SHARES

AXES = ("streams", "cores", "origins")
LEAST = 0.5


def interventions(summary: xr.Dataset) -> Iterator[tuple[str, str, float]]:
    """Yield each cell's limit, the axis that its neighbour has more of, and the gain in throughput."""
    largest = summary[[*SHARES.values()]].to_array().max("variable")
    for axis in AXES:
        if axis not in summary.dims or summary.sizes[axis] < 2:
            continue
        before, after = summary.isel({axis: slice(-1)}), summary.isel({axis: slice(1, None)})
        ratio = after["throughput"].values / before["throughput"].values
        certain = largest.transpose(*summary["throughput"].dims).isel({axis: slice(-1)}).values >= LEAST
        for limit, gained, counts in zip(
            before["limit"].values.ravel(), ratio.ravel(), certain.ravel(), strict=True
        ):
            if counts and limit and gained == gained:
                yield limit, axis, float(gained)


def main() -> None:
    """Print the median ratio, its range and the number of pairs, by limit and axis."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for limit, axis, ratio in interventions(xr.load_dataset(sys.argv[1])):
        found[limit, axis].append(ratio)
    print(
        "| limit | " + " | ".join(f"more {axis}" for axis in AXES) + " |\n" + "|---" * (len(AXES) + 1) + "|"
    )
    for limit in dict.fromkeys(limit for limit, _ in found):
        cells = [sorted(found[limit, axis]) for axis in AXES]
        texts = [f"{x[len(x) // 2]:.2f} ({x[0]:.2f} to {x[-1]:.2f}, {len(x)})" if x else "" for x in cells]
        print(f"| `{limit}` | " + " | ".join(texts) + " |")


if __name__ == "__main__":
    main()
