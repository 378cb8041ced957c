# SPDX-License-Identifier: Apache-2.0
"""400Gbps benchmark of XRootD HTTP-TPC (CHEP 2023): figures 3 and 4."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tpcsweep.figures.grid import arrange, positions, spaced
from tpcsweep.figures.labels import band_note, mean_note, rate_label, title_of
from tpcsweep.figures.panels import COLOURS, mark_handles, styled
from tpcsweep.figures.surfaces import panel
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.layout import against_streams, board, close

if TYPE_CHECKING:
    from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]


_BAND = "#555555"
_RTTS = [0, 1, 3, 6]  # of seven: others would cover these
_STREAMS = 4


@styled()
def _surfaces(data: Data, shown: Shown) -> Figure:
    """Draw a surface over streams × RTT for each cores × origins, between those of its intervals' ends.

    Throughput is drawn as its logarithm: at 5 ms and more it is a hundredth of what it is without delay.
    """
    grid = arrange(data.summary, ("streams", "rtt"))
    rates = {name: grid.cells[name] for name in ("throughput", "low", "high")}
    logarithms = {name: np.log10(rate.where(rate > 0)) for name, rate in rates.items()}
    grid = replace(grid, cells=grid.cells.assign(logarithms))
    rows = grid.panels()
    bottom, top = (float(end(grid.cells["throughput"])) for end in (np.nanmin, np.nanmax))
    decades = np.arange(np.floor(bottom), np.ceil(top) + 1)
    norm = Normalize(decades[0], decades[-1])
    label = rate_label(data.summary)
    figure, panels = board(list(map(len, rows)), 3.1, 2.9, shown, projection="3d")
    x, y = (positions(grid.cells, name) for name in ("streams", "rtt"))
    across, along = np.meshgrid(x, y)
    streams = spaced(x, _STREAMS)
    places = [(where, where is row[-1]) for row in rows for where in row]
    for plain, (where, last) in zip(panels, places, strict=True):
        axes = cast("Axes3D", plain)
        panel(axes, grid, where, norm, label if last else "")
        for end in ("low", "high"):
            ends = np.clip(grid.plane(end, where), decades[0], decades[-1])
            axes.plot_surface(across, along, ends, color=_BAND, alpha=0.16, linewidth=0, shade=False)
        axes.set_title(title_of(where), fontsize=8, y=1.0)
        axes.set_xticks(x[streams], [f"{grid.cells['streams'].values[at]:g}" for at in streams])
        axes.set_yticks(y[_RTTS], [f"{grid.cells['rtt'].values[at]:g}" for at in _RTTS], fontsize=6.5)
        axes.set_zlim(decades[0], decades[-1])
        axes.set_zticks(decades, [f"{10**decade:g}" for decade in decades])
    colours = ScalarMappable(norm, COLOURS)
    bar = figure.colorbar(colours, ax=panels, label=label, location="bottom", shrink=0.4, aspect=40, pad=0.01)
    bar.set_ticks(list(decades), labels=[f"{10**decade:g}" for decade in decades])
    notes = [
        f"{mean_note(data.summary)} {band_note(data.summary)} Here: the translucent surfaces. "
        "The axis of throughput is logarithmic. "
        f"RTTs: {', '.join(f'{rtt:g}' for rtt in grid.cells['rtt'].values)} ms."
    ]
    close(figure, shown, notes, mark_handles(grid, "none"))
    return figure


FIGURES = (
    PublishedFigure(
        "chep2023_fig3",
        "CHEP 2023, figure 3: up to 520 streams over 13 servers, 3 ms, an hour",
        ("chep2023.saturate",),
        against_streams,
        testbed="simulation-chep2023-main",
    ),
    PublishedFigure(
        "chep2023_fig4",
        "CHEP 2023, figure 4: throughput against streams and RTT, by cores and origins",
        (
            "chep2023.streams_peak",
            "chep2023.origins_help",
            "chep2023.rtt_fivefold",
            "chep2023.rtt_not_linear",
            "chep2023.rtt120_cap",
        ),
        _surfaces,
        testbed="simulation-chep2023",
    ),
)
