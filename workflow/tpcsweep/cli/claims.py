# SPDX-License-Identifier: Apache-2.0
"""The command `claims`: verdicts on published claims."""

from __future__ import annotations

from pathlib import Path

import click

from tpcsweep.cli.options import answer, as_json, find_results_dataset, results_or_file


@click.command()
@results_or_file
@click.option("--all", "every", is_flag=True, help="List the claims that the dataset cannot test, too.")
@as_json
def claims(results: Path, every: bool, as_json: bool) -> None:
    """Judge each published claim on a dataset.

    A claim holds, does not hold, or is not decided. With --json every verdict is printed, with its evidence.

    Example: tpcsweep claims results/demo
    """
    dataset = find_results_dataset(results)
    from tpcsweep.analysis.claims.claim import for_terminal
    from tpcsweep.analysis.claims.judging import judge
    from tpcsweep.data.opening import load

    verdicts = judge(load(dataset))
    content = [verdict.to_dict() for verdict in verdicts]
    answer(as_json, content, for_terminal(verdicts, every))
