# SPDX-License-Identifier: Apache-2.0
"""What a report shows once a sweep has run: every cell, figures, and notebooks with figures of their own."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.support.browser import opened, widths
from tests.support.pictures import Pixels, embedded, filled, hues, pixels


def check_results(results: Path, cells: int, folder: Path) -> None:
    """Open everything that a sweep with so many cells has ended in, in Chromium and by its pixels."""
    _, seen = opened(results / "report.html", folder)
    table = csv.DictReader(seen["cells.csv"]["table"].splitlines())
    assert [row["status"] for row in table if row["status"] != "not_measured"] == ["ok"] * cells
    figures = {name: one["width"] for name, one in seen.items() if name.endswith(".png")}
    assert len(figures) >= 2
    assert all(figures.values()), figures
    assert all(shows_something(pixels(results / "figures" / name)) for name in figures)
    notebooks = [name for name, one in seen.items() if one["page"]]
    assert "surface.html" in notebooks
    for name in notebooks:
        page = results / "notebooks" / name
        assert all(map(shows_something, embedded(page.read_text())))
        assert min(widths(page, folder), default=0) > 0


def shows_something(shown: Pixels) -> bool:
    """Lines in colours, however thin, or areas: a map is grey where the machine is the limit, or no limit was found."""
    return hues(shown, 1e-4) > 0 or filled(shown) > 0.01
