"""The grid of a configuration for people, before it is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table

from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.parameters import Value, show_value
from tpcsweep.configuration.sweep import REPETITION, Cell, computing_seconds, expected_seconds


def summary(configuration: Configuration) -> str:
    """One line: demo on netns: 32 cells in 8 deployments (…), about 3 to 7 min."""
    grid = configuration.grid
    axes = " × ".join(f"{len(values)} {name}" for name, values in grid.axes.items() if name != REPETITION)
    cells, deployments = _count(len(grid.cells), "cell"), _count(len(grid.deployments), "deployment")
    parts = [axes] if axes else []
    parts.append(_count(configuration.sweep.repetitions, "repetition"))
    what = f"{cells} in {deployments} ({', '.join(parts)})"
    return f"{configuration.name} on {configuration.testbed_name}: {what}, {_expected(configuration)}"


def show(configuration: Configuration) -> None:
    """Print the table, as wide as the terminal."""
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.print(table(configuration))


def table(configuration: Configuration) -> RenderableType:
    """The summary, the axes with their values, and a row for each deployment with its cells.

    Deployments are in the order in which they are measured.
    """
    return Group(summary(configuration), _axes(configuration), _deployments(configuration))


def _axes(configuration: Configuration) -> Table:
    found = Table("axis", "values")
    for name, values in configuration.grid.axes.items():
        found.add_row(name, _values(name, values))
    return found


def _deployments(configuration: Configuration) -> Table:
    grid = configuration.grid
    order = sorted(grid.deployments, key=lambda path: -grid.rank[path])
    names = list(next(iter(grid.cells)).deployment.values)
    found = Table("order", *names, "cells", "with")
    for place, path in enumerate(order, start=1):
        cells = grid.deployments[path]
        values = cells[0].deployment.values
        shown = (show_value(name, values[name]) for name in names)
        found.add_row(str(place), *shown, str(len(cells)), _settings(cells, grid.axes))
    return found


def _settings(cells: Sequence[Cell], axes: Mapping[str, Sequence[Value]]) -> str:
    """The values that the cells of a deployment have on the other axes, in the order of the axes."""
    held = {
        name: {cell.setting.values[name] for cell in cells}
        for name in axes
        if name in cells[0].setting.values
    }
    shown = (f"{name} {_values(name, [v for v in axes[name] if v in held[name]])}" for name in held)
    return "; ".join(shown)


def _values(name: str, values: Iterable[Value]) -> str:
    return ", ".join(show_value(name, value) for value in values)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _expected(configuration: Configuration) -> str:
    testbed = configuration.testbed
    if testbed.simulated:
        seconds = computing_seconds(configuration.grid, testbed.deploy_seconds, testbed.cell_seconds)
        return f"simulated: about {_duration(seconds)} of CPU time"
    low, high = expected_seconds(configuration.grid, testbed.deploy_seconds, testbed.cell_seconds)
    return f"about {_duration(low)} to {_duration(high)}"


def _duration(seconds: float) -> str:
    """A duration to two digits or so: nobody can know it better beforehand."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
