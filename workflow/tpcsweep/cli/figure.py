# SPDX-License-Identifier: Apache-2.0
"""The command `figure`: one figure of a dataset, with chosen axes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpcsweep.cli.options import find_results_dataset, output_option, require_format, results_or_file

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_KINDS = {"lines": "lines", "map": "heatmap", "limits": "limits", "surface": "surface"}
"""Functions of `pages.figures` by kind."""
_WITHOUT_AXES = ("cpu", "series", "matrix")


@click.command()
@results_or_file
@click.option(
    "--kind",
    type=click.Choice((*_KINDS, *_WITHOUT_AXES)),
    default="lines",
    show_default=True,
    help="What to draw: throughput as lines, map or surface; limits; CPU over throughput; goodput over time; the links "
    "of a mesh as matrix.",
)
@click.option("--x", metavar="AXIS", help="Horizontal axis, by default streams.")
@click.option(
    "--lines",
    "y",
    metavar="AXIS",
    help="Axis with a line for each value, or vertical axis of maps and surfaces.",
)
@click.option(
    "--panels",
    metavar="AXIS,AXIS",
    default="",
    help="Axes of panels: the first has columns, the next have rows. All other axes have rows, too.",
)
@output_option("FILE", "File to write: .pdf, .png or .svg; by default KIND.pdf.", dir_okay=False)
def figure(results: Path, kind: str, x: str | None, y: str | None, panels: str, output: Path | None) -> None:
    """Draw one figure of a dataset, for any axes.

    The workflow draws the same figures, with axes that it chooses.

    Example: tpcsweep figure results/demo --kind lines --x streams --lines rtt --panels cores,origins -o lines.pdf
    """
    from tpcsweep.data.opening import load
    from tpcsweep.pages import figures

    output = output or Path(f"{kind}.pdf")
    require_format(output)
    dataset = find_results_dataset(results)
    summary = load(dataset)
    names = [name.strip() for name in panels.split(",") if name.strip()]
    chosen = {"--x": [x] if x else [], "--lines": [y] if y else [], "--panels": names}
    if kind in _WITHOUT_AXES:
        if given := [option for option, axes in chosen.items() if axes]:
            raise click.UsageError(f"{given[0]}: only for --kind {', '.join(_KINDS)}.")
        drawn = _without_axes(kind, dataset, summary)
    else:
        _require_axes(chosen, summary)
        drawn = getattr(figures, _KINDS[kind])(summary, figures.Places(x, y, names))
    figures.write_figure(drawn, output)
    click.echo(f"written: {output.absolute()}")


def _without_axes(kind: str, dataset: Path, summary: xr.Dataset) -> Figure:
    """Draw a figure whose axes are fixed."""
    from tpcsweep.analysis.links.matrix_plots import matrix
    from tpcsweep.data.opening import load
    from tpcsweep.pages import figures

    if kind == "series":
        return figures.series(summary, load(dataset, "samples"))
    return figures.cpu(summary) if kind == "cpu" else matrix(summary)


def _require_axes(chosen: dict[str, list[str]], summary: xr.Dataset) -> None:
    """End the command if an option names no axis of the dataset, or one that another place has."""
    from tpcsweep.sweeps.problems import suggest
    from tpcsweep.sweeps.sweep import REPETITION

    known = [str(name) for name in summary["throughput"].dims if name != REPETITION]
    places: dict[str, str] = {}
    for option, axes in chosen.items():
        for axis in axes:
            if axis not in known:
                raise click.UsageError(
                    f"{option} {axis}: no axis of this dataset. Use {suggest(axis, known)}."
                )
            if axis in places:
                raise click.UsageError(f"{option} {axis}: {places[axis]} has it already. Use each axis once.")
            places[axis] = option
