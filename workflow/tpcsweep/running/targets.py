"""What a run was asked for, as far as it says whether the configured sweep has a part in it, and is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from snakemake.cli import get_argument_parser  # type: ignore[import-untyped]

from tpcsweep.published import NAMES
from tpcsweep.running.jobs import DEPLOYMENT

_OTHERS = ("published", "terena2005", "open_questions")
"""What the names of the other targets begin with that reproduce publications."""
_MEASURING = ("all", "cells", "again", "dataset", "report", "adaptive")
"""Rules that measure what is not there, beside those of deployments."""
_MEASURED = ("cells", "not_measured.json", "front.rst", "dataset.nc", "cells.csv", "report.html")
"""Their files, and the folder of the cells."""
_WITHOUT_CELLS = ("grid", "reap", "import", "compare", "comparison", "compare_notebook")
"""Rules that need no cells of the configured sweep."""


def requested(argv: Sequence[str]) -> list[str]:
    """The rules and files that a Snakemake was asked for by its command line; none for the default target.

    While rules are read Snakemake tells them no targets yet (`workflow.dag_settings` is None), and so its own parser
    is asked. The process of a job names the job's rule. Where Snakemake is no command (its API) nothing is known.
    """
    program = Path(argv[0])
    if "snakemake" not in (program.name, program.parent.name):
        return []
    given, _ = get_argument_parser().parse_known_args(list(argv[1:]))
    return [*given.targets, *(job.rulename for job in given.target_jobs)]


def of_configured_sweep(targets: Iterable[str], results: str) -> bool:
    """Whether any of the targets may need the configured sweep: all but those that reproduce publications do.

    Figures have sweeps of their own, which their inner Snakemake configures.
    """
    targets = list(targets)
    return not targets or not all(_published(target, Path(results) / "published") for target in targets)


def of_what_is_there(targets: Iterable[str], results: str, folder: Path) -> bool:
    """Whether nothing is asked for but what is made of a dataset, such as models, and so of the cells that are there.

    folder: of the sweep's results.
    """
    published = Path(results) / "published"
    asked = [
        target for target in targets if target not in _WITHOUT_CELLS and not _published(target, published)
    ]
    return bool(asked) and not any(_measuring(target, folder) for target in asked)


def _measuring(target: str, folder: Path) -> bool:
    if target in _MEASURING or target.startswith(DEPLOYMENT):
        return True
    return any(Path(target).is_relative_to(folder / name) for name in _MEASURED)


def _published(target: str, folder: Path) -> bool:
    return target in NAMES or target.startswith(_OTHERS) or Path(target).is_relative_to(folder)
