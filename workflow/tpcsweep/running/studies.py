# SPDX-License-Identifier: Apache-2.0
"""The studies of a workflow as its rules ask for them: patterns, files, parameters and threads."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tpcsweep import results
from tpcsweep.configuration.checks import require_supported
from tpcsweep.configuration.loading import (
    SHIPPED,
    Configuration,
    ConfigurationError,
    Study,
    as_typed,
    studies,
    wanted,
)

NEVER = "(?!)"
"""A regular expression that matches nothing."""


@dataclass(frozen=True)
class Deployments:
    """Deployments of a measured study that have the same cells: one rule measures them."""

    study: Configuration
    name: str
    """The name of the rule."""
    paths: Sequence[str]
    cells: Sequence[str]
    """Paths of the cells below that of their deployment."""

    @property
    def folder(self) -> str:
        return self.study.folder.name

    @property
    def pattern(self) -> str:
        """A regular expression for these deployments.

        Snakemake matches each cell's file against it. For 10⁴ deployments a product of short alternatives is fast, an
        alternative for each deployment is not.
        """
        parts = (path.split("/") for path in self.paths)
        axes = [dict.fromkeys(values) for values in zip(*parts, strict=True)]
        if math.prod(map(len, axes)) == len(set(self.paths)):
            return "/".join(map(either, axes))
        return either(self.paths)

    def specification(self, wildcards: Any) -> str:
        """Return a digest of the specifications of a deployment's cells: another one makes Snakemake run its job."""
        return specification(self.study, wildcards.deployment)

    def priority(self, wildcards: Any) -> int:
        return self.study.grid.rank[wildcards.deployment]

    def threads(self, cores: int | None) -> int:
        """Return the cores that a deployment keeps from other jobs.

        On this machine it keeps all. Elsewhere as many deployments run side by side as there are disjoint places.
        """
        return max(1, (cores or 1) // self.study.testbed.places)


class Studies(dict[str, Study]):
    """The studies of a workflow by the names of their folders."""

    def __init__(self, config: Mapping[str, Any], root: Path | None = None) -> None:
        """Read the workflow's `config`, with its files below `root`. Raise ConfigurationError if any is wrong."""
        super().__init__(studies(config, root or Path()))
        self.results = str(Path(config.get("results", "results")))
        self.notify = str(config.get("notify") or "")

    @classmethod
    def of_workflow(cls, config: dict[str, Any], given: Any = None) -> Studies:
        """Read the workflow's `config`, and check that the testbeds can measure the cells that are stale.

        With Snakemake's settings of `--config`, its values become the texts that were typed. A wrong configuration ends
        the process with a line for everything that is wrong.
        """
        config.update(as_typed(config, given) if given else {})
        os.environ.setdefault("LOGNAME", psutil.Process().username())  # Snakemake asks for a name
        records = next(path for path in (Path(".snakemake"), Path()) if path.exists())
        if not os.access(records, os.W_OK):
            sys.exit(f"{records.resolve()}: Snakemake must write here: run it in a copy that you own")
        try:
            # Before Snakemake reads rules, as it copies notebooks with their times.
            for name in ("notebooks", "examples", "workflow/scripts"):
                results.renew_times((SHIPPED / name).rglob("*"))
            found = cls(config)
            for study in found.measured:
                if any(stale_cells(study)):
                    require_supported(study)
        except (ConfigurationError, results.ResultsError) as error:
            sys.exit(str(error))
        return found

    @property
    def sweeps(self) -> list[Configuration]:
        return [study for study in self.values() if isinstance(study, Configuration)]

    @property
    def measured(self) -> list[Configuration]:
        """The studies whose cells are measured."""
        return [study for study in self.sweeps if not study.testbed.simulated]

    @property
    def simulated(self) -> list[str]:
        return [study.folder.name for study in self.sweeps if study.testbed.simulated]

    @property
    def deployments(self) -> list[Deployments]:
        """The deployments of all measured studies, those with the same cells together."""
        return [
            Deployments(
                study, f"measure_{study.folder.name}" + (f"_{number}" if number > 1 else ""), paths, cells
            )
            for study in self.measured
            for number, (cells, paths) in enumerate(study.grid.groups.items(), start=1)
        ]

    @property
    def made(self) -> list[str]:
        """Names of the studies whose datasets the workflow makes: all but imported ones in their places."""
        places = {name: study.folder / "dataset.nc" for name, study in self.items()}
        return [name for name, place in places.items() if self._sources(name) != [str(place)]]

    @property
    def cells(self) -> list[str]:
        return [file for study in self.sweeps for file in self._sources(study.folder.name)]

    def showing(self, notebook: str) -> list[str]:
        """Return the names of the studies whose sweep or testbed asks for a notebook."""
        return [study.folder.name for study in self.sweeps if notebook in study.notebooks]

    def sources(self, wildcards: Any) -> list[str]:
        return self._sources(wildcards.study)

    def attributes(self, wildcards: Any) -> str:
        """Return a digest of the attributes of a study's dataset and of the specifications of its cells."""
        study = self[wildcards.study]
        if not isinstance(study, Configuration):
            return digest({})
        deployments = () if study.testbed.simulated else study.grid.deployments
        cells = [specification(study, deployment) for deployment in deployments]
        return digest([study.attributes, cells or self.specification(wildcards)])

    def specification(self, wildcards: Any) -> str:
        """Return a digest of the specifications of a simulated study's cells."""
        study = self[wildcards.study]
        assert isinstance(study, Configuration)
        paths = [cell.path for cell in study.grid.cells]
        # Values of an axis are a tuple, of which pydantic warns: the field is a list.
        sweep = study.sweep.model_dump(warnings=False)
        return digest([study.name, study.shared, paths, sweep])

    def axes(self, notebook: str) -> Callable[[Any], dict[str, str]]:
        """Return an input function for the axes that a notebook shows, by the names of its parameters."""
        shown = {study.folder.name: study.notebooks.get(notebook, {}) for study in self.sweeps}
        return lambda wildcards: shown.get(wildcards.study, {})

    def _sources(self, name: str) -> list[str]:
        study = self[name]
        if not isinstance(study, Configuration):
            place = study.folder / "dataset.nc"
            same = study.file.exists() and place.exists() and place.samefile(study.file)
            return [str(place if same else study.file)]
        if study.testbed.simulated:
            return [str(study.cells_file)]
        return [str(study.cell_file(cell)) for cell in study.grid.cells]


def specification(study: Configuration, deployment: str) -> str:
    """Return a digest of the specifications of a deployment's cells; the sweep may contain no such deployment."""
    return digest([wanted(study, cell) for cell in study.grid.deployments.get(deployment, ())])


def stale_cells(study: Configuration) -> Iterator[Path]:
    """Yield the files of a measured study's cells that are missing or not current."""
    for cell in study.grid.cells:
        file = study.cell_file(cell)
        if results.stale(file, wanted(study, cell)):
            yield file


def digest(content: Any) -> str:
    """Return a short text that stands for plain values: another content has another one."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def either(names: Iterable[str]) -> str:
    """Return a regular expression for these names and no others."""
    escaped = "|".join(map(re.escape, dict.fromkeys(names)))
    return f"(?:{escaped})" if escaped else NEVER
