# SPDX-License-Identifier: Apache-2.0
"""All published figures in one place: the table of verdicts as CSV, JSON and PNG, and a page with the figures."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from tpcsweep.claims import CLAIMS
from tpcsweep.claims.base import Outcome
from tpcsweep.claims.effects import CONFIDENCE
from tpcsweep.dataset.tables import write_csv
from tpcsweep.figures import save
from tpcsweep.figures.labels import plain
from tpcsweep.figures.panels import head, styled
from tpcsweep.files import write_text
from tpcsweep.pages.rendering import published
from tpcsweep.published.carried import PREDICTION
from tpcsweep.published.figures import ELSEWHERE, FIGURES
from tpcsweep.published.layout import COLOURS
from tpcsweep.published.making import without_data

COLUMNS = (
    "claim",
    "figure",
    "verdict",
    "outcome",
    "role",
    "follows_from",
    "draws_agree",
    "draws",
    "data",
    "testbed",
    "scale",
    "effect",
    "value",
    "low",
    "high",
    "units",
    "published",
    "reason",
    "to_test",
)
_ELSEWHERE = "in no figure here"


def table(pictures: Iterable[Path], studies: Iterable[Mapping[str, Any]] = ()) -> pd.DataFrame:
    """Return a row for each claim of each figure, of each study, and for each claim that no figure carries.

    The verdicts of a figure are beside its picture. Figures without a picture have no data.
    """
    rows = [row for picture in pictures for row in orjson.loads(picture.with_suffix(".json").read_bytes())]
    drawn = {row["figure"] for row in rows}
    rows += [row for name, figure in FIGURES.items() if name not in drawn for row in without_data(figure)]
    rows += studies
    rows += [
        {"claim": name, "verdict": _ELSEWHERE, "published": CLAIMS[name].text, "reason": where}
        for name, where in ELSEWHERE.items()
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def write(folder: Path, pictures: Sequence[Path], studies: Iterable[Mapping[str, Any]] = ()) -> None:
    """Write verdicts.csv, .json, .png and .svg, and published.html with the figures."""
    verdicts = table(pictures, studies)
    write_csv(verdicts, folder / "verdicts.csv")
    rows = [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in verdicts.to_dict("records")
    ]
    content = orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    (folder / "verdicts.json").write_bytes(content)
    lines = [_line(row) for row in rows]
    said = predictions(rows)
    save(drawn(lines, said), folder, "verdicts")
    write_text(folder / "published.html", published(_page(lines, said, pictures)))


def predictions(rows: Iterable[Mapping[str, Any]]) -> str:
    """Say which predictions of the simulation published claims confirm: those that were neither put in nor follow.

    A claim confirms one if it holds on every figure that predicts it, in `CONFIDENCE` of the parameter sets.

    Args:
        rows: of the table of verdicts, by its columns.
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
    """A row of the table as texts for people, one for each column of `_HEAD`."""
    value, low, high = row["value"], row["low"], row["high"]
    effect = "" if value is None else f"{value:.3g}"
    if value is not None and low is not None and low != high:
        units = "" if row["units"] in (None, "1") else f" {row['units']}"
        effect += f" ({low:.3g} to {high:.3g}){units}"
    agree = "" if row["draws"] is None else f"{row['draws_agree']:.0f} of {row['draws']:.0f}"
    data = ", ".join(row[name] for name in ("data", "testbed", "scale") if row[name])
    return [row["claim"], row["figure"] or "", data, row["verdict"], effect, row["role"] or "", agree]


_HEAD = ("claim", "figure", "data", "verdict", "effect", "role", "draws that agree")


@styled()
def drawn(lines: Sequence[Sequence[str]], said: str) -> Figure:
    """Draw the table of verdicts; `lines` are its rows for people, `said` is what they say of predictions."""
    figure = Figure(figsize=(13, 0.21 * len(lines) + 0.4), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    wide = [0.19, 0.11, 0.2, 0.12, 0.2, 0.08, 0.1]
    text = axes.table(
        cellText=[[plain(textwrap.shorten(cell, 44, placeholder=" …")) for cell in line] for line in lines],
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
        "Of simulated data interval and agreement are of random parameter sets. Inputs chose parameters, and what "
        f"follows from an assumption was put in: neither is a prediction. {said}"
    )
    head(figure, "Published claims, each on the data of the figure that carries it", [note])
    return figure


def _page(lines: Sequence[Sequence[str]], said: str, pictures: Sequence[Path]) -> dict[str, Any]:
    """The content of the page, pictures included."""
    shown = []
    for picture in pictures:
        name = orjson.loads(picture.with_suffix(".json").read_bytes())[0]["figure"]
        png = base64.b64encode(picture.read_bytes()).decode()
        shown.append({"name": name, "title": FIGURES[name].title, "png": png})
    return {"head": _HEAD, "lines": lines, "said": said, "pictures": shown}
