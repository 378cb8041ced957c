# SPDX-License-Identifier: Apache-2.0
"""The command `status`: counts of a sweep's cells."""

from __future__ import annotations

import os
from typing import Any

import click

from tpcsweep.cli.options import answer, as_json, load_study, study_options


@click.command()
@study_options
@click.option("--flag", metavar="FLAG", help="Print the files of the cells that carry this flag, one a line.")
@click.option(
    "--due", is_flag=True, help="Print the files of the links of a mesh whose turn it is, one a line."
)
@as_json
def status(flag: str | None, due: bool, as_json: bool, **options: str | None) -> None:
    """Count the cells of a sweep: measured, flagged, failed, left.

    During a run it adds the time left, the last cells and the deployment that is being measured.

    Example: tpcsweep status --sweep demo

    With --due these are the links that were measured longest ago, as many as the budget of the testbed allows.

    Measure the disturbed cells again: rm $(tpcsweep status --flag disturbed) && snakemake
    """
    from tpcsweep.data.flags import FLAGS
    from tpcsweep.running.status import (
        count_by_site,
        count_cells,
        due_files,
        flagged_files,
        run_under_way,
        status_table,
    )
    from tpcsweep.sweeps.problems import suggest

    if flag is not None and flag not in FLAGS:
        raise click.BadParameter(f"no flag {flag!r}: {suggest(flag, FLAGS)}", param_hint="--flag")
    study = load_study(**options)
    if due and not study.in_rounds:
        raise click.UsageError(f"--due: testbed {study.testbed_name} has no sites")
    if due or flag is not None:
        for file in due_files(study) if due else flagged_files(study, str(flag)):
            click.echo(os.fsencode(file))
        return
    counts = count_cells(study)
    run = run_under_way(study.folder)
    content: dict[str, Any] = {"study": study.folder.name, **counts.to_dict(), "run": run or None}
    if sites := [vars(one) for one in count_by_site(study)]:
        content["sites"] = sites
    answer(as_json, content, status_table(study, counts))
