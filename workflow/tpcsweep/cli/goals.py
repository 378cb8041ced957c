# SPDX-License-Identifier: Apache-2.0
"""The command `goals`: which links of a mesh reach their rates."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tpcsweep.cli.options import answer, as_json, find_results_dataset, results_or_file

EXIT_CODES = {"reached": 0, "not reached": 1, "not decided": 3}


@click.command()
@results_or_file
@click.argument("table", type=click.Path(path_type=Path), metavar="GOALS.csv")
@as_json
def goals(results: Path, table: Path, as_json: bool) -> None:
    """Judge whether the links of a mesh reach their goals.

    GOALS.csv has the columns source, destination and Gbit/s. The answer has the probability that one measurement
    reaches the goal and the fewest measured streams that reach it. Exit codes: 0 all goals are reached, 1 some are not,
    3 more measurements would decide.

    Example: tpcsweep goals results/mesh goals.csv
    """
    from rich.table import Table

    from tpcsweep.analysis.links import goals as judging
    from tpcsweep.data.opening import load

    dataset = find_results_dataset(results)
    summary = load(dataset)
    found = judging.judged_with_history(dataset, summary, table)
    shown = Table(*judging.HEADS, box=None)
    for row in judging.texts(found):
        shown.add_row(*row)
    verdict = judging.overall(found)
    content = {"verdict": verdict, "goals": [each.to_dict() for each in found]}
    answer(as_json, content, shown, judging.in_a_sentence(found))
    sys.exit(EXIT_CODES[verdict])
