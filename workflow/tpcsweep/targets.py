"""What a run was asked for, as far as it says whether the configured sweep has a part in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from snakemake.cli import get_argument_parser  # type: ignore[import-untyped]

from tpcsweep.published import NAMES

_OTHERS = ("published", "terena2005", "open_questions")
"""What the names of the other targets begin with that reproduce publications."""


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


def _published(target: str, folder: Path) -> bool:
    return target in NAMES or target.startswith(_OTHERS) or Path(target).is_relative_to(folder)
