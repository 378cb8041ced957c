# SPDX-License-Identifier: Apache-2.0
"""Figure of a plan for a target throughput."""

import math

import pandas as pd  # type: ignore[import-untyped]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tpcsweep.analysis.plans.plan import Plan
from tpcsweep.common.numbers import plain
from tpcsweep.pages.figures.axis_labels import axis_label, panel_title
from tpcsweep.pages.figures.panels import COLOURS, add_header, styled
from tpcsweep.sweeps.parameters import show_value, value_text
from tpcsweep.sweeps.units import FRACTION, RATE, show

_MANY = 48  # streams above which a logarithmic axis is easier to read


@styled()
def draw(answer: Plan) -> Figure:
    """Draw throughput over streams at the found setting; if cores vary, also the probability map with the front."""
    settings = (answer.cheapest, answer.extrapolation, answer.surest, answer.largest)
    setting = next(row for row in settings if row is not None)
    both = answer.settings["cores"].nunique() > 1
    figure = Figure(figsize=(10.6 if both else 6.4, 5.0), layout="constrained")
    axes = figure.subplots(1, 2 if both else 1, squeeze=False)[0]
    _throughput(axes[0], answer, setting)
    if both:
        _map(figure, axes[1], answer)
    question = f"{show(answer.target, RATE)} with {show(answer.probability, FRACTION)}"
    add_header(figure, f"{question}: {answer.verdict}", [answer.data, _fixed(answer), *answer.notes])
    return figure


def _fixed(answer: Plan) -> str:
    given = ", ".join(
        f"{name} {'+'.join(show_value(name, v) for v in (values if isinstance(values, tuple) else (values,)))}"
        for name, values in answer.fixed.items()
    )
    return f"model {answer.model}" + (f"; given: {given}" if given else "")


def _throughput(axes: Axes, answer: Plan, setting: pd.Series) -> None:
    where = {"cores": float(setting["cores"]), "origins": int(setting["origins"])}
    for table, style, colour in ((answer.settings, "-", "#31688e"), (answer.beyond, ":", "#b5552b")):
        rows = table[(table["cores"] == where["cores"]) & (table["origins"] == where["origins"])]
        if rows.empty:
            continue
        rows = rows.sort_values("streams")
        beyond = table is answer.beyond
        label = "model beyond the data: extrapolated" if beyond else "model"
        if not beyond and rows["extrapolated"].all():
            label = "model extrapolated"
        x, low, high = rows["streams"], rows["throughput_low"], rows["throughput_high"]
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, rows["throughput"], style, color=colour, marker=".", label=label)
        assured = None if beyond else f"reached by {show(answer.probability, FRACTION)} of measurements"
        axes.plot(x, rows["assured"], style, color=colour, linewidth=0.9, alpha=0.7, label=assured)
    axes.axhline(answer.target, color="#b30000", linewidth=1.1, label="target")
    at = setting["streams"], setting["throughput"]
    axes.plot(*at, "*", markersize=13, color="#b30000", label="setting found")
    if max(axes.get_xlim()) > _MANY:
        axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set(xlabel=axis_label("streams"), ylabel="throughput (Gbit/s)", title=panel_title(where))
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7.5, frameon=False)
    axes.text(0.01, 0.01, "band: 95 % of measurements", transform=axes.transAxes, fontsize=7, va="bottom")


def _map(figure: Figure, axes: Axes, answer: Plan) -> None:
    table = answer.settings
    likely = table.pivot_table(index="cores", columns="streams", values="probability", aggfunc="max")
    image = axes.imshow(likely.to_numpy(), origin="lower", aspect="auto", cmap=COLOURS, vmin=0, vmax=1)
    rows = {value: at for at, value in enumerate(likely.index)}
    columns = {value: at for at, value in enumerate(likely.columns)}
    axes.plot(
        answer.front["streams"].map(columns),
        answer.front["cores"].map(rows),
        "o--",
        color="white",
        markeredgecolor="black",
        label="front: fewer cores need more streams",
    )
    for _, row in answer.front.iterrows():
        at = columns[row["streams"]], rows[row["cores"]]
        text = plain(row["origins"])
        axes.annotate(text, at, (4, 4), textcoords="offset points", color="white", fontsize=7.5)
    if answer.cheapest is not None:
        at = columns[answer.cheapest["streams"]], rows[answer.cheapest["cores"]]
        axes.plot(*at, "*", markersize=14, color="#b30000", label="cheapest")
    for ticks, values, name in ((axes.set_xticks, columns, "streams"), (axes.set_yticks, rows, "cores")):
        step = math.ceil(len(values) / 10)
        ticks(range(0, len(values), step), [value_text(name, float(value)) for value in values][::step])
    axes.set(xlabel=axis_label("streams"), ylabel=axis_label("cores"))
    axes.set_title("probability to reach the target, best of all origins; numbers are origins")
    figure.colorbar(image, ax=axes, label="probability")
    if len(answer.front):
        axes.legend(fontsize=7.5, loc="upper left", facecolor="#cccccc")
