# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep status`."""

from __future__ import annotations

import click

from tpcsweep.cli.common import as_json, load_study, print_json, show, study_options


@click.command()
@study_options
@click.option("--flag", metavar="FLAG", help="Print the files of the cells that carry this flag, one a line.")
@as_json
def command(flag: str | None, as_json: bool, **options: str | None) -> None:
    """Count the cells of a sweep: measured, flagged, failed, not measured, left.

    Example: tpcsweep status --sweep demo

    Measure the disturbed cells again: rm $(tpcsweep status --flag disturbed) && snakemake
    """
    from tpcsweep.running import status

    study = load_study(**options)
    if flag is not None:
        for file in status.flagged_files(study, flag):
            click.echo(file)
        return
    counts = status.counted(study)
    if as_json:
        print_json({"study": study.folder.name, **counts.to_dict()})
        return

    show(status.table(study, counts))
