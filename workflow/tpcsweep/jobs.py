"""What the workflow's rules ask of a configuration: patterns, priorities, and when a job must run. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from typing import Any, Protocol

from tpcsweep.configuration import Configuration, wanted
from tpcsweep.sweep import Group

DEPLOYMENT = "deployment_"
"""What the names of the rules that measure begin with."""


class Wildcards(Protocol):
    """What a rule's wildcards are here."""

    deployment: str


class Jobs:
    """The jobs of a configuration: one for each deployment."""

    def __init__(self, configuration: Configuration) -> None:
        self._grid = configuration.grid
        self.testbed = 0 if configuration.testbed.simulated else 1
        """How much of the resource of that name a job takes: what is computed keeps no testbed from others."""

    def priority(self, wildcards: Wildcards) -> int:
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


def deploys(jobs: Iterable[Any]) -> bool:
    """Whether one of the jobs that a Snakemake is going to run measures cells."""
    return any(job.rule.name.startswith(DEPLOYMENT) for job in jobs)


def _either(texts: dict[str, None]) -> str:
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"


def specification(configuration: Configuration) -> dict[str, Any]:
    """What the cells' paths do not say of what they are to be measured under."""
    first = configuration.grid.cells[0]
    spec = wanted(configuration, first)
    del spec["repetition"]
    fixed = {name: value for name, value in spec["parameters"].items() if name not in first.axes}
    return {**spec, "parameters": fixed}
