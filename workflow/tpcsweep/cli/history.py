# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep history`."""

from __future__ import annotations

from pathlib import Path

import click

from tpcsweep.cli.common import as_json, dataset_of, reported


@click.command()
@click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS")
@click.option(
    "--fail-on",
    type=click.Choice(["change", "slower"]),
    help="Exit with 1 if the last run shows a change, or a slowdown, or a cell that failed.",
)
@as_json
def command(results: Path, fail_on: str | None, as_json: bool) -> None:
    """Find what changed over all runs of a sweep.

    The dataset of RESULTS is kept under its date in RESULTS/history, with the page of all runs, history.json and
    junit.xml.

    Example: tpcsweep history --fail-on slower results/demo
    """
    dataset = dataset_of(results)
    if dataset == results:
        raise click.UsageError(f"{results}: a history belongs to a results folder, not to a file.")
    from tpcsweep.extras import MissingExtraError
    from tpcsweep.history import failures, runs, summary
    from tpcsweep.pages import making

    folder = dataset.with_name(runs.FOLDER)
    with reported(runs.HistoryError, MissingExtraError, OSError):
        told = making.make_history(dataset, folder, fail_on)
    if as_json:
        click.echo((folder / "history.json").read_text(encoding="utf-8"))
    else:
        click.echo("\n".join([*summary(told), str((folder / making.PAGE).absolute())]))
    if found := failures(told, fail_on):
        click.echo("\n".join(["new since the last run:", *found]), err=True)
        raise SystemExit(1)
