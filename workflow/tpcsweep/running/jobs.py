"""What the workflow's rules ask of a configuration: patterns, priorities, and what is to be made anew."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any

from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.sweep import Group
from tpcsweep.running import results

DEPLOYMENT = "deployment_"
"""What the names of the rules that measure begin with."""


class Jobs:
    """The jobs of a configuration: one for each deployment."""

    def __init__(self, configuration: Configuration, force: Callable[[list[str]], None]) -> None:
        """`force` lets files be made anew, see `Internals.force`."""
        self._configuration = configuration
        self._force = force
        self._grid = configuration.grid
        self.testbed = 0 if configuration.testbed.simulated else 1
        """How much of the resource of that name a job takes: what is computed keeps no testbed from others."""

    def inputs(self, wildcards: Any) -> list[str]:
        """Give no files; but let the deployment's cells that are there and stale be made anew."""
        cells = self._grid.deployments[wildcards.deployment]
        files = ((self._configuration.cell_file(cell), wanted(self._configuration, cell)) for cell in cells)
        self._force([str(file) for file, spec in files if file.exists() and results.stale(file, spec)])
        return []

    def priority(self, wildcards: Any) -> int:
        """The place of a deployment in the shuffled order, the highest first."""
        return self._grid.rank[wildcards.deployment]

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
        if prod(map(len, axes)) == len(set(group.deployments)):
            return "/".join(_either(values) for values in axes)
        return _either(dict.fromkeys(group.deployments))


def _either(texts: dict[str, None]) -> str:
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"
