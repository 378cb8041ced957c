# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep grid`."""

from __future__ import annotations

import click

from tpcsweep.cli.common import as_json, load_study, print_json, study_options


@click.command()
@study_options
@as_json
def command(as_json: bool, **options: str | None) -> None:
    """Show the axes, cells, deployments and expected time of a sweep. Nothing is measured.

    Example: tpcsweep grid --sweep smoke
    """
    from tpcsweep.configuration.overview import show, table

    study = load_study(**options)
    if as_json:
        print_json(
            {
                "study": study.folder.name,
                "axes": {name: list(values) for name, values in study.grid.axes.items()},
                "cells": [cell.path for cell in study.grid.cells],
            }
        )
    else:
        show(table(study))
