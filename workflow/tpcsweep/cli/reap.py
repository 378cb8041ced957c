# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep reap`."""

from __future__ import annotations

import click

from tpcsweep.cli.common import as_json, load_study, print_json, reported, study_options


@click.command()
@study_options
@as_json
def command(as_json: bool, **options: str | None) -> None:
    """Remove the servers and paths that killed runs have left on a testbed.

    On this machine it needs root: the kernel removes the deployments of other users itself. Exit codes: 0 nothing is
    left, 2 something could not be removed, or a deployment is in use.

    Example: tpcsweep reap --testbed kubernetes
    """
    study = load_study(**options)
    from tpcsweep.running.runner import expected, reap

    with reported(*expected(study)):
        reaped = reap(study)
    if as_json:
        print_json({"testbed": study.testbed_name, "reaped": reaped})
    else:
        for thing in reaped or ["nothing was left"]:
            click.echo(f"reaped: {thing}")
