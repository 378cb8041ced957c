# SPDX-License-Identifier: Apache-2.0
"""Figures of fitted models: curves over cells, fitted against measured, and prediction errors."""

import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from tpcsweep.analysis.models.fit import Fit
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.learned import LEARNED
from tpcsweep.analysis.models.observations import Observations
from tpcsweep.analysis.models.predictor import Predictor, interval
from tpcsweep.common.numbers import plain
from tpcsweep.pages.figures.axis_labels import axis_label, panel_title
from tpcsweep.pages.figures.line_plots import End, line_names, name_lines, names_width
from tpcsweep.pages.figures.panels import (
    COLOURS,
    add_header,
    colours,
    curve_handles,
    facets,
    label_edges,
    styled,
    tiles,
)
from tpcsweep.pages.panel_grid import evenly, rate_top
from tpcsweep.sweeps.parameters import name_text

_MOST_LINES = 8
_DENSE = 60  # points of a curve
_FEW = 3


@styled()
def fitted(observations: Observations, fit: Predictor) -> Figure:
    """Draw measured cells, and the model as lines with its 95 % interval of a measurement; columns are cores."""
    x, curves, others = _layout(observations)
    frame = _classed(observations)
    parts = {tuple(where.values()): part for where, part in _parts(frame, others)}
    rows = [
        [dict(zip(others, place, strict=True)) for place in row]
        for _, row in itertools.groupby(parts, lambda place: place[:-1])
    ]
    every = sorted(frame[curves].unique().tolist()) if curves else [None]
    values = [every[at] for at in evenly(len(every), _MOST_LINES)]
    across = others[-1] if others else None
    beside = names_width(curves, values)
    figure, panels, notes = facets(rows, across, 2.5, 2.1, beside=beside)
    path = frame.get("bandwidth", pd.Series(np.inf, frame.index))
    top = rate_top(float(path.max()), float(frame["throughput"].max()))
    if x == "streams":
        panels[0][0].set_xscale("log", base=2)
        panels[0][0].xaxis.set_major_formatter(lambda value, _: plain(value))
    panels[0][0].set_ylim(0, top)
    looks = list(zip(values, line_names(curves, values), colours(len(values)), strict=True))
    drawn = []
    for axes, where in panels:
        part = parts[tuple(where.values())]
        lines = (
            (name, part if value is None else part[part[curves] == value], colour)
            for value, name, colour in looks
        )
        drawn.append(
            [_draw_line(axes, line, x, fit, name, colour) for name, line, colour in lines if len(line)]
        )
        axes.grid(visible=True, alpha=0.3)
    for (axes, _), ends in zip(panels, drawn, strict=True):
        name_lines(axes, ends, name_text(curves) if curves else "")
    label_edges([axes for axes, _ in panels], axis_label(x), _rate(observations))
    if len(values) < len(every):
        notes.append(f"{len(values)} of {len(every)} lines.")
    note = "Lines and bands: the model and the 95 % interval of one more measurement. Points: cells."
    add_header(figure, f"{_title(fit)}: {observations.label}", [note, *notes])
    return figure


@styled()
def against_measured(observations: Observations, fits: Mapping[str, Fit]) -> Figure:
    """Draw fitted over measured throughput, and residuals in standard errors, one column for each model."""
    measured, error = observations.throughput, observations.error
    look: dict[str, Any] = {"c": "#31688e"}
    handles: Sequence[Any] = []
    if "rtt" in observations.numeric:
        values, which = np.unique(observations.classes("rtt"), return_inverse=True)
        palette = colours(len(values))
        look = {"c": [palette[at] for at in which]}
        shown = evenly(len(values), _MOST_LINES)
        handles = curve_handles("rtt", values[shown].tolist(), [palette[at] for at in shown])
    top = 1.05 * float(measured.max())
    figure = Figure(figsize=(max(2.9 * len(fits) + 0.8, 6.0), 5.6), layout="constrained")
    grid = figure.subplots(2, len(fits), squeeze=False, sharex=True, sharey="row")
    for (above, below), fit in zip(grid.T, fits.values(), strict=True):
        estimate = fit.estimate(observations.frame)
        above.scatter(measured, estimate, s=14, linewidth=0, **look)
        above.plot([0, top], [0, top], color="#555555", linewidth=1, linestyle=":")
        above.set(xlim=(0, top), ylim=(0, 1.3 * top), title=textwrap.fill(fit.model.title, 30))
        below.scatter(measured, (measured - estimate) / error, s=14, linewidth=0, **look)
        below.axhline(0, color="#555555", linewidth=1, linestyle=":")
        below.set_yscale("symlog", linthresh=3)
        below.yaxis.set_major_locator(FixedLocator([-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100]))
        below.yaxis.set_major_formatter(lambda value, _: plain(value))
        below.set_xlabel(f"{observations.data_kind} (Gbit/s)")
    grid[0, 0].set_ylabel("fitted (Gbit/s)")
    grid[1, 0].set_ylabel("residual (standard errors)")
    add_header(figure, f"Fitted against {observations.data_kind}: {observations.label}", [], handles)
    return figure


