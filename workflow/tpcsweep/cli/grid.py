# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep grid`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tpcsweep.cli.common import as_json, load_study, print_json, show, study_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tpcsweep.configuration.loading import Configuration
    from tpcsweep.configuration.parameters import Value


@click.command()
@study_options
@as_json
def command(as_json: bool, **options: str | None) -> None:
    """Show the axes, cells, deployments and expected time of a sweep. Nothing is measured.

    Example: tpcsweep grid --sweep smoke
    """
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


def table(study: Configuration) -> RenderableType:
    """Return the summary, the axes with their values, and a row for each deployment with its cells.

    Deployments are in the order in which they are measured.
    """
    from rich.console import Group
    from rich.table import Table

    from tpcsweep.configuration.parameters import show_value

    grid = study.grid
    axes = Table("axis", "values")
    for name, values in grid.axes.items():
        axes.add_row(name, _values(name, values))
    deployments = Table("order", *grid.cells[0].deployment.values, "cells", "with")
    for order, path in enumerate(sorted(grid.deployments, key=grid.rank.__getitem__, reverse=True), start=1):
        cells = grid.deployments[path]
        shown = (show_value(name, value) for name, value in cells[0].deployment.values.items())
        settings = []
        for name in cells[0].setting.values:
            held = {cell.setting.values[name] for cell in cells}
            settings.append(f"{name} {_values(name, (value for value in grid.axes[name] if value in held))}")
        deployments.add_row(str(order), *shown, str(len(cells)), "; ".join(settings))
    return Group(summary(study), axes, deployments)


def summary(study: Configuration) -> str:
    """Describe the grid in a line: demo on netns: 32 cells in 8 deployments (…), about 3 to 7 min."""
    from tpcsweep.configuration.sweep import REPETITION, expected_seconds

    grid, testbed = study.grid, study.testbed
    axes = " × ".join(f"{len(values)} {name}" for name, values in grid.axes.items() if name != REPETITION)
    parts = [*([axes] if axes else []), _count(study.sweep.repetitions, "repetition")]
    cells, deployments = _count(len(grid.cells), "cell"), _count(len(grid.deployments), "deployment")
    low, high = expected_seconds(grid, testbed.deploy_seconds, testbed.cell_seconds)
    expected = f"about {_duration(low)} to {_duration(high)}"
    if testbed.simulated:
        seconds = len(grid.deployments) * testbed.deploy_seconds + len(grid.cells) * testbed.cell_seconds
        expected = f"simulated: about {_duration(seconds)} of CPU time"
    return f"{study.name} on {study.testbed_name}: {cells} in {deployments} ({', '.join(parts)}), {expected}"


def _values(name: str, values: Iterable[Value]) -> str:
    from tpcsweep.configuration.parameters import show_value

    return ", ".join(show_value(name, value) for value in values)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _duration(seconds: float) -> str:
    """A duration to two digits or so: nobody knows it better beforehand."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
