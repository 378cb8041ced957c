"""400Gbps benchmark of XRootD HTTP-TPC (CHEP 2023): figures 3 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from matplotlib.figure import Figure

from tpcsweep.figures.grid import arrange, positions
from tpcsweep.figures.labels import band_note, mean_note, rate_label, title_of
from tpcsweep.figures.marks import mark_handles
from tpcsweep.figures.panels import colour_scale, styled
from tpcsweep.figures.surfaces import panel
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.curves import against_streams
from tpcsweep.published.layout import board, close

if TYPE_CHECKING:
    from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]


_BAND = "#555555"
_TICKS = [0, 1, 3, -1]  # of RTTs, whose labels would cover each other


def _surfaces(data: Data, shown: Shown) -> Figure:
    """Draw a surface over streams × RTT for each cores × origins, between those of its intervals' ends."""
    grid = arrange(data.summary, ("streams", "rtt"))
    panels = grid.panels()
    with styled():
        figure, axes = board(len(panels), max(map(len, panels)), 2.9, 2.6, shown, projection="3d")
        norm = colour_scale(grid.cells)
        x, y = (positions(grid.cells, name) for name in ("streams", "rtt"))
        across, along = np.meshgrid(x, y)
        for places, row in zip(axes, panels, strict=True):
            for unused in places[len(row) :]:
                unused.remove()
        held = (
            pair for places, row in zip(axes, panels, strict=True) for pair in zip(places, row, strict=False)
        )
        for one, where in held:
            place = cast("Axes3D", one)
            panel(place, grid, where, norm, rate_label(data.summary))
            for end in ("low", "high"):
                ends = grid.plane(end, where)
                place.plot_surface(across, along, ends, color=_BAND, alpha=0.16, linewidth=0, shade=False)
            place.set_title(title_of(where), fontsize=8, y=1.0)
            place.set_yticks(y[_TICKS], [f"{grid.cells['rtt'].values[at]:g}" for at in _TICKS], fontsize=6.5)
        notes = [f"{mean_note(data.summary)} {band_note(data.summary)} Here: the translucent surfaces."]
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
