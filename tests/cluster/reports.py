# SPDX-License-Identifier: Apache-2.0
"""The files that a run ends with: every cell in a table, figures, and notebooks with figures of their own."""

import csv
from pathlib import Path

from tests.support.browser import widths
from tests.support.pictures import Pixels, embedded, filled, hues, pixels


def check_results(results: Path, cells: int) -> None:
    """Open everything that a sweep with so many cells has ended in, in Chromium and by its pixels."""
    table = csv.DictReader((results / "cells.csv").read_text().splitlines())
    assert [row["status"] for row in table if row["status"] != "not_measured"] == ["ok"] * cells
    assert (results / "index.html").exists()
    # Of so few cells the models' figures and the surface only say what they need.
    notes = ("model_", "throughput_surface")
    figures = [file for file in results.glob("figures/*.png") if not file.stem.startswith(notes)]
    assert len(figures) >= 2
    assert all(shows_something(pixels(figure)) for figure in figures)
    for name in ("surface", "limits"):
        page = results / "notebooks" / f"{name}.html"
        blank = [shown for shown in embedded(page.read_text()) if not shows_something(shown)]
        assert len(blank) <= (name == "surface")
        assert min(widths(page), default=0) > 0


def shows_something(shown: Pixels) -> bool:
    """Lines in colours, however thin, or areas: a map is grey where the machine is the limit, or no limit was found."""
    return hues(shown, 1e-4) > 0 or filled(shown) > 0.01
