"""What a throughput takes: the setting that was found, and cores against streams."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import pandas as pd  # type: ignore[import-untyped]
from matplotlib.figure import Figure

from tpcsweep.configuration.parameters import show_value
from tpcsweep.configuration.units import FRACTION, RATE, show
from tpcsweep.figures.labels import axis_label, title_of, value_text
from tpcsweep.figures.panels import COLOURS, styled
from tpcsweep.planning.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY = 48  # streams from which on a logarithmic axis reads better


def plan(answer: Plan) -> Figure:
    """Draw throughput over streams at the setting found, and the probability to reach the target over cores and
    streams with the front. Without several values of cores there is the first alone.
    """
    found = [
        one
        for one in (answer.cheapest, answer.extrapolation, answer.surest, answer.largest)
        if one is not None
    ]
    both = answer.settings["cores"].nunique() > 1
    with styled():
        figure = Figure(figsize=(10.6 if both else 6.4, 5.0), layout="constrained")
        axes = figure.subplots(1, 2 if both else 1, squeeze=False)[0]
        _throughput(axes[0], answer, found[0])
        if both:
            _map(figure, axes[1], answer)
        wide = 150 if both else 90
        notes = [answer.data, _fixed(answer), *answer.notes]
        figure.suptitle(
            "\n".join([_verdict(answer), *(textwrap.fill(note, wide) for note in notes if note)]),
            x=0.01,
            ha="left",
            fontsize=8,
        )
    return figure


def _verdict(answer: Plan) -> str:
    how = f"{show(answer.target, RATE)} with {show(answer.probability, FRACTION)}"
    if answer.cheapest is not None:
        words = (
            "extrapolated from what was measured" if answer.cheapest["extrapolated"] else "inside the data"
        )
        return f"{how}: reached, {words}"
    return f"{how}: not reached inside the data" + (
        "" if answer.extrapolation is None else ", extrapolated to be reached beyond"
    )


def _fixed(answer: Plan) -> str:
    given = ", ".join(
        f"{name} {'+'.join(show_value(name, one) for one in (v if isinstance(v, tuple) else (v,)))}"
        for name, v in answer.fixed.items()
    )
    return f"model {answer.model}" + (f"; given: {given}" if given else "")


def _throughput(axes: Axes, answer: Plan, found: pd.Series) -> None:
    where = {"cores": float(found["cores"]), "origins": int(found["origins"])}
    for table, style, colour in ((answer.settings, "-", "#31688e"), (answer.beyond, ":", "#b5552b")):
        rows = table[(table["cores"] == where["cores"]) & (table["origins"] == where["origins"])]
        if rows.empty:
            continue
        rows = rows.sort_values("streams")
        beyond = table is answer.beyond
        label = (
            "beyond the data: extrapolated"
            if beyond
            else "extrapolated"
            if rows["extrapolated"].all()
            else ""
        )
        x = rows["streams"]
        axes.fill_between(
            x, rows["throughput_low"], rows["throughput_high"], color=colour, alpha=0.18, linewidth=0
        )
        axes.plot(x, rows["throughput"], style, color=colour, marker=".", label=f"model {label}".strip())
        name = f"reached by {show(answer.probability, FRACTION)} of measurements"
        axes.plot(
            x, rows["assured"], style, color=colour, linewidth=0.9, alpha=0.7, label=None if beyond else name
        )
    axes.axhline(answer.target, color="#b30000", linewidth=1.1, label="target")
    axes.plot(
        found["streams"], found["throughput"], "*", markersize=13, color="#b30000", label="setting found"
    )
    if max(axes.get_xlim()) > _MANY:
        axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set(xlabel=axis_label("streams"), ylabel="throughput (Gbit/s)", title=title_of(where))
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7.5, frameon=False)
    axes.text(0.01, 0.01, "band: 95 % of measurements", transform=axes.transAxes, fontsize=7, va="bottom")


def _map(figure: Figure, axes: Axes, answer: Plan) -> None:
    table = answer.settings
    likely = table.pivot_table(index="cores", columns="streams", values="probability", aggfunc="max")
    image = axes.imshow(likely.to_numpy(), origin="lower", aspect="auto", cmap=COLOURS, vmin=0, vmax=1)
    rows = {value: at for at, value in enumerate(likely.index)}
    columns = {value: at for at, value in enumerate(likely.columns)}
    front = answer.front
    axes.plot(
        [columns[value] for value in front["streams"]],
        [rows[value] for value in front["cores"]],
        "o--",
        color="white",
        markeredgecolor="black",
        label="front: fewer of one take more of the other",
    )
    for _, row in front.iterrows():
        axes.annotate(
            f"{row['origins']:g}",
            (columns[row["streams"]], rows[row["cores"]]),
            (4, 4),
            textcoords="offset points",
            color="white",
            fontsize=7.5,
        )
    if answer.cheapest is not None:
        one = answer.cheapest
        axes.plot(
            columns[one["streams"]], rows[one["cores"]], "*", markersize=14, color="#b30000", label="cheapest"
        )
    for ticks, values, name in ((axes.set_xticks, columns, "streams"), (axes.set_yticks, rows, "cores")):
        step = math.ceil(len(values) / 10)
        ticks(range(0, len(values), step), [value_text(name, float(value)) for value in values][::step])
    axes.set(xlabel=axis_label("streams"), ylabel=axis_label("cores"))
    axes.set_title("probability to reach the target, best of all origins; numbers are origins")
    figure.colorbar(image, ax=axes, label="probability")
    if axes.get_legend_handles_labels()[0] and len(front):
        axes.legend(fontsize=7.5, loc="upper left", facecolor="#cccccc")
