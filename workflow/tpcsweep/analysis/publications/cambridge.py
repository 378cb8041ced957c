# SPDX-License-Identifier: Apache-2.0
"""Concurrent davix flows: rate against flows, rate against time, and the table of transfers.

A published rate is the bytes of a flow over its sending time, and that of several flows their sum. It exceeds all bytes
over the time until the last flow ended if flows are unequal; both are drawn.
"""

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tpcsweep.analysis.publications.drawing import add_caption, panels_with_claims
from tpcsweep.analysis.publications.reproduction import Caption, Data
from tpcsweep.common.numbers import GBIT, short
from tpcsweep.pages.figures.axis_labels import panel_title, rate_label, throughput_note
from tpcsweep.pages.figures.panels import colours, styled

PUBLISHED = {1: 8.0, 5: 25.0, 10: 53.0}  # sum of the flows' rates in Gbit/s, by number of flows
PUBLISHED_LAST = {10: 10 * 100e9 * GBIT / 210.04}
"""All bytes until the last flow ended, in Gbit/s, by flows; the slowest in the table took 210.04 s."""

_SHOWN = (1, 2, 5, 10)  # numbers of flows whose rates are drawn against time
_BINS = 40
_ENDS = ("throughput_low", "throughput_high")
_OF_TRANSFERS = "Rates against time, and the table, are of single transfers, each spread evenly"
_RATES = (
    "Rate against flows: sum of each flow's bytes over its sending, as published; dashed: all bytes until the last "
    "flow has ended."
)


def flows(data: Data) -> pd.DataFrame:
    """Return a table of transfers with the most flows, at the first RTT and repetition.

    Returns:
        One row for the first successful transfer of each flow, then `sum` (of the rates only) and `mean`. Columns are
            `startup`, `sending` and `total` in s, and `rate` in Gbit/s, of the bytes over `sending`.
    """
    transfers = _at_the_smallest_rtt(_first(data))
    most = transfers[transfers["streams"] == transfers["streams"].max()]
    table = most.sort_values("stream").set_index("stream")[["startup", "sending", "total", "rate"]]
    table.index = table.index.map(str)
    mean = table.mean()
    table.loc["sum"] = [np.nan, np.nan, np.nan, table["rate"].sum()]
    table.loc["mean"] = mean
    return table


def sums(data: Data) -> pd.DataFrame:
    """Return the total rates of concurrent flows, from the first transfer of each.

    Returns:
        One row for each number of flows and RTT: `rtt`, `streams`, `sum` (of the rates over sending) and `last` (all
            bytes over the time until the last flow ended), in Gbit/s.
    """
    places = _first(data).groupby(["rtt", "streams"])
    every = places["size"].sum() * GBIT / (places["end"].max() - places["start"].min())
    return pd.DataFrame({"sum": places["rate"].sum(), "last": every}).reset_index()


def _ended_well(data: Data) -> pd.DataFrame:
    """Return successful transfers of the first repetition, with `rate` over their sending time."""
    transfers = data.transfers.to_dataframe().reset_index()
    transfers = transfers[transfers["repetition"] == transfers["repetition"].min()]
    if "rtt" not in transfers:
        transfers = transfers.assign(rtt=float(data.summary["rtt"]))
    ended = transfers[transfers["ok"] == 1].dropna(subset=["first_byte"])
    return ended.assign(rate=ended["size"] * GBIT / ended["sending"])


def _first(data: Data) -> pd.DataFrame:
    return _ended_well(data).sort_values("number").drop_duplicates(["rtt", "streams", "stream"])


def _at_the_smallest_rtt(transfers: pd.DataFrame) -> pd.DataFrame:
    return transfers[transfers["rtt"] == transfers["rtt"].min()]


def rates(data: Data, count: int) -> tuple[Any, Any]:
    """Return ends of bins in s, and the rate of `count` flows in Gbit/s, each constant while it sends."""
    transfers = _at_the_smallest_rtt(_ended_well(data))
    part = transfers[transfers["streams"] == count]
    edges = np.linspace(0, part["end"].max() if len(part) else 1.0, _BINS + 1)
    total = np.zeros(_BINS)
    for start, end, size in part[["first_byte", "end", "size"]].itertuples(index=False):
        inside = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0, None)
        total += inside * size * GBIT / max(end - start, 1e-9)
    return edges[1:], total / np.diff(edges)


@styled()
def concurrent_flows(data: Data, caption: Caption) -> Figure:
    summary, found = data.summary, sums(data)
    cells = summary[["throughput", *_ENDS]].mean("repetition")
    figure, [against, time, table] = panels_with_claims([3], 3.3, 3.4, caption)
    places = list(found.groupby("rtt"))
    for (rtt, curve), colour in zip(places, colours(len(places) + 1), strict=False):
        cell = (cells.sel(rtt=rtt) if "rtt" in cells.dims else cells).sel(streams=curve["streams"].values)
        low, high = (curve["sum"] * (cell[end] / cell["throughput"]).values for end in _ENDS)
        against.vlines(curve["streams"], low, high, color=colour, linewidth=1)
        label = panel_title({"rtt": float(rtt)})
        against.plot(curve["streams"], curve["sum"], marker=".", color=colour, label=label)
        against.plot(curve["streams"], curve["last"], linestyle="--", linewidth=1, color=colour)
    # On a slower path than the published one, the shape is comparable, the level is not.
    most = max(PUBLISHED.values())
    slower = float(summary["bandwidth"].max()) < most
    scale = float(found["sum"].max()) / most if slower else 1.0
    by = f", × {short(scale)}" if slower else ""
    both = (PUBLISHED, "x", "published"), (PUBLISHED_LAST, "+", "published, until the last")
    for published, marker, name in both:
        scaled = [rate * scale for rate in published.values()]
        against.plot(list(published), scaled, marker, color="#D55E00", label=f"{name}{by}")
    label = rate_label(summary, "total rate")
    against.set(xlabel="flows", ylabel=label, ylim=(0, None), title="rate against flows")
    handles, _ = against.get_legend_handles_labels()
    dashed = Line2D([], [], linestyle="--", linewidth=1, color="#333333", label="until the last")
    against.legend(handles=[*handles, dashed], fontsize=7)
    counts = [count for count in _SHOWN if count in found["streams"].values]
    for count, colour in zip(counts, colours(len(counts)), strict=True):
        time.plot(*rates(data, count), color=colour, label=f"{count}")
    top = 1.25 * float(found["sum"].max())
    time.set(xlabel="time (s)", ylabel=label, ylim=(0, top), title="rate against time")
    time.legend(title="flows", fontsize=7, loc="upper right", ncols=4)
    _draw_table(table, flows(data), "simulated transfers" if data.simulated else "single transfers")
    one_of = f", at {panel_title({'rtt': float(found['rtt'].min())})}" if len(places) > 1 else ""
    add_caption(figure, caption, [throughput_note(summary), _RATES, f"{_OF_TRANSFERS}{one_of}."])
    return figure


def _draw_table(axes: Any, table: pd.DataFrame, subject: str) -> None:
    axes.set_axis_off()
    axes.set_title(f"{subject} of the most flows")
    text = table.map(lambda value: "" if pd.isna(value) else short(value))
    drawn = axes.table(
        cellText=text.values,
        rowLabels=list(table.index),
        colLabels=["start-up s", "sending s", "total s", "Gbit/s"],
        loc="upper center",
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(7)
