# SPDX-License-Identifier: Apache-2.0
"""Report on all published figures: table of verdicts as CSV, JSON and PNG, and a page with figures."""

import base64
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from tpcsweep.analysis.claims.claim import Outcome
from tpcsweep.analysis.claims.judging import CLAIMS
from tpcsweep.analysis.publications.catalogue import FIGURES
from tpcsweep.analysis.publications.drawing import COLOURS
from tpcsweep.analysis.publications.reproduction import PREDICTION, without_data
from tpcsweep.common.files import write_json, write_text
from tpcsweep.common.numbers import CONFIDENCE, between, short
from tpcsweep.data.tables import write_csv
from tpcsweep.pages.figures import save
from tpcsweep.pages.figures.axis_labels import escape_math
from tpcsweep.pages.figures.panels import add_header, styled, tiles
from tpcsweep.pages.rendering import render

COLUMNS = (
    *("claim", "figure", "verdict", "outcome", "role", "follows_from", "draws_agree", "draws", "data"),
    *("testbed", "scale", "effect", "value", "low", "high", "units", "published", "reason", "to_test"),
)


def claim_rows(pictures: Iterable[Path], studies: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each claim of each figure, of each study, and for each claim without a figure.

    A figure's verdicts are in the JSON file next to its picture. Figures without a picture have no data.
    """
    rows = [row for picture in pictures for row in orjson.loads(picture.with_suffix(".json").read_bytes())]
    drawn = {row["figure"] for row in rows}
    rows += [row for name, figure in FIGURES.items() if name not in drawn for row in without_data(figure)]
    rows += studies
    rows += [
        {"claim": name, "verdict": "in no figure here", "published": claim.text, "reason": claim.elsewhere}
        for name, claim in CLAIMS.items()
        if claim.elsewhere
    ]
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def write_report(folder: Path, pictures: Sequence[Path], studies: Iterable[Mapping[str, Any]]) -> None:
    """Write verdicts.csv, .json, .png and .svg, and published.html with the figures."""
    rows = claim_rows(pictures, studies)
    write_csv(pd.DataFrame(rows), folder / "verdicts.csv")
    write_json(folder / "verdicts.json", rows)
    lines = [_line(row) for row in rows]
    confirmed = predictions(rows)
    save(verdict_picture(lines, confirmed), folder, "verdicts")
    shown = []
    for picture in pictures:
        name = orjson.loads(picture.with_suffix(".json").read_bytes())[0]["figure"]
        png = base64.b64encode(picture.read_bytes()).decode()
        shown.append({"name": name, "title": FIGURES[name].title, "png": png})
    table = [
        {"cells": line, "published": row["published"] or ""} for line, row in zip(lines, rows, strict=True)
    ]
    page = render("published", head=_HEAD, lines=table, confirmed=confirmed, pictures=shown)
    write_text(folder / "published.html", page)


def predictions(rows: Iterable[Mapping[str, Any]]) -> str:
    """Describe which predictions of the simulation are confirmed by published claims.

    Predictions exclude inputs and claims that follow from assumptions. A claim confirms one if it holds on every figure
    that predicts it, in `CONFIDENCE` of the parameter sets. The rows are those of the table of verdicts.
    """
    verdicts: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        if row["role"] == PREDICTION:
            share = (row["draws_agree"] or 0) / (row["draws"] or 1)
            verdicts.setdefault(row["claim"], []).append((row["outcome"], share))
    confirmed = [
        claim
        for claim, found in verdicts.items()
        if all(outcome == Outcome.HOLDS and share >= CONFIDENCE for outcome, share in found)
    ]
    others = [
        f"{claim} {' and '.join(dict.fromkeys(f'{word} ({share:.0%} of sets)' for word, share in found))}"
        for claim, found in verdicts.items()
        if claim not in confirmed
    ]
    first = f"Confirmed: {', '.join(confirmed)}" if confirmed else "No independent prediction is confirmed"
    return f"{first}; {', '.join(others)}." if others else f"{first}."


def _line(row: Mapping[str, Any]) -> list[str]:
    value, low, high = row["value"], row["low"], row["high"]
    effect = "" if value is None else short(value)
    if value is not None and low is not None and low != high:
        units = "" if row["units"] in (None, "1") else f" {row['units']}"
        effect += f" ({between(low, high)}){units}"
    agree = "" if row["draws"] is None else f"{row['draws_agree']:.0f} of {row['draws']:.0f}"
    data = ", ".join(row[name] for name in ("data", "testbed", "scale") if row[name])
    return [row["claim"], row["figure"] or "", data, row["verdict"], effect, row["role"] or "", agree]


_HEAD = ("claim", "figure", "data", "verdict", "effect", "role", "draws that agree")


@styled()
def verdict_picture(lines: Sequence[Sequence[str]], predictions_text: str) -> Figure:
    """Draw the table of verdicts; `lines` are its rows, `predictions_text` is the result of `predictions`."""
    figure, [axes] = tiles(1, 13, 0.21 * len(lines) + 0.4, (0, 0))
    axes.set_axis_off()
    wide = [0.19, 0.11, 0.2, 0.12, 0.2, 0.08, 0.1]
    text = axes.table(
        cellText=[
            [escape_math(textwrap.shorten(cell, 44, placeholder=" …")) for cell in line] for line in lines
        ],
        colLabels=list(_HEAD),
        colWidths=wide,
        cellLoc="left",
        bbox=Bbox.unit(),
    )
    text.auto_set_font_size(False)
    text.set_fontsize(7.5)
    for (place, column), cell in text.get_celld().items():
        cell.set_linewidth(0.3)
        if place == 0:
            cell.set_text_props(fontweight="bold")
        elif column == _HEAD.index("verdict"):
            word = lines[place - 1][column]
            cell.set_text_props(color=COLOURS.get(word, "#666666"), fontweight="bold")
    note = (
        "For simulated data, intervals and agreement are over random parameter sets. Claims that are inputs "
        f"or follow from an assumption are not predictions. {predictions_text}"
    )
    add_header(figure, "Published claims, each on the data of the figure that carries it", [note])
    return figure
