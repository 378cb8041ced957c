# SPDX-License-Identifier: Apache-2.0
"""How often `tpcsweep effects` is right: families of made-up blocks with effects of 0, 5, 10 and 30 %.

A family compares one setting with the reference in 5 blocks of 6 cells, with a drift of 20 % between blocks, and luck
of 3 % of each deployment and 2 % of each cell. Run: `python -m benchmarks.block_effects`, 300 families for each effect.
"""

from __future__ import annotations

from tpcsweep.analysis.block_effects import block_effects

from tests.support.blocks import made_up

FAMILIES, BLOCKS = 300, 5
EFFECTS = (0.0, 0.05, 0.1, 0.3)


def main() -> None:
    print("| built | interval contains it | difference found | gain of at least 10 % | less | undecided |")
    print("|---|---|---|---|---|---|")
    for effect in EFFECTS:
        counts = dict.fromkeys(("contained", "differs", "gain", "less", "undecided"), 0)
        for seed in range(FAMILIES):
            found = block_effects(made_up({"stock": 0.0, "tuned": effect}, BLOCKS, seed), "tuning")
            [row] = [row for row in found.rows if (row.axis, row.measure) == ("", "throughput")]
            counts[found.verdict] += 1
            counts["contained"] += row.low <= 1 + effect <= row.high
            counts["differs"] += any(row.differs or row.axis for row in found.rows)
        shares = " | ".join(f"{count / FAMILIES:.0%}" for count in counts.values())
        print(f"| {effect:.0%} | {shares} |")


if __name__ == "__main__":
    main()
