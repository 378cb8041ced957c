# SPDX-License-Identifier: Apache-2.0
"""The command `effects`: the gain of each value of a setting, by blocks."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tpcsweep.cli.options import (
    Amount,
    answer,
    as_json,
    find_results_dataset,
    output_option,
    require_format,
    results_or_file,
)

EXIT_CODES = {"gain": 0, "less": 1, "undecided": 3}


@click.command()
@results_or_file
@click.option(
    "--of",
    "setting",
    metavar="AXIS",
    help="Axis whose values are compared; by default all settings of hosts.",
)
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
@output_option("FILE", "Figure to write: .pdf, .png or .svg.", dir_okay=False)
@as_json
def effects(
    results: Path,
    setting: str | None,
    reference: str | None,
    at_least: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Estimate the gain of each value of a setting inside blocks.

    The repetitions of a sweep with order: blocks are compared in pairs, each with the reference of the same block.
    With design: screening, each setting has one effect over the runs of the design.
    Exit codes: 0 a value gains at least that, 1 none does, 3 more blocks would decide.

    Example: tpcsweep effects results/tuning --of tuning --reference stock --at-least 10%
    """
    from rich.table import Table

    from tpcsweep.analysis import block_effects
    from tpcsweep.analysis.host_effects import host_notes
    from tpcsweep.common.numbers import CONFIDENCE, between, short
    from tpcsweep.data.opening import load

    if output is not None:
        require_format(output)
    summary = load(find_results_dataset(results))
    found = block_effects.block_effects(summary, setting, reference, at_least)
    names = (
        "setting",
        "value",
        "reference",
        "at",
        "measure",
        "ratio",
        f"{CONFIDENCE:.0%} interval",
        "blocks",
    )
    table = Table(*names, "verdict", box=None)
    for row in found.rows:
        at = f"{row.axis} {row.at}" if row.axis else "all cells"
        measure, interval = block_effects.MEASURES[row.measure], between(row.low, row.high)
        cells = (row.setting, row.value + row.also, row.reference, at, measure, short(row.ratio), interval)
        table.add_row(*cells, str(row.blocks), block_effects.verdict_text(row, at_least))
    hosts = [note for name, over in found.references.items() for note in host_notes(summary, name, over)]
    content = {**block_effects.to_dict(found), "hosts": hosts}
    answer(as_json, content, "ratios inside blocks", table, *found.notes, *hosts)
    if output is not None:
        from tpcsweep.analysis.effects_plots import forest
        from tpcsweep.pages.figures import write_figure

        write_figure(forest(summary, found), output)
        click.echo(f"written: {output.absolute()}", err=as_json)
    sys.exit(EXIT_CODES[found.verdict])
