# SPDX-License-Identifier: Apache-2.0
"""The grid of a configuration for people, before it is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console, Group, RenderableType
from rich.table import Table

from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.parameters import Value, show_value
from tpcsweep.configuration.sweep import REPETITION, expected_seconds


def summary(configuration: Configuration) -> str:
    """Say it in one line: demo on netns: 32 cells in 8 deployments (…), about 3 to 7 min."""
    grid = configuration.grid
    axes = " × ".join(f"{len(values)} {name}" for name, values in grid.axes.items() if name != REPETITION)
    cells, deployments = _count(len(grid.cells), "cell"), _count(len(grid.deployments), "deployment")
    parts = [axes] if axes else []
    parts.append(_count(configuration.sweep.repetitions, "repetition"))
    grid_text = f"{cells} in {deployments} ({', '.join(parts)})"
    return f"{configuration.name} on {configuration.testbed_name}: {grid_text}, {expected(configuration)}"


def show(content: RenderableType) -> None:
    """Print a table, as wide as the terminal."""
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.print(content)


def listed(described: Mapping[str, str]) -> RenderableType:
    """Give names with what is said of them, a line each."""
    lines = Table.grid(padding=(0, 2))
    for name, text in described.items():
        lines.add_row(name, text)
    return lines


def table(configuration: Configuration) -> RenderableType:
    """Give the summary, the axes with their values, and a row for each deployment with its cells.

    Deployments are in the order in which they are measured.
    """
    grid = configuration.grid
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
    return Group(summary(configuration), axes, deployments)


def _values(name: str, values: Iterable[Value]) -> str:
    return ", ".join(show_value(name, value) for value in values)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def expected(configuration: Configuration) -> str:
    """Say how long its cells take, deployments included."""
    testbed = configuration.testbed
    if testbed.simulated:
        grid = configuration.grid
        seconds = len(grid.deployments) * testbed.deploy_seconds + len(grid.cells) * testbed.cell_seconds
        return f"simulated: about {_duration(seconds)} of CPU time"
    low, high = expected_seconds(configuration.grid, testbed.deploy_seconds, testbed.cell_seconds)
    return f"about {_duration(low)} to {_duration(high)}"


def _duration(seconds: float) -> str:
    """A duration to two digits or so: nobody can know it better beforehand."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
