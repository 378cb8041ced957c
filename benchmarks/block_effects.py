# SPDX-License-Identifier: Apache-2.0
"""How often `tpcsweep effects` is right: families of made-up blocks with effects of 0, 5, 10 and 30 %.

A family compares one setting with the reference in 5 blocks of 6 cells, with a drift of 20 % between blocks, and luck
of 3 % of each deployment and 2 % of each cell. Run: `python -m benchmarks.block_effects`, 300 families for each effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import xarray as xr
from tpcsweep.analysis.block_effects import block_effects

from tests.support.blocks import made_up

FAMILIES, BLOCKS = 300, 5
EFFECTS = (0.0, 0.05, 0.1, 0.3)


@dataclass
class Counts:
    """How often the effect of a setting was found as built."""

    families: int = 0
    found: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("contained", "differs", "gain", "less", "undecided"), 0)
    )

    def add(self, family: xr.Dataset, built: float) -> None:
        """Estimate the effect in a dataset of two values of `tuning`, the reference first."""
        found = block_effects(family, "tuning")
        [row] = [row for row in found.rows if (row.axis, row.measure) == ("", "throughput")]
        self.families += 1
        self.found[found.verdict] += 1
        self.found["contained"] += row.low <= 1 + built <= row.high
        self.found["differs"] += any(row.differs or row.axis for row in found.rows)


def table(rows: Mapping[str, Counts]) -> str:
    """Return the shares of families in Markdown, a row for each built effect that has any."""
    lines = [
        "| built | families | interval contains it | difference found | gain of at least 10 % | less | undecided |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, counts in rows.items():
        if counts.families:
            shares = " | ".join(f"{count / counts.families:.0%}" for count in counts.found.values())
            lines.append(f"| {name} | {counts.families} | {shares} |")
    return "\n".join(lines)


def main() -> None:
    rows = {f"{effect:.0%}": Counts() for effect in EFFECTS}
    for effect, counts in zip(EFFECTS, rows.values(), strict=True):
        for seed in range(FAMILIES):
            counts.add(made_up({"stock": 0.0, "tuned": effect}, BLOCKS, seed), effect)
    print(table(rows))


if __name__ == "__main__":
    main()
