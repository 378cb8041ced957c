# SPDX-License-Identifier: Apache-2.0
"""Matrix of the links of a mesh: throughput as colour and number, its interval, its limit, and verdicts as marks."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tpcsweep.analysis.links.link_rates import mesh_of
from tpcsweep.analysis.links.sentences import CRITERION, MARKS, WAITED_LABEL
from tpcsweep.analysis.links.verdicts import LinkEffect, MeshEffects, mesh_effects
from tpcsweep.common.numbers import between, short
from tpcsweep.data.variables import LIMIT_NAMES
from tpcsweep.pages.figures.axis_labels import escape_math, rate_label, text_width
from tpcsweep.pages.figures.maps import HATCHED, fill_cell
from tpcsweep.pages.figures.panels import COLOURS, finish, point_handle, styled, tiles
from tpcsweep.pages.figures.panels import MARKS as PANEL_MARKS
from tpcsweep.pages.limit_colours import LIMIT_LETTERS

_MOST_NUMBERED = 16  # sites up to which cells have numbers
_WIDE_SCALE = 20.0  # ratio of the largest to the smallest throughput beyond which colours are logarithmic
_DARK = 0.6  # share of the colour scale below which numbers are white
_LINK_MARKS = {
    "slow": ("v", "#D55E00", "slow path: slower than both sites' other links"),
    "window": ("D", "#56B4E9", "slower than both sites' other links, limited by TCP's window"),
    "fast": ("^", "#009E73", "fast path: faster than both sites' other links"),
    "waited": (PANEL_MARKS["waited"].marker, "#262626", f"{WAITED_LABEL}, not compared"),
}
_SITE_MEANINGS = {
    "slow": "▼ slow site in this role",
    "window": "◆ slow in this role, limited by TCP's window",
    "fast": "▲ fast site in this role",
    "one link": "? one link cannot tell site from path",
}


@styled()
def matrix(summary: xr.Dataset) -> Figure:
    """Draw the best throughput of each link. Raises ConfigurationError if the dataset is no mesh."""
    found = mesh_effects(mesh_of(summary))
    mesh = found.mesh
    rows, columns = mesh.logs.shape
    readable = max(rows, columns) <= _MOST_NUMBERED
    wide, high = (0.72, 0.55) if readable else (0.19, 0.19)
    labels = {role: _site_labels(found, role) for role in ("sends", "receives")}
    room = [max(text_width(text) for text in labels[role]) for role in ("sends", "receives")]
    size = max(3.0, wide * columns) + room[0] + 1.6, max(1.5, high * rows) + room[1] + 0.5
    figure, [axes] = tiles(1, size[0], size[1], (0, 0))
    rates = np.ma.masked_invalid(np.exp(mesh.logs))
    norm = _scale(rates)
    edge: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.6 if readable else 0.2}
    axes.pcolormesh(rates, cmap=COLOURS, norm=norm, **edge)
    axes.invert_yaxis()
    axes.set_facecolor("#f4f4f4")
    for link in found.links:
        _draw_link(axes, found, link, norm, readable)
    _label(axes, labels, readable)
    bar = figure.colorbar(ScalarMappable(norm, COLOURS), ax=axes, aspect=30, pad=0.02)
    bar.set_label(rate_label(summary))
    note = f"Best of the measured settings of each link. {CRITERION}"
    if readable:
        note += " Small: 95 % interval of the measurement, and letters of the limit."
    finish(figure, summary, "Links", [note, *_meanings(found, readable)], _handles(found))
    return figure


def _scale(rates: Any) -> Normalize:
    if not rates.count():
        return Normalize(0, 1)
    low, high = float(rates.min()), float(rates.max())
    return LogNorm(low, high) if high > _WIDE_SCALE * low else Normalize(0, high)


def _site_labels(found: MeshEffects, role: str) -> list[str]:
    """Return the names of the sites in a role, with the marks of their verdicts."""
    verdicts = {site.site: site.verdict for site in found.sites if site.role == role}
    names = found.mesh.sources if role == "sends" else found.mesh.destinations
    return [f"{escape_math(name)} {MARKS.get(verdicts.get(name, ''), '')}".rstrip() for name in names]


def _label(axes: Axes, labels: dict[str, list[str]], readable: bool) -> None:
    for axis, role, name in ((axes.xaxis, "receives", "destination"), (axes.yaxis, "sends", "source")):
        texts = labels[role]
        axis.set_ticks(np.arange(len(texts)) + 0.5, texts)
        axis.set_tick_params(length=0, labelsize=8 if readable else 6.5)
        axis.set_label_text(name)
        for text, label in zip(texts, axis.get_ticklabels(), strict=True):
            if text.endswith(MARKS["slow"]):
                label.set(color=_LINK_MARKS["slow"][1], fontweight="bold")
    axes.tick_params("x", labelrotation=90)


def _draw_link(axes: Axes, found: MeshEffects, link: LinkEffect, norm: Normalize, readable: bool) -> None:
    row = found.mesh.sources.index(link.source)
    column = found.mesh.destinations.index(link.destination)
    if link.verdict == "not measured":
        fill_cell(axes, row, column, **(HATCHED if readable else HATCHED | {"hatch": "////////"}))
        return
    if link.verdict in _LINK_MARKS:
        marker, colour, _ = _LINK_MARKS[link.verdict]
        at = (column + 0.88, row + 0.2) if readable else (column + 0.5, row + 0.5)
        edge = colour if link.verdict == "waited" else "white"
        look: dict[str, Any] = {"color": colour, "edgecolor": edge, "linewidth": 0.7, "zorder": 5}
        axes.scatter(*at, marker=marker, s=34 if readable else 26, **look)
    if not readable:
        return
    text: dict[str, Any] = {"ha": "center", "va": "center"}
    has_colour = link.verdict != "waited"
    text["color"] = "white" if has_colour and norm(link.throughput) < _DARK else "#262626"
    axes.text(column + 0.5, row + 0.36, short(link.throughput), fontsize=8, **text)
    if not has_colour:
        return
    axes.text(column + 0.5, row + 0.64, between(link.low, link.high), fontsize=4.8, **text)
    if link.limit in LIMIT_LETTERS:
        axes.text(column + 0.5, row + 0.86, LIMIT_LETTERS[link.limit], fontsize=5.5, **text)


def _meanings(found: MeshEffects, readable: bool) -> list[str]:
    """Return notes on the marks of sites and the letters of limits that occur."""
    verdicts = {site.verdict for site in found.sites}
    notes = [meaning for verdict, meaning in _SITE_MEANINGS.items() if verdict in verdicts]
    limits = dict.fromkeys(link.limit for link in found.links if link.limit in LIMIT_NAMES)
    letters = [f"{LIMIT_LETTERS[limit]} {LIMIT_NAMES[limit]}" for limit in limits] if readable else []
    return [f"{'; '.join(part)}." for part in (notes, letters) if part]


def _handles(found: MeshEffects) -> list[Any]:
    verdicts = {link.verdict for link in found.links}
    handles: list[Any] = [
        point_handle(meaning, colour, marker, markersize=6)
        for verdict, (marker, colour, meaning) in _LINK_MARKS.items()
        if verdict in verdicts
    ]
    if "not measured" in verdicts:
        handles.append(Patch(**HATCHED, label="failed or not measured"))
    return handles
