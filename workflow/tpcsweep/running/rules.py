# SPDX-License-Identifier: Apache-2.0
"""What the workflow's rules ask: patterns, priorities, what is made anew, whether the configured sweep takes part."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.sweep import Group
from tpcsweep.files import is_changed
from tpcsweep.running import results

QUEUED_CELL = 10.0
"""Seconds that a queue is told for a simulated cell: most take less than one, those of an hour's transfers six."""
DEPLOYMENT = "deployment_"
"""What the names of the rules that measure begin with."""
_OTHERS = ("published", "terena2005", "open_questions")
"""What the names of the other targets begin with that reproduce publications."""
_MEASURING = ("all", "cells", "again", "dataset", "report", "adaptive")
"""Rules that measure what is not there, beside those of deployments."""
_MEASURED = ("cells", "not_measured.json", "front.rst", "dataset.nc", "cells.csv", "report.html")
"""Their files, and the folder of the cells."""
_WITHOUT_CELLS = ("help", "grid", "status", "reap", "import", "compare", "comparison", "compare_notebook")
"""Rules that need no cells of the configured sweep."""
_OF_A_QUESTION = ("plan", "answer", "recommendations", "plan_notebook")
"""Rules that read what is asked of models; `_ANSWERS` are the folders of their files."""
_ANSWERS = ("plan", "notebooks/plan")


class Jobs:
    """The jobs of a configuration: one for each deployment."""

    def __init__(
        self, configuration: Configuration, force: Callable[[list[str]], None], *, queued: bool = False
    ) -> None:
        """`force` lets files be made anew, see `Internals.force`; `queued` jobs go into a queue, or are of one."""
        self._configuration = configuration
        self._force = force
        self._grid = configuration.grid
        simulated = configuration.testbed.simulated
        self.testbed = 0 if simulated and not queued else 1
        """How much of the resource of that name a job takes: what is computed keeps no testbed from others.

        But in a queue one job has the CPU of one, however many deployments are grouped in it.
        """
        self.stay = not simulated
        """Whether jobs stay where Snakemake is: there they have the machine and its rights, or a cluster's."""

    def inputs(self, wildcards: Any) -> list[str]:
        """Give no files; but let the deployment's cells that are stale be made anew, missing ones too.

        Of its own accord Snakemake makes no missing file whose products are there.
        """
        cells = self._grid.deployments[wildcards.deployment]
        files = ((self._configuration.cell_file(cell), wanted(self._configuration, cell)) for cell in cells)
        self._force([str(file) for file, spec in files if results.stale(file, spec)])
        return []

    def dataset(self, _wildcards: object) -> list[str]:
        """Give no files; but let the dataset be made anew if it is damaged, or was changed since it was made."""
        dataset = self._configuration.folder / "dataset.nc"
        if is_changed(dataset):
            self._force([str(dataset)])
        return []

    def priority(self, wildcards: Any) -> int:
        """The place of a deployment in the shuffled order, the highest first."""
        return self._grid.rank[wildcards.deployment]

    def minutes(self, wildcards: Any) -> int:
        """The time that a queue is told a simulated deployment takes at most."""
        return 1 + math.ceil(len(self._grid.deployments[wildcards.deployment]) * QUEUED_CELL / 60)

    @staticmethod
    def pattern(group: Group) -> str:
        """A regular expression for the deployments of a group and no others.

        Each cell's file is matched against it: for 10⁴ deployments a product of short alternatives is fast where one
        alternative a deployment is not.
        """
        axes = [
            dict.fromkeys(values)
            for values in zip(*(path.split("/") for path in group.deployments), strict=True)
        ]
        if math.prod(map(len, axes)) == len(set(group.deployments)):
            return "/".join(_either(values) for values in axes)
        return _either(dict.fromkeys(group.deployments))


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

    @property
    def of_figures(self) -> bool:
        """Whether any is a published figure."""
        return any(name == "published" or name in self.figures for name in self.names)

    @property
    def beyond_cells(self) -> bool:
        """Whether any is made of cells that were measured."""
        return not self.names or any(name not in ("cells", "adaptive") for name in self.names)

    def of_a_question(self, folder: Path) -> bool:
        """Whether any answers what is asked of models; `folder` has the configured sweep's results."""
        folders = [folder / name for name in _ANSWERS]
        return any(
            name in _OF_A_QUESTION or any(map(Path(name).is_relative_to, folders)) for name in self.names
        )

    def of_what_is_there(self, folder: Path) -> bool:
        """Whether nothing is asked for but what is made of a dataset, such as models, and so of cells that are there.

        `folder` has the configured sweep's results.
        """
        asked = [name for name in self.names if name not in _WITHOUT_CELLS and not self._is_published(name)]
        return bool(asked) and not any(_measures(name, folder) for name in asked)

    def _is_published(self, name: str) -> bool:
        return name in self.figures or name.startswith(_OTHERS) or Path(name).is_relative_to(self.published)


def group_of(rule: str) -> str:
    """The group of a rule's jobs in a queue; no group is "".

    Many short simulations are one job (`group-components` of the profile), all that is made of a dataset is another.
    """
    if rule.startswith(DEPLOYMENT):
        return "simulation"
    # These take minutes each.
    return "" if rule.startswith(("terena2005_simulation", "terena2005_program")) else "results"


def digest(content: Mapping[str, Any]) -> str:
    """Stand for plain values among the params of a rule: another content has another one.

    Reports have the params of rules in scripts, in which a text from somebody else could end the script.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _measures(target: str, folder: Path) -> bool:
    if target in _MEASURING or target.startswith(DEPLOYMENT):
        return True
    return any(Path(target).is_relative_to(folder / name) for name in _MEASURED)


def _either(texts: dict[str, None]) -> str:
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"
