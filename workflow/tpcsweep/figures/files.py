"""Figures as files."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure


def save(figure: Figure, folder: str | Path, name: str) -> None:
    """Write `name`.png (150 dpi) and `name`.svg into a folder; the same dataset gives the same files."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "tpcsweep"}):
        figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
