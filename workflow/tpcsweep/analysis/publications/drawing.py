# SPDX-License-Identifier: Apache-2.0
"""Published figures with their claims at the side: CHEP 2023, the WAN study of 2021, the tests of 2007."""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tpcsweep.analysis.publications.reproduction import ASSUMPTION, INPUT, Caption, Data, JudgedClaim
from tpcsweep.common.numbers import plain, short
from tpcsweep.pages.figures.axis_labels import (
    escape_math,
    panel_title,
    rate_label,
    throughput_note,
)
from tpcsweep.pages.figures.line_plots import draw_lines, names_width
from tpcsweep.pages.figures.panels import (
    add_header,
    colours,
    curve_handles,
    point_handle,
    styled,
    title_panels,
    used_panels,
)
from tpcsweep.pages.panel_grid import Places, arrange
from tpcsweep.sweeps.parameters import name_text
from tpcsweep.sweeps.sweep import REPETITION

TARGET = 400.0  # target of the main test, Gbit/s

STATED: Mapping[str, tuple[float, ...]] = {"origins": (2,), "cores": (128,), "rtt": (0.1, 10, 60, 120)}
"""Values of figure 4 that the publication states as numbers; all others, including streams, are ours."""

_MARK = " *"
_OURS = (
    f"* Ours: not stated in the publication, which says only up to 500 streams, and RTTs of "
    f"{', '.join(map(plain, STATED['rtt']))} ms. Throughput is on a logarithmic axis."
)
_PORTS = (
    "The publication draws a line for each destination port. Here goodput is recorded for a whole side, so the line is "
    "the mean of a port."
)
_BINS = 120  # points of an hour: 30 s each


@styled()
def draw_hour(data: Data, caption: Caption) -> Figure:
    """Draw each cell's mean over streams, and measured goodput over time with the most streams."""
    summary = data.summary.mean(REPETITION)
    streams = summary["streams"].values
    figure, panels = panels_with_claims([1 if data.simulated else 2], 4.2, 3.2, caption)
    notes = [throughput_note(data.summary)]
    if not data.simulated:
        _draw_course(panels[0], data, float(streams.max()))
        notes.append(_PORTS)
    against = panels[-1]
    low, mean, high = (summary[f"throughput{end}"].squeeze() for end in ("_low", "", "_high"))
    against.fill_between(streams, low, high, color="#0072B2", alpha=0.2)
    against.plot(streams, mean, marker=".", color="#0072B2")
    against.set(xlabel="streams", title="mean of an hour")
    for axes in panels:
        axes.axhline(TARGET, color="#555555", linestyle=":", linewidth=1, label=f"{plain(TARGET)} Gbit/s")
        axes.set_ylim(0, 1.08 * TARGET)
        axes.set_ylabel(rate_label(data.summary))
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=7, loc="center right")
    add_caption(figure, caption, notes)
    return figure


