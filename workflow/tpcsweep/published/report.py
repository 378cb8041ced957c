"""All published figures in one place: the table of verdicts as CSV, JSON and PNG, and a page with the figures."""

from __future__ import annotations

import base64
import html
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from tpcsweep.claims import CLAIMS
from tpcsweep.figures import save
from tpcsweep.figures.panels import head, styled
from tpcsweep.published.figures import ELSEWHERE, FIGURES
from tpcsweep.published.layout import COLOURS
from tpcsweep.studies.terena2005.judged import verdicts as terena2005
from tpcsweep.studies.terena2005.outcomes import Outcome, read
from tpcsweep.studies.terena2005.sources import measured_in

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


def table(made: Sequence[Path], runs: Sequence[Outcome] = ()) -> pd.DataFrame:
    """Give a row for each claim of each figure that was made, of terena2005, and for each claim that none carries.

    made: the figures' pictures, whose verdicts are beside them. runs: of terena2005, simulated and measured.
    """
    rows = [row for picture in made for row in orjson.loads(picture.with_suffix(".json").read_bytes())]
    rows += terena2005(runs)
    rows += [
        {"claim": name, "verdict": _ELSEWHERE, "published": CLAIMS[name].text, "reason": where}
        for name, where in ELSEWHERE.items()
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def write(folder: Path, made: Mapping[str, Path], others: Sequence[Path] = ()) -> None:
    """Write verdicts.csv, .json, .png, .svg and report.html.

    made: pictures by figure. others: files of other targets, which the page leads to; those of terena2005 are read from
    its folder beside the figures'.
    """
    terena = folder / "terena2005"
    runs = read([*terena.glob("simulated/*.json"), *measured_in(terena / "measured")])
    verdicts = table(list(made.values()), runs)
    verdicts.to_csv(folder / "verdicts.csv", index=False, float_format="%.6g")
    rows = [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in verdicts.to_dict("records")
    ]
    content = orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    (folder / "verdicts.json").write_bytes(content)
    save(drawn(verdicts), folder, "verdicts")
    links = "".join(f'<li><a href="{_link(file, folder)}">{file.name}</a></li>' for file in others)
    (folder / "report.html").write_text(_page(verdicts, made, links))


def effect(row: Mapping[str, Any]) -> str:
    """An effect with its interval, for people; nothing where there is none."""
    if pd.isna(row["value"]):
        return ""
    if pd.isna(row["low"]) or row["low"] == row["high"]:
        return f"{row['value']:.3g}"
    units = "" if row["units"] in (None, "1") or pd.isna(row["units"]) else f" {row['units']}"
    return f"{row['value']:.3g} ({row['low']:.3g} to {row['high']:.3g}){units}"


def agreement(row: Mapping[str, Any]) -> str:
    """How many of the random parameter sets agree; nothing of what was not simulated."""
    return "" if pd.isna(row["draws"]) else f"{row['draws_agree']:.0f} of {row['draws']:.0f}"


def _cells(row: Mapping[str, Any]) -> list[str]:
    """A row of the table for people."""

    def text(name: str) -> str:
        return "" if pd.isna(row[name]) else str(row[name])

    on = ", ".join(part for part in (text("data"), text("testbed"), text("scale")) if part)
    return [text("claim"), text("figure"), on, text("verdict"), effect(row), text("role"), agreement(row)]


_HEAD = ("claim", "figure", "data", "verdict", "effect", "role", "draws that agree")


def drawn(verdicts: pd.DataFrame) -> Figure:
    """Draw the table."""
    rows = [_cells(row) for row in verdicts.to_dict("records")]
    with styled():
        figure = Figure(figsize=(13, 0.21 * len(rows) + 0.4), layout="constrained")
        axes = figure.subplots()
        axes.set_axis_off()
        wide = [0.19, 0.11, 0.2, 0.12, 0.2, 0.08, 0.1]
        text = axes.table(
            cellText=[[textwrap.shorten(cell, 44, placeholder=" …") for cell in row] for row in rows],
            colLabels=list(_HEAD),
            colWidths=wide,
            cellLoc="left",
            bbox=Bbox.unit(),
        )
        text.auto_set_font_size(False)
        text.set_fontsize(7.5)
        for (line, column), cell in text.get_celld().items():
            cell.set_linewidth(0.3)
            if line == 0:
                cell.set_text_props(fontweight="bold")
            elif column == _HEAD.index("verdict"):
                word = rows[line - 1][column]
                cell.set_text_props(color=COLOURS.get(word, "#666666"), fontweight="bold")
        note = (
            "Of simulated data interval and agreement are of random parameter sets. Inputs chose parameters, and what "
            "follows from an assumption was put in: neither is a prediction."
        )
        head(figure, "Published claims, each on the data of the figure that carries it", [note])
    return figure


def _link(file: Path, folder: Path) -> str:
    return html.escape(os.path.relpath(file, folder))


def _page(verdicts: pd.DataFrame, made: Mapping[str, Path], links: str) -> str:
    """A page that needs no network: its pictures are in it."""
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row)) + "</tr>\n"
        for row in verdicts.to_dict("records")
    )
    pictures = "".join(
        f'<h2 id="{name}">{html.escape(FIGURES[name].title)}</h2>\n<img alt="{html.escape(FIGURES[name].title)}" '
        f'src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">\n'
        for name, path in made.items()
    )
    head_ = "".join(f"<th>{name}</th>" for name in _HEAD)
    return _PAGE.format(head=head_, lines=lines, pictures=pictures, links=links)


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Published figures</title>
<style>body{{font-family:sans-serif;max-width:100em;margin:1em auto;padding:0 1em}}
table{{border-collapse:collapse;font-size:85%}}td,th{{border:1px solid #ccc;padding:.2em .5em;text-align:left}}
img{{max-width:100%}}</style></head><body>
<h1>Published figures and claims</h1>
<p>Each verdict is one on the data of the figure that carries the claim. Where data are simulated, title and table say
so; "input" is a claim by which parameters of the simulation were chosen, "assumption" one that follows nearly by hand
from something that was assumed: neither is a prediction. "Not decided" has data that do not decide, "not testable here"
has none.</p>
<table><tr>{head}</tr>
{lines}</table>
<ul>{links}</ul>
{pictures}</body></html>
"""
