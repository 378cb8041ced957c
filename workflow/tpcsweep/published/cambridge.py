# SPDX-License-Identifier: Apache-2.0
"""Concurrent davix flows: rate against flows, rate against time, and the table of single transfers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.figure import Figure

from tpcsweep.dataset import STATUS
from tpcsweep.figures.labels import band_note, mean_note, rate_label, title_of
from tpcsweep.figures.line_plots import colours
from tpcsweep.figures.panels import styled
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.layout import board, close
from tpcsweep.rates import GBIT

PUBLISHED = {1: 8.0, 5: 25.0, 10: 53.0}  # total rate in Gbit/s by flows

_SHOWN = (1, 2, 5, 10)  # flows whose rates are drawn against time
_BINS = 40
_OF_TRANSFERS = "Rates against time, and the table, are of single transfers, each spread evenly"


def flows(data: Data) -> pd.DataFrame:
    """Give a table of single transfers of the most flows.

    Of several RTTs and repetitions it has the first.

    Returns:
        A row for the first transfer that each flow ended well, then `sum` (of the rates alone) and `mean`. Columns are
        `startup`, `sending` and `total` in s, and `rate` in Gbit/s.
    """
    transfers = _ended_well(data)
    most = transfers[transfers["streams"] == transfers["streams"].max()]
    first = most.sort_values(["stream", "number"]).drop_duplicates("stream")
    table = first.set_index("stream")[["startup", "sending", "total", "rate"]]
    table.index = table.index.map(str)
    mean = table.mean()
    table.loc["sum"] = [np.nan, np.nan, np.nan, table["rate"].sum()]
    table.loc["mean"] = mean
    return table


def _ended_well(data: Data) -> pd.DataFrame:
    """Transfers of the first repetition, at the smallest RTT."""
    transfers = data.transfers.to_dataframe().reset_index()
    for name in ("repetition", "rtt"):
        if name in transfers:
            transfers = transfers[transfers[name] == transfers[name].min()]
    return transfers[transfers["ok"] == 1]


def rates(data: Data, count: int) -> tuple[Any, Any]:
    """Give the total rate of so many flows against time: each transfer's bytes spread evenly over its sending.

    Returns:
        The ends of bins, in s, and the rates in them, in Gbit/s.
    """
    transfers = _ended_well(data)
    part = transfers[transfers["streams"] == count].dropna(subset=["first_byte"])
    edges = np.linspace(0, part["end"].max() if len(part) else 1.0, _BINS + 1)
    total = np.zeros(_BINS)
    for start, end, size in part[["first_byte", "end", "size"]].itertuples(index=False):
        inside = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0, None)
        total += inside * size * GBIT / max(end - start, 1e-9)
    return edges[1:], total / np.diff(edges)


@styled()
def _flows(data: Data, shown: Shown) -> Figure:
    summary = data.summary
    ok = summary["status"] == STATUS.index("ok")
    means = summary.where(ok)[["throughput", "throughput_low", "throughput_high"]].mean("repetition")
    if "rtt" not in means.dims:
        means = means.expand_dims("rtt")
    x, rtts = means["streams"].values, means["rtt"].values.tolist()
    figure, [against, time, table] = board([3], 3.3, 3.4, shown)
    for rtt, colour in zip(rtts, colours(len(rtts) + 1), strict=False):
        curve = means.sel(rtt=rtt)
        against.fill_between(x, curve["throughput_low"], curve["throughput_high"], alpha=0.2, color=colour)
        against.plot(x, curve["throughput"], marker=".", color=colour, label=title_of({"rtt": rtt}))
    # On a path that is slower than theirs the shape can be compared, and the level cannot.
    most = max(PUBLISHED.values())
    slower = float(summary["bandwidth"].max()) < most
    scale = float(means["throughput"].max()) / most if slower else 1.0
    against.plot(
        list(PUBLISHED),
        [rate * scale for rate in PUBLISHED.values()],
        linestyle="",
        marker="x",
        color="#D55E00",
        label=f"published, × {scale:.3g}" if slower else "published",
    )
    label = rate_label(summary, "total rate")
    against.set(xlabel="flows", ylabel=label, ylim=(0, None), title="rate against flows")
    against.legend(fontsize=7)
    counts = [count for count in _SHOWN if count in x]
    for count, colour in zip(counts, colours(len(counts)), strict=True):
        time.plot(*rates(data, count), color=colour, label=f"{count}")
    top = 1.25 * float(means["throughput"].max())
    time.set(xlabel="time (s)", ylabel=label, ylim=(0, top), title="rate against time")
    time.legend(title="flows", fontsize=7, loc="upper right", ncols=4)
    _draw_table(table, flows(data), "simulated transfers" if data.simulated else "single transfers")
    one_of = f", at {title_of({'rtt': min(rtts)})}" if len(rtts) > 1 else ""
    close(figure, shown, [f"{mean_note(summary)} {band_note(summary)}", f"{_OF_TRANSFERS}{one_of}."])
    return figure


def _draw_table(axes: Any, table: pd.DataFrame, subject: str) -> None:
    axes.set_axis_off()
    axes.set_title(f"{subject} of the most flows")
    text = table.map(lambda value: "" if pd.isna(value) else f"{value:.3g}")
    drawn = axes.table(
        cellText=text.values,
        rowLabels=list(table.index),
        colLabels=["start-up s", "sending s", "total s", "Gbit/s"],
        loc="upper center",
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(7)


FIGURES = (
    PublishedFigure(
        "cambridge",
        "Concurrent davix flows: rate against flows, rate against time, single transfers",
        ("cambridge.scales",),
        _flows,
        testbed="simulation-cambridge",
    ),
)
