# SPDX-License-Identifier: Apache-2.0
"""Which files hold what was measured for the open questions, below a folder of results."""

from __future__ import annotations

from pathlib import Path

SWEEPS = ("rivals", "netem-limit", "settle")  # sweeps that speak to the questions
SHIPPED = Path(__file__).parents[2] / "examples" / "open_questions"
"""Measurements of the project: the experiments, and a dataset for each sweep."""


def experiments(results: Path) -> Path:
    """Where the experiments in user-mode-linux are, as JSON."""
    return results / "published" / "open_questions" / "netem_in_uml.json"


def there(results: Path) -> tuple[Path, tuple[Path, ...]]:
    """Give experiments and datasets to read: those that were measured on this machine, or else the shipped ones."""
    own = experiments(results)
    datasets = [
        path
        for sweep in SWEEPS
        for name in (sweep, f"{sweep}@*")  # on this machine, and on every other testbed
        for path in sorted(results.glob(f"{name}/dataset.nc"))
    ]
    sweeps = {path.parent.name for path in datasets}
    shipped = (path for path in sorted(SHIPPED.glob("*.nc")) if path.stem not in sweeps)
    return own if own.exists() else SHIPPED / own.name, (*datasets, *shipped)
