# SPDX-License-Identifier: Apache-2.0
"""The command `history`: changes over all runs of a sweep."""

from __future__ import annotations

from pathlib import Path

import click

from tpcsweep.cli.options import as_json, find_results_dataset


@click.command()
@click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS")
@click.option(
    "--fail-on",
    type=click.Choice(["change", "slower"]),
    help="Exit with 1 if the last run shows a change, or a slowdown, or a cell that failed or was not measured.",
)
@as_json
def history(results: Path, fail_on: str | None, as_json: bool) -> None:
    """Find the changes over all runs of a sweep.

    The dataset of RESULTS is kept under its date in RESULTS/history, with the page of all runs and
    history.json.

    Example: tpcsweep history --fail-on slower results/demo
    """
    dataset = find_results_dataset(results)
    if dataset == results:
        raise click.UsageError(f"{results}: a history belongs to a results folder, not to a file.")
    from tpcsweep.common.extras import require_extra

    require_extra("history")
    from tpcsweep.analysis.history import history_page, runs
    from tpcsweep.analysis.history.change_points import failures, summary
    from tpcsweep.pages import making

    folder = dataset.with_name(runs.FOLDER)
    changes = history_page.make_history(dataset, folder)
    if as_json:
        click.echo((folder / "history.json").read_bytes())
    else:
        click.echo("\n".join([*summary(changes), str((folder / making.PAGE).absolute())]))
    if failed := failures(changes, fail_on):
        click.echo("\n".join(["new since the last run:", *failed]), err=True)
        raise SystemExit(1)
