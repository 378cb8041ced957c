"""Which files hold what was measured for the open questions, below a folder of results."""

from __future__ import annotations

from pathlib import Path

SWEEPS = ("rivals", "netem-limit", "settle")
"""Sweeps that speak to the questions."""


def experiments(results: Path) -> Path:
    """Where the experiments in user-mode-linux are, as JSON."""
    return results / "published" / "open_questions" / "netem_in_uml.json"


def datasets(results: Path) -> tuple[Path, ...]:
    """Where the datasets of the sweeps are or would be, on this machine and on every other testbed."""
    there = (sorted(results.glob(f"{sweep}@*/dataset.nc")) for sweep in SWEEPS)
    return tuple(
        path
        for sweep, others in zip(SWEEPS, there, strict=True)
        for path in (results / sweep / "dataset.nc", *others)
    )
