"""Whether the configured sweep has a part in what a run was asked for, and is measured."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpcsweep.running.jobs import DEPLOYMENT

_OTHERS = ("published", "terena2005", "open_questions")
"""What the names of the other targets begin with that reproduce publications."""
_MEASURING = ("all", "cells", "again", "dataset", "report", "adaptive")
"""Rules that measure what is not there, beside those of deployments."""
_MEASURED = ("cells", "not_measured.json", "front.rst", "dataset.nc", "cells.csv", "report.html")
"""Their files, and the folder of the cells."""
_WITHOUT_CELLS = ("grid", "reap", "import", "compare", "comparison", "compare_notebook")
"""Rules that need no cells of the configured sweep."""


@dataclass(frozen=True)
class Targets:
    """The rules and files that a run was asked for; none for the default target."""

    names: Sequence[str]
    figures: Collection[str]
    """The names of published figures."""
    published: Path
    """The folder of what reproduces publications."""

    @property
    def of_configured_sweep(self) -> bool:
        """Whether any may need the configured sweep: all but those that reproduce publications do.

        Figures have sweeps of their own, which their inner Snakemake configures.
        """
        return not self.names or not all(map(self._is_published, self.names))

    def of_what_is_there(self, folder: Path) -> bool:
        """Whether nothing is asked for but what is made of a dataset, such as models, and so of cells that are there.

        Args:
            folder: of the configured sweep's results.
        """
        asked = [name for name in self.names if name not in _WITHOUT_CELLS and not self._is_published(name)]
        return bool(asked) and not any(_measures(name, folder) for name in asked)

    def _is_published(self, name: str) -> bool:
        return name in self.figures or name.startswith(_OTHERS) or Path(name).is_relative_to(self.published)


def _measures(target: str, folder: Path) -> bool:
    if target in _MEASURING or target.startswith(DEPLOYMENT):
        return True
    return any(Path(target).is_relative_to(folder / name) for name in _MEASURED)
