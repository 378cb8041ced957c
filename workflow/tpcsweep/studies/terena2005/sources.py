"""Which files hold what was measured of the cases."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parents[4] / "examples" / "terena2005"
"""Measurements of the project, a file for each case."""


def measured_in(folder: Path) -> list[Path]:
    """What was measured on this machine, and where nothing was, what is shipped: measured on one of the project's."""
    return sorted(folder.glob("*.json")) or sorted(SHIPPED.glob("*.json"))
