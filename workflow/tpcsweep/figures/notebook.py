# SPDX-License-Identifier: Apache-2.0
"""What notebooks show: figures, and text from data, which stays text in the pages that are made of notebooks."""

import re
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
from IPython.display import Image, display
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler  # type: ignore[import-untyped]

from tpcsweep.figures.panels import save


def show(figure: Figure, folder: str | Path, name: str, alt: str | None = None) -> None:
    """Write a figure to a folder as PNG and SVG, and show the PNG; `alt` says it in words, by default its name."""
    save(figure, Path(folder), name)
    width = 96 * figure.get_figwidth()
    display(Image(Path(folder) / f"{name}.png", width=width, alt=alt or name))  # type: ignore[no-untyped-call]


def as_table(frame: pd.DataFrame, precision: int = 3, *, index: bool = True) -> Styler:
    """Give a table for a page: numbers with so many decimals, nothing for NaN, and no text that is HTML."""
    table = frame.style.format(precision=precision, na_rep="", escape="html")
    for axis in ("index", "columns"):
        table = table.format_index(escape="html", axis=axis).format_index_names(escape="html", axis=axis)
    return table if index else table.hide(axis="index")


def as_text(content: object) -> str:
    """Give the text of something for Markdown in which no sign is one of Markdown or HTML."""
    signs = r"[!#$&()*+:<>@\[\\\]^_`{|}~-]"
    return re.sub(signs, lambda sign: f"&#{ord(sign[0])};", " ".join(str(content).split()))
