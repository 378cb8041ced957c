# SPDX-License-Identifier: Apache-2.0
"""The command `effects`: the gain of each value of a setting, by blocks."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tpcsweep.cli.options import Amount, answer, as_json, find_results_dataset, results_or_file

EXIT_CODES = {"gain": 0, "less": 1, "undecided": 3}


@click.command()
@results_or_file
@click.option("--of", "setting", metavar="AXIS", required=True, help="Axis whose values are compared.")
@click.option(
    "--reference", metavar="VALUE", help="Value that others are compared with; the first by default."
)
@click.option(
    "--at-least",
    type=Amount("GAIN"),
    metavar="SHARE",
    default=0.1,
    show_default="10%",
    help="Gain of throughput that is wanted.",
)
@as_json
def effects(results: Path, setting: str, reference: str | None, at_least: float, as_json: bool) -> None:
    """Estimate the gain of each value of a setting inside blocks.

    The repetitions of a sweep with order: blocks are compared in pairs, each with the reference of the same block.
    Exit codes: 0 a value gains at least that, 1 none does, 3 more blocks would decide.

    Example: tpcsweep effects results/tuning --of tuning --reference stock --at-least 10%
    """
    from rich.table import Table

    from tpcsweep.analysis import block_effects
    from tpcsweep.analysis.host_effects import host_notes
    from tpcsweep.common.numbers import CONFIDENCE, between, plain, short
    from tpcsweep.data.opening import load

    summary = load(find_results_dataset(results))
    found = block_effects.block_effects(summary, setting, reference, at_least)
    hosts = host_notes(summary, setting, found.reference)
    wanted = f"{plain(100 * at_least)} %"
    words = {"gain": f"gain of at least {wanted}", "less": f"less than {wanted}", "undecided": "undecided"}
    table = Table(
        setting, "at", "measure", "ratio", f"{CONFIDENCE:.0%} interval", "blocks", "verdict", box=None
    )
    for row in found.rows:
        at = f"{row.axis} {row.at}" if row.axis else "all cells"
        verdict = words[row.verdict] if row.verdict else "differs" if row.differs else "no difference found"
        if row.verdict == "undecided":
            more = f"over {block_effects.MOST_BLOCKS}" if row.further_blocks is None else row.further_blocks
            verdict += f": {more} more blocks would decide"
        interval = between(row.low, row.high)
        measure = block_effects.MEASURES[row.measure]
        table.add_row(row.value, at, measure, short(row.ratio), interval, str(row.blocks), verdict)
    heading = f"ratios over {setting} {found.reference}, inside blocks"
    answer(as_json, {**block_effects.to_dict(found), "hosts": hosts}, heading, table, *found.notes, *hosts)
    sys.exit(EXIT_CODES[found.verdict])