@styled()
def prediction_errors(choice: Mapping[str, Any], label: str) -> Figure:
    """Draw the mean absolute error of left-out cells by model; `choice` is a result of `Choice.to_dict`."""
    scores = pd.DataFrame(choice["scores"])
    errors = pd.DataFrame(choice["errors"])
    figure, [axes] = tiles(1, 7.6, 0.25 * len(scores) + 2.1, (0, 0))
    names = [name_text(name) for name in scores["model"]]
    places = np.arange(len(scores))
    axes.barh(places, scores["score"], color="#cccccc", height=0.7, label="mean over all left-out cells")
    shapes = {"rtt": "o", "streams": "s", "deployment": "D", "run": "^"}
    for (kind, where), part in errors.groupby(["kind", "where"], sort=False):
        at = [names.index(name_text(name)) for name in part["model"]]
        face = "#31688e" if where == "interpolation" else "none"
        look: dict[str, Any] = {"marker": shapes[kind], "s": 22, "edgecolor": "#31688e", "zorder": 3}
        axes.scatter(part["mean"], at, facecolor=face, label=f"{name_text(kind)}, {where}", **look)
    labels = [
        f"{name_text(row['model'])}{' *' * bool(row['tied'])}: {_about(row['model'])}"
        for _, row in scores.iterrows()
    ]
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set_xlabel("mean absolute error of cells left out (Gbit/s)")
    axes.grid(visible=True, axis="x", alpha=0.3)
    handles, _ = axes.get_legend_handles_labels()
    note = "* not distinguishable from the best"
    add_header(figure, f"Prediction of cells left out: {label}", [note], handles)
    return figure


