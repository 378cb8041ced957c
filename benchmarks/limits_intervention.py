# SPDX-License-Identifier: Apache-2.0
"""The throughput of cells after one parameter was raised by half, by the limit that bound them before.

    python -m benchmarks.limits_intervention FILE        as root, seven minutes on an idle machine
    python -m benchmarks.limits_intervention table FILE  the table of a FILE that was measured before

If the named limit binds, raising it raises the throughput, and raising another one does not. Each base cell is built
for one limit. It is measured, then measured again with each of five parameters raised by half, then once more as it
was, which shows how far two measurements of one cell differ. FILE is a CSV with one row for each measurement.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from tpcsweep.sweeps.sweep import Measurement

from tests.support.constructions import quota
from tests.support.sites import MIB, cell, site_of

MORE = 1.5
SECONDS = 7.0
DEPLOYED = ("bandwidth", "tcp_buffer")
"""Parameters that take another deployment."""
RAISED = ("bandwidth", "tcp_buffer", "cores", "file_size", "streams")
BASE = {
    "tool": "curl",
    "rtt": 5.0,
    "bandwidth": 0.3,
    "tcp_buffer": 16 * MIB,
    "file_size": 64 * MIB,
    "streams": 4,
}
CELLS: Mapping[str, Mapping[str, Any]] = {
    "bandwidth": {},
    "window": {"rtt": 50.0, "tcp_buffer": MIB, "bandwidth": 0.8, "file_size": 256 * MIB, "streams": 2},
    "cpu_source": {"bandwidth": 1.0, "source": 0.04},
    "cpu_destination": {"bandwidth": 1.0, "destination": 0.1},
    "between_files": {"rtt": 80.0, "file_size": MIB, "streams": 2},
}
"""What differs from `BASE`, by the limit that a cell is built for; `source` and `destination` are cores of a side."""


def measured(limit: str) -> Iterator[dict[str, Any]]:
    """Yield a row for the base cell of a limit, for each raised parameter, and for the base cell again."""
    base = {**BASE, **CELLS[limit]}
    sides = {side: base.pop(side) for side in ("source", "destination") if side in base}
    streams = round(MORE * base["streams"])
    for changed in (None, *DEPLOYED):
        found = {**base, **({changed: base[changed] * MORE} if changed else {})}
        found = {
            name: int(value) if name in ("tcp_buffer", "file_size", "streams") else value
            for name, value in found.items()
        }
        deployment = {name: found[name] for name in ("rtt", *DEPLOYED)}
        with (
            tempfile.TemporaryDirectory() as folder,
            site_of(Path(folder), streams=streams, **deployment) as site,
        ):
            cells: list[tuple[str, Mapping[str, Any], float]] = [(changed or "", {}, 1.0)]
            if not changed:
                cells += [
                    ("file_size", {"file_size": int(base["file_size"] * MORE)}, 1.0),
                    ("streams", {"streams": streams}, 1.0),
                ]
                cells += [("cores", {}, MORE)] if sides else []
                cells.append(("", {}, 1.0))
            for raised, other, factor in cells:
                yield _row(
                    site,
                    limit,
                    raised,
                    {**found, **other},
                    {side: cores * factor for side, cores in sides.items()},
                )


def _row(
    site: Any, limit: str, raised: str, wanted: Mapping[str, Any], cores: Mapping[str, float]
) -> dict[str, Any]:
    how = Measurement(until="seconds", seconds=SECONDS)
    for side, number in cores.items():
        with quota({"source": "src", "destination": "dst"}[side], number)(site):
            found = cell(site, how, **wanted)
    if not cores:
        found = cell(site, how, **wanted)
    summary = found["summary"]
    return {
        "built": limit,
        "raised": raised,
        "found": found["limit"],
        "second": found["limit_second"],
        **{
            name: summary[name]
            for name in ("throughput", "throughput_low", "throughput_high", f"share_{limit}")
        },
        "flags": " ".join(found["flags"]),
    }


def table(rows: pd.DataFrame) -> None:
    """Print the throughput after raising each parameter over that of the base cell, by limit."""
    print("| limit | Gbit/s | again | " + " | ".join(RAISED) + " |\n" + "|---" * (len(RAISED) + 3) + "|")
    for limit, some in rows.fillna({"raised": ""}).groupby("built", sort=False):
        base, again = some[some["raised"] == ""]["throughput"]
        means = some[some["raised"] != ""].set_index("raised")["throughput"] / base
        cells = [f"{means[name]:.2f}" if name in means else "" for name in RAISED]
        print(f"| `{limit}` | {base:.3g} | {again / base:.2f} | " + " | ".join(cells) + " |")


def main() -> None:
    """Measure all cells, or read them, and print the table."""
    if sys.argv[1] != "table":
        rows = pd.DataFrame([row for limit in CELLS for row in measured(limit)])
        rows.to_csv(sys.argv[1], index=False)
    table(pd.read_csv(sys.argv[-1]))


if __name__ == "__main__":
    main()
