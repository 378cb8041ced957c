"""What a report carries: the files in the page, the cells in its table, the figures in its pixels."""

from __future__ import annotations

import base64
import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from matplotlib.image import imread

RESULTS = "var results = "
"""Where the page that Snakemake writes has its files."""


def check_report(page: Path, cells: int) -> None:
    """A row for each cell that was asked for, figures with something in them, and notebooks with such figures."""
    files = carried(page)
    rows = csv.DictReader(io.StringIO(files["cells.csv"].decode()))
    assert [row["status"] for row in rows if row["status"] != "missing"] == ["ok"] * cells
    figures = [content for name, content in files.items() if name.endswith(".png")]
    assert len(figures) >= 2
    for figure in figures:
        check_figure(figure)
    notebooks = [content for name, content in files.items() if name.endswith(".html")]
    assert len(notebooks) >= 2
    for notebook in notebooks:
        check_notebook(notebook.decode())


def carried(page: Path) -> dict[str, bytes]:
    """The files in a report, by name."""
    text = page.read_text()
    found, _ = json.JSONDecoder().raw_decode(text, text.index(RESULTS + "{") + len(RESULTS))
    return {entry["name"]: decoded(entry["data_uri"]) for entry in found.values()}


def check_figure(png: bytes) -> None:
    """It has the colours of more than one flat area and its border."""
    pixels = imread(io.BytesIO(png), format="png")
    colours = np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)
    assert min(pixels.shape[:2]) >= 100
    assert len(colours) > 10


def check_notebook(text: str) -> None:
    """It has run to its end: a table with rows, and figures."""
    page = Page()
    page.feed(text)
    assert page.rows > 1
    assert page.figures
    for figure in page.figures:
        check_figure(figure)


def decoded(uri: str) -> bytes:
    """What a data URI holds."""
    return base64.b64decode(uri.partition("base64,")[2])


class Page(HTMLParser):
    """The rows of a page's tables, and its figures."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.figures: list[bytes] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count what is there."""
        self.rows += tag == "tr"
        source = dict(attrs).get("src") or ""
        if tag == "img" and source.startswith("data:image/png"):
            self.figures.append(decoded(source))
