"""Which files hold what was measured for the open questions, below a folder of results."""

from __future__ import annotations

from pathlib import Path

SWEEPS = ("rivals", "netem-limit", "settle")
"""Sweeps that speak to the questions."""
SHIPPED = Path(__file__).parents[4] / "examples" / "open_questions"
"""Measurements of the project: the experiments, and a dataset for each sweep."""


def experiments(results: Path) -> Path:
    """Where the experiments in user-mode-linux are, as JSON."""
    return results / "published" / "open_questions" / "netem_in_uml.json"


def there(results: Path) -> tuple[Path, tuple[Path, ...]]:
    """Give experiments and datasets to read: those that were measured on this machine, or else the shipped ones."""
    made = experiments(results)
    found = tuple(path for path in datasets(results) if path.exists())
    sweeps = {path.parent.name for path in found}
    shipped = (path for path in sorted(SHIPPED.glob("*.nc")) if path.stem not in sweeps)
    return made if made.exists() else SHIPPED / made.name, (*found, *shipped)


def datasets(results: Path) -> tuple[Path, ...]:
    """Where the datasets of the sweeps are or would be, on this machine and on every other testbed."""
    elsewhere = (sorted(results.glob(f"{sweep}@*/dataset.nc")) for sweep in SWEEPS)
    return tuple(
        path
        for sweep, others in zip(SWEEPS, elsewhere, strict=True)
        for path in (results / sweep / "dataset.nc", *others)
    )
