# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep check`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tpcsweep.cli.common import as_json, load_study, print_json, study_options

if TYPE_CHECKING:
    from tpcsweep.configuration.loading import Configuration


@click.command()
@study_options
@as_json
def command(as_json: bool, **options: str | None) -> None:
    """Check whether this machine or cluster can run a sweep. Nothing is deployed.

    Prints a line for each finding. Exit codes: 0 the sweep can run, 1 it cannot, 2 a file is wrong.

    Example: tpcsweep check --sweep surface --testbed kubernetes
    """
    study = load_study(**options)
    found = findings(study)
    if as_json:
        print_json({"study": study.folder.name, "findings": found})
    else:
        for line in found or [f"{study.folder.name}: {study.testbed_name} can run all cells"]:
            click.echo(line)
    sys.exit(bool(found))


def findings(study: Configuration) -> list[str]:
    """List everything that keeps a sweep from its testbed."""
    from tpcsweep import testbeds
    from tpcsweep.configuration.checks import check, extras
    from tpcsweep.extras import missing
    from tpcsweep.running.runner import expected

    found = [*map(str, check(study)), *missing(extras(study))]
    try:
        testbeds.of(study.testbed.kind).require(study.testbed)
    except expected(study) as error:
        found.append(str(error))
    return found
