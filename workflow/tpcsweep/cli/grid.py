# SPDX-License-Identifier: Apache-2.0
"""The command `grid`: axes, cells, deployments and expected time of a sweep."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Any

import click

from tpcsweep.cli.options import answer, as_json, load_study, study_options
from tpcsweep.common.numbers import counted, short

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tpcsweep.sweeps.parameters import Value
    from tpcsweep.sweeps.study import SweepStudy
    from tpcsweep.testbeds.endpoints.settings import SiteUse


@click.command()
@study_options
@as_json
def grid(as_json: bool, **options: str | None) -> None:
    """Show the axes, cells, deployments and expected time of a sweep. Nothing is measured.

    Exit codes: 0 the testbed can run the sweep, 2 it cannot.

    Example: tpcsweep grid --sweep smoke
    """
    from tpcsweep.running.studies import require_runnable

    study = load_study(**options)
    require_runnable(study)
    axes = {name: list(values) for name, values in study.grid.axes.items()}
    cells = [cell.path for cell in study.grid.cells]
    content: dict[str, Any] = {"study": study.folder.name, "axes": axes, "cells": cells}
    if study.in_rounds:
        content["sites"] = [use._asdict() for use in _site_uses(study)]
    answer(as_json, content, grid_table(study))


def grid_table(study: SweepStudy) -> RenderableType:
    """Return the summary, the axes, and a row for each deployment in the order of measuring, or each site of a mesh."""
    from rich.console import Group
    from rich.table import Table

    from tpcsweep.running.changes import stale_lines
    from tpcsweep.running.short_cells import short_lines
    from tpcsweep.sweeps.parameters import show_value

    grid = study.grid
    axes = Table("axis", "values")
    for name, values in grid.axes.items():
        axes.add_row(name, _values(name, values))
    if study.in_rounds:
        lines = *stale_lines(study), *short_lines(study)
        return Group(grid_summary(study), axes, _sites_table(study), *lines)
    block = ["block"] if study.sweep.order == "blocks" else []
    deployments = Table("order", *block, *grid.cells[0].deployment.values, "cells", "with")
    ordered = sorted(grid.deployments, key=grid.priorities.__getitem__, reverse=True)
    for order, path in enumerate(ordered, start=1):
        cells = grid.deployments[path]
        shown = (show_value(name, value) for name, value in cells[0].deployment.values.items())
        settings = []
        for name in cells[0].setting.values:
            held = {cell.setting.values[name] for cell in cells}
            settings.append(f"{name} {_values(name, (value for value in grid.axes[name] if value in held))}")
        number = [str(cells[0].repetition)] if block else []
        deployments.add_row(str(order), *number, *shown, str(len(cells)), "; ".join(settings))
    return Group(grid_summary(study), axes, deployments, *stale_lines(study), *short_lines(study))


def _site_uses(study: SweepStudy) -> list[SiteUse]:
    from tpcsweep.testbeds.endpoints.settings import Endpoints

    assert isinstance(study.testbed, Endpoints)
    return study.testbed.uses(study.grid)


def _sites_table(study: SweepStudy) -> RenderableType:
    """Return the most links, time and bytes that a sweep asks of each site."""
    from rich.table import Table

    from tpcsweep.testbeds.rules import rounded

    table = Table("site", "links from", "links to", "busy for", "most bytes", "budget")
    for use in _site_uses(study):
        most = rounded(int(use.bytes)) if use.bytes < inf else "any number"
        budget = "" if use.budget is None else rounded(use.budget)
        busy = " to ".join(dict.fromkeys(map(_duration, (use.low, use.high))))
        table.add_row(use.name, str(use.sent), str(use.received), busy, most, budget)
    return table


def grid_summary(study: SweepStudy) -> str:
    """Describe the grid in one line: demo on netns: 32 cells in 8 deployments (…), about 3 to 7 min."""
    from tpcsweep.sweeps.sweep import REPETITION

    grid, testbed = study.grid, study.testbed
    axes = " × ".join(f"{len(values)} {name}" for name, values in grid.axes.items() if name != REPETITION)
    design = " of a two-level design" if study.sweep.design == "screening" else ""
    parts = [*([axes + design] if axes else []), counted(study.sweep.repetitions, "repetition")]
    cells, deployments = counted(len(grid.cells), "cell"), counted(len(grid.deployments), "deployment")
    if study.in_rounds:
        from tpcsweep.sweeps.tournament import in_rounds

        links = counted(len(grid.deployments), "link")
        deployments = f"{links} and {counted(len(in_rounds(grid)), 'round')}"
    low, high = testbed.expected_seconds(grid)
    expected = "about " + " to ".join(dict.fromkeys(map(_duration, (low, high))))
    if testbed.simulated:
        seconds = len(grid.deployments) * testbed.deploy_seconds + len(grid.cells) * testbed.cell_seconds
        expected = f"simulated: about {_duration(seconds)} of CPU time"
    if (most_bytes := testbed.most_bytes(grid)) is not None:
        from tpcsweep.testbeds.rules import rounded

        amount = f"at most {rounded(int(most_bytes))}" if most_bytes < inf else "any number of bytes"
        expected += f", {amount} moved"
    return f"{study.name} on {study.testbed_name}: {cells} in {deployments} ({', '.join(parts)}), {expected}"


def _values(name: str, values: Iterable[Value]) -> str:
    from tpcsweep.sweeps.parameters import show_value

    return ", ".join(show_value(name, value) for value in values)


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{short(seconds / size, 2)} {unit}"
    return f"{seconds:.0f} s"
