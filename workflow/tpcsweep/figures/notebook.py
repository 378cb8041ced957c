# SPDX-License-Identifier: Apache-2.0
"""Figures in notebooks."""

from pathlib import Path

from IPython.display import Image, display
from matplotlib.figure import Figure

from tpcsweep.figures.panels import save


def show(figure: Figure, folder: str | Path, name: str, alt: str | None = None) -> None:
    """Write a figure to a folder as PNG and SVG, and show the PNG; `alt` says it in words, by default its name."""
    save(figure, Path(folder), name)
    width = 96 * figure.get_figwidth()
    display(Image(Path(folder) / f"{name}.png", width=width, alt=alt or name))  # type: ignore[no-untyped-call]