def interactive_surface(observations: Observations, fit: Predictor) -> Any:
    """Return a rotatable plotly.Figure over streams × RTT with a menu of other axes, or None without both."""
    import plotly.graph_objects as go  # type: ignore[import-untyped]

    x_name, y_name, others = _layout(observations)
    if x_name is None or y_name is None:
        return None
    frame = _classed(observations)
    x, y = (_dense(frame[name], 24) for name in (x_name, y_name))
    across, along = np.meshgrid(x, y)
    figure, names = go.Figure(), []
    top = 1.05 * float(frame["throughput"].max())
    for place, (where, part) in enumerate(_parts(frame, others)):
        table = _table(part, {x_name: across.ravel(), y_name: along.ravel()})
        names.append(panel_title(where) or "all cells")
        figure.add_surface(
            x=x, y=y, z=fit.estimate(table).reshape(across.shape).round(4),
            colorscale=COLOURS, cmin=0, cmax=top, opacity=0.85, visible=place == 0,
            showscale=place == 0, colorbar={"title": {"text": "Gbit/s"}},
        )  # fmt: skip
        figure.add_scatter3d(
            x=part[x_name], y=part[y_name], z=part["throughput"].round(4),
            mode="markers", marker={"size": 3, "color": "black"}, visible=place == 0, name=observations.data_kind,
        )  # fmt: skip
    buttons = [
        {
            "label": name,
            "method": "update",
            "args": [{"visible": [at // 2 == place for at in range(2 * len(names))], "showscale": True}],
        }
        for place, name in enumerate(names)
    ]
    scales = ["log" if name == "streams" else "linear" for name in (x_name, y_name)]
    figure.update_layout(
        title={"text": f"{_title(fit)}: {observations.label}", "font": {"size": 14}},
        updatemenus=[{"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.06}] if len(names) > 1 else [],
        scene={
            "xaxis": {"title": {"text": axis_label(x_name)}, "type": scales[0]},
            "yaxis": {"title": {"text": axis_label(y_name)}, "type": scales[1]},
            "zaxis": {"title": {"text": _rate(observations)}, "range": [0, top]},
        },
        height=620,
        margin={"l": 0, "r": 0, "b": 0, "t": 70},
    )
    return figure


def parameter_table(fit: Fit) -> pd.DataFrame:
    """Return one row for each parameter: value with interval, or the reason if undetermined."""
    titles = {"name": "parameter", "interval": "95 % interval", "reason": "note"}
    return pd.DataFrame(fit.parameter_rows()).rename(columns=titles)


@styled()
def no_model_figure(problems: Sequence[str]) -> Figure:
    figure = Figure(figsize=(5, 2), layout="constrained")
    lines = textwrap.wrap(f"No model was chosen: {'; '.join(problems)}", 60)
    figure.text(0.5, 0.5, "\n".join(lines), ha="center", va="center", parse_math=False)
    return figure


def _layout(observations: Observations) -> tuple[str | None, str | None, list[str]]:
    finite = [name for name in observations.numeric if np.isfinite(observations.frame[name]).all()]
    order = sorted(finite, key=lambda name: {"streams": 0, "rtt": 1}.get(name, 2))
    several = (name for name in order if observations.classes(name).nunique() >= _FEW)
    x = next(several, order[0] if order else None)
    lines = next((name for name in order if name != x), None)
    others = [name for name in observations.axes if name not in (x, lines)]
    return x, lines, sorted(others, key=lambda name: name == "cores")  # the last one has columns


def _about(model: str) -> str:
    """Return a few words about a model, of the authors of a formula or its idea."""
    if model in MODELS:
        return MODELS[model].title
    return re.split("[:,]", LEARNED[model].about)[0] if model in LEARNED else "unknown"


def _draw_line(axes: Axes, line: pd.DataFrame, x: str | None, fit: Predictor, name: str, colour: Any) -> End:
    at = line[x].to_numpy(float) if x else np.zeros(len(line))
    axes.plot(at, line["throughput"], ".", color=colour, markersize=5)
    if x is not None:
        table = _table(line, {x: _dense(line[x], _DENSE)})
        low, high = interval(fit.draws(table))
        high = np.minimum(high, table.get("bandwidth", np.inf))  # no measurement exceeds the path
        axes.plot(table[x], fit.estimate(table), color=colour, linewidth=1.3)
        axes.fill_between(table[x], low, high, color=colour, alpha=0.18, linewidth=0)
    last = int(at.argmax())
    return End(at[last], float(line["throughput"].iloc[last]), name, {"color": colour})


def _classed(observations: Observations) -> pd.DataFrame:
    """Return the rows with the class of each axis value, so that measured values are drawn together."""
    return observations.frame.assign(**{name: observations.classes(name) for name in observations.axes})


def _parts(frame: pd.DataFrame, names: Sequence[str]) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    if not names:
        return [({}, frame)]
    return [
        (part[list(names)].iloc[:1].to_dict("records")[0], part) for _, part in frame.groupby(list(names))
    ]


def _dense(values: pd.Series, count: int) -> Any:
    low, high = float(values.min()), float(values.max())
    return (np.geomspace if low > 0 and high > 8 * low else np.linspace)(low, high, count)


def _table(rows: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    count = len(next(iter(columns.values())))
    return rows.iloc[[0] * count].reset_index(drop=True).assign(**columns)


def _title(fit: Predictor) -> str:
    return fit.model.title if isinstance(fit, Fit) else name_text(fit.name)


def _rate(observations: Observations) -> str:
    return f"{'simulated ' if observations.data_kind == 'simulated' else ''}throughput (Gbit/s)"