def _draw_course(axes: Axes, data: Data, streams: float) -> None:
    """Draw the goodput of an hour over time, total and per port."""
    samples, ports = data.samples.isel({REPETITION: 0}), int(data.summary["origins"])
    axes.set(xlabel="time (min)", title=f"{plain(streams)} streams")
    if "goodput" not in samples:
        return
    goodput = samples["goodput"].sel(streams=streams).dropna("time")
    width = max(1, goodput.sizes["time"] // _BINS)
    course = goodput.coarsen(time=width, boundary="trim").mean()
    minutes = course["time"].values / 60
    axes.plot(minutes, course.values, color="#0072B2", label="total")
    axes.plot(minutes, course.values / ports, color="#009E73", label=f"a port, mean of {ports}")


@styled()
def by_cores_and_origins(data: Data, caption: Caption) -> Figure:
    """Draw throughput over streams by RTT, one panel for each cores × origins, origins from left to right."""
    grid = arrange(data.summary, Places("streams", "rtt", ("origins", "cores")))
    rows, beside = grid.panels(), names_width(grid.y, grid.lines())
    figure, axes = panels_with_claims(list(map(len, rows)), 2.7 + beside, 2.4, caption, shared=True)
    panels = list(zip(axes, itertools.chain.from_iterable(rows), strict=True))
    title_panels(panels, "origins", (2.7, 2.4), beside, lambda where: panel_title(where) + _marked(where))
    means = grid.cells["throughput"]
    bottom = float(means.where(means > 0).min()) / 1.5
    handles = draw_lines(panels, grid, data.summary, bottom, lambda rtt: _marked({"rtt": rtt}))
    add_caption(figure, caption, [throughput_note(data.summary), _OURS], handles)
    return figure


def _marked(where: Mapping[str, Any]) -> str:
    return "" if all(value in STATED[name] for name, value in where.items()) else _MARK


@styled()
def against_rtt(data: Data, caption: Caption) -> Figure:
    """Draw every link's measurements, and for each tool the median with its quartiles."""
    cells = data.summary["throughput"].to_dataframe()["throughput"].dropna().reset_index()
    tools = sorted(cells["tool"].unique())
    figure, [panel] = panels_with_claims([1], 6.4, 4.0, caption)
    for place, (tool, colour) in enumerate(zip(tools, colours(len(tools) + 1)[:-1], strict=True)):
        part = cells[cells["tool"] == tool]
        # Side by side, because both tools were used on the same links.
        beside = 1.02 ** (place - len(tools) / 2)
        panel.scatter(part["rtt"] * beside, part["throughput"], s=4, alpha=0.25, color=colour, linewidth=0)
        quartiles = part.groupby("rtt")["throughput"].quantile([0.25, 0.5, 0.75]).unstack()
        several = quartiles[part.groupby("rtt").size() >= 10]
        error = np.abs(several[[0.25, 0.75]].T.values - several[0.5].values)
        look: dict[str, Any] = {"fmt": "o", "markersize": 4, "capsize": 2, "color": colour}
        panel.errorbar(several.index * beside, several[0.5], error, label=escape_math(tool), **look)
    panel.set(xlabel="RTT (ms)", ylabel="throughput (Gbit/s)", ylim=(0, None), xscale="log")
    panel.xaxis.set_major_formatter(lambda value, _: plain(value))
    panel.legend(fontsize=8)
    panel.grid(visible=True, alpha=0.3)
    notes = [
        "Dots: single measurements. Circles: median and quartiles of links with ten or more.",
        str(data.summary.attrs.get("references", "")),
    ]
    add_caption(figure, caption, notes)
    return figure


@styled()
def layers(data: Data, caption: Caption) -> Figure:
    """Draw the mean with its interval, and for measured data the average and the maximum with ramp-up."""
    # Each layer has one tool; cells of the other tools do not exist.
    summary = data.summary.mean(REPETITION)
    if "tool" in summary["throughput"].dims:
        summary = summary.max("tool")
    layers, buffers = summary["layer"].values.tolist(), summary["tcp_buffer"].values.tolist()
    palette = colours(len(buffers))
    figure, panels = panels_with_claims([len(layers)], 2.6, 3.0, caption)
    for panel, layer in zip(panels, layers, strict=True):
        for place, (buffer, colour) in enumerate(zip(buffers, palette, strict=True)):
            curve = summary.sel(layer=layer, tcp_buffer=buffer)
            x = np.asarray(curve["streams"].values, float)
            panel.vlines(x, curve["throughput_low"], curve["throughput_high"], color=colour, linewidth=1)
            # If buffers make no difference, each line is visible behind the next.
            wide = 0.9 * (len(buffers) - place)
            panel.plot(x, curve["throughput"], color=colour, marker=".", linewidth=wide)
            if not data.simulated:
                panel.plot(x, curve["throughput_average"], ":", color=colour, linewidth=1)
                panel.scatter(
                    x, curve["throughput_max"], marker="^", s=16, facecolor="none", edgecolor=colour
                )
        panel.set(title=name_text(layer), xlabel="streams", xticks=x, ylim=(0, None))
        panel.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel(rate_label(data.summary))
    handles = curve_handles("tcp_buffer", buffers, palette)
    if not data.simulated:
        average = Line2D([], [], color="#333333", linestyle=":", label="average with ramp-up")
        handles = [*handles, average, point_handle("maximum", "#333333", "^", "none")]
    add_caption(figure, caption, [_tests(summary), throughput_note(data.summary)], handles)
    return figure


def _tests(summary: xr.Dataset) -> str:
    rates = {
        "memory to memory": ("memory_to_memory", 120),
        "an ordinary disk": ("memory_to_disk", 40),
        "disk to disk": ("disk_to_disk", 200),
    }
    texts = []
    for name, (layer, target) in rates.items():
        if layer in summary["layer"].values:
            best = float(summary["throughput"].sel(layer=layer).max()) * 125
            texts.append(f"{name} {short(best)} of {target} MB/s")
    return f"Best against the published targets: {'; '.join(texts)}."


COLOURS = {
    "holds": "#1b7837",
    "does not hold": "#b2182b",
    "not decided": "#8c6d1f",
    "not testable here": "#666666",
    "input": "#2166ac",
}
"""Colours by verdict, which is written too."""

_WIDE = 3.3  # inches of the panel of claims
_LETTERS = 56  # characters that fit into its width
_LINE = 0.128  # inches of a line
_GAP = 0.09


def panels_with_claims(
    rows: Sequence[int], wide: float, high: float, caption: Caption, *, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with rows of panels (inches `wide` × `high`), and the panel of claims at its right.

    With `shared`, panels share their axes.
    """
    columns = max(rows)
    needed = sum(len(_lines(claim)) * _LINE + _GAP for claim in caption.claims) + 0.3
    size = (wide * columns + _WIDE, max(high * len(rows), needed))
    figure = Figure(figsize=size, layout="constrained")
    halves = figure.add_gridspec(1, 2, width_ratios=(wide * columns, _WIDE), wspace=0.02)
    grid = halves[0].subgridspec(len(rows), columns)
    axes = grid.subplots(squeeze=False, sharex=shared, sharey=shared)
    _claims(figure.add_subplot(halves[1]), caption.claims, size[1])
    return figure, used_panels(axes, rows)


@styled()
def against_streams(data: Data, caption: Caption, curve: str = "rtt", across: int = 3) -> Figure:
    """Draw throughput over streams with its intervals.

    Each value of the axis `curve` has a line, and each combination of the other axes' values a panel, at most `across`
    side by side.
    """
    summary = data.summary
    x = "streams" if "streams" in summary["throughput"].dims else None
    grid = arrange(summary, Places(x, curve if summary.sizes.get(curve, 1) > 1 else None))
    places, beside = list(itertools.chain.from_iterable(grid.panels())), names_width(grid.y, grid.lines())
    rows = [len(places[first : first + across]) for first in range(0, len(places), across)]
    wide = 3.2 if max(rows) < 3 else 2.7
    figure, axes = panels_with_claims(rows, wide + beside, 2.9, caption, shared=True)
    panels = list(zip(axes, places, strict=True))
    title_panels(panels, None, (wide, 2.9), beside)
    handles = draw_lines(panels, grid, summary)
    add_caption(figure, caption, [throughput_note(summary)], handles)
    return figure


def add_caption(
    figure: Figure, caption: Caption, notes: Sequence[str] = (), handles: Sequence[Any] = ()
) -> None:
    add_header(figure, caption.title, [*caption.notes, *notes], handles)


def _claims(axes: Axes, claims: Sequence[JudgedClaim], high: float) -> None:
    axes.set_axis_off()
    down = 0.0
    for lines in ([("Claims, judged on the data drawn", "#000000", True)], *map(_lines, claims)):
        for line, colour, bold in lines:
            weight = "bold" if bold else "normal"
            look: dict[str, Any] = {"va": "top", "fontsize": 7, "color": colour, "fontweight": weight}
            text = axes.text(0.02, 1 - down / high, escape_math(line), transform=axes.transAxes, **look)
            text.set_in_layout(False)
            down += _LINE
        down += _GAP


def _lines(claim: JudgedClaim) -> list[tuple[str, str, bool]]:
    verdict = claim.verdict
    word = claim.word + (f" ({verdict.outcome.value})" if claim.role == INPUT else "")
    effect = verdict.effect or textwrap.shorten(verdict.reason, 4 * _LETTERS, placeholder=" …")
    role = f"follows from an assumption: {claim.assumed}" if claim.role == ASSUMPTION else claim.role
    agree = f"{claim.agree} of {claim.draws} random parameter sets agree" if claim.has_draws else ""
    texts = {
        f"“{verdict.claim.text}”": "#222222",
        f"Found: {effect}.": "#222222",
        "; ".join(part for part in (role, agree) if part): "#555555",
    }
    return [
        (f"{verdict.claim.name}: {word}", COLOURS[claim.word], True),
        *((line, colour, False) for text, colour in texts.items() for line in textwrap.wrap(text, _LETTERS)),
    ]
