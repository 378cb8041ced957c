# SPDX-License-Identifier: Apache-2.0
"""Studies of a workflow for its rules and scripts: patterns, files, parameters and threads; errors and logs."""

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import psutil

from tpcsweep.running import run_lock, staging
from tpcsweep.running.products import NOTEBOOKS
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy, cell_spec, log_folder
from tpcsweep.sweeps.sweep import Cell
from tpcsweep.testbeds.loading import Study, studies
from tpcsweep.testbeds.support import require_supported

NEVER = "(?!)"  # regular expression that matches nothing
RUN_SEED = "TPCSWEEP_RUN_SEED"
"""Environment variable with the seed of a run's order, which its jobs inherit."""
NOW = "/proc/self/task"
"""Folder that is newer than all cells of earlier runs, because the kernel makes it with Snakemake's process.
Snakemake compares the content of files, but not of folders."""


@dataclass(frozen=True)
class DeploymentGroup:
    """Deployments of a measured study with equal sets of cells, which share a rule."""

    study: SweepStudy
    name: str
    paths: Sequence[str]
    cells: Sequence[str]  # paths of the cells relative to their deployment
    damaged: frozenset[str]  # deployments with damaged or stale files

    @property
    def folder(self) -> str:
        return self.study.folder.name

    @property
    def log(self) -> str:
        return f"{self.folder}/{log_folder('{deployment}')}/commands.log"

    @property
    def pattern(self) -> str:
        """Regular expression for these deployments.

        Snakemake matches each cell's file against it. With 10⁴ deployments a product of short alternatives is fast, one
        alternative for each deployment is not.
        """
        parts = (path.split("/") for path in self.paths)
        axes = [dict.fromkeys(values) for values in zip(*parts, strict=True)]
        if math.prod(map(len, axes)) == len(set(self.paths)):
            return "/".join(map(alternatives_pattern, axes))
        return alternatives_pattern(self.paths)

    def digest(self, wildcards: Any) -> str:
        """Return a digest of a deployment's cell specifications; a changed digest makes Snakemake run its job."""
        return deployment_digest(self.study, wildcards.deployment)

    def needs_repair(self, wildcards: Any) -> bool:
        """Return whether some files of a deployment's cells are damaged or stale; Snakemake takes them for finished."""
        return wildcards.deployment in self.damaged

    def priority(self, wildcards: Any) -> int:
        return self.study.grid.priorities[wildcards.deployment]

    def threads(self, cores: int | None) -> int:
        """Return the cores that a deployment reserves, so that at most `places` deployments run at once."""
        return math.ceil((cores or 1) / self.study.places)


@dataclass(frozen=True)
class Mesh:
    """A measured study whose links one job measures in rounds."""

    study: SweepStudy
    damaged: bool  # whether files of its cells are damaged or stale

    @property
    def folder(self) -> str:
        return self.study.folder.name

    @property
    def cells(self) -> list[str]:
        """Paths of all cells."""
        return [cell.path for cell in self.study.grid.cells]

    @property
    def digest(self) -> str:
        """Digest of the specifications of all cells; a changed digest makes Snakemake run the job."""
        return mesh_digest(self.study)


class Studies(dict[str, Study]):
    """Studies of a workflow by the names of their folders."""

    def __init__(self, config: Mapping[str, Any], root: Path | None = None, only: str | None = None) -> None:
        """Read the workflow's `config`, with files relative to `root`. Raises ConfigurationError if wrong.

        A job reads `only` its own study, by the name of its folder.
        """
        super().__init__(studies(config, root or Path(), only))
        seed = int(os.environ.get(RUN_SEED, "0"))
        for name, study in self.items():
            if isinstance(study, SweepStudy):
                self[name] = replace(study, grid=replace(study.grid, run_seed=seed))
        self.results = str(Path(config.get("results", "results")))
        self.notify = str(config.get("notify") or "")
        self.fail_on = str(config.get("fail_on") or "any")

    @classmethod
    def from_workflow(cls, config: Mapping[str, Any]) -> Self:
        """Read the workflow's `config`, and check that the testbeds can run the sweeps; a problem ends the process."""
        os.environ.setdefault("LOGNAME", psutil.Process().username())  # Snakemake needs a user name
        os.environ.setdefault(RUN_SEED, str(int(time.time())))
        records = next(path for path in (Path(".snakemake"), Path()) if path.exists())
        if not os.access(records, os.W_OK):
            sys.exit(f"{records.resolve()}: Snakemake must write here: run it in a copy that you own")
        try:
            loaded = cls(config)
            for study in loaded.sweeps:
                if study.testbed.simulated or loaded.stale[study.folder.name]:
                    require_supported(study)
        except (ConfigurationError, run_lock.ResultsError) as error:
            sys.exit(str(error))
        return loaded

    @property
    def sweeps(self) -> list[SweepStudy]:
        return [study for study in self.values() if isinstance(study, SweepStudy)]

    @property
    def measured(self) -> list[SweepStudy]:
        return [study for study in self.sweeps if not study.testbed.simulated]

    @property
    def simulated(self) -> list[str]:
        return [study.folder.name for study in self.sweeps if study.testbed.simulated]

    @property
    def deployment_groups(self) -> list[DeploymentGroup]:
        """Deployments of all measured studies except meshes, grouped by equal sets of cells."""
        return [
            DeploymentGroup(
                study,
                f"measure_{study.folder.name}" + (f"_{number}" if number > 1 else ""),
                paths,
                cells,
                self._damaged(study),
            )
            for study in self.measured
            if not study.in_rounds
            for number, (cells, paths) in enumerate(study.grid.paths_by_cells.items(), start=1)
        ]

    @property
    def meshes(self) -> list[Mesh]:
        return [Mesh(study, bool(self._damaged(study))) for study in self.measured if study.in_rounds]

    @property
    def workflow_datasets(self) -> list[str]:
        """Names of the studies whose datasets the workflow makes: all except imported ones already in place."""
        places = {name: study.folder / "dataset.nc" for name, study in self.items()}
        return [name for name, place in places.items() if self._sources(name) != [str(place)]]

    @property
    def without_models(self) -> list[str]:
        """Names of the studies that no run has fitted models to; the others have a page until the new one is made."""
        return [name for name, study in self.items() if not (study.folder / "models.json").exists()]

    @property
    def cells(self) -> list[str]:
        """Files of all cells."""
        return [file for study in self.sweeps for file in self._sources(study.folder.name)]

    @cached_property
    def stale(self) -> dict[str, list[Cell]]:
        """Stale cells of each measured study when the run was planned; reading all files takes seconds."""
        return {study.folder.name: list(staging.stale_cells(study)) for study in self.measured}

    def _damaged(self, study: SweepStudy) -> frozenset[str]:
        stale = self.stale[study.folder.name]
        return frozenset(cell.deployment.path for cell in stale if study.cell_file(cell).exists())

    @property
    def notebook_files(self) -> list[str]:
        """Files of the notebooks of all studies, relative to the folder of results."""
        requested = {study.folder.name: study.notebooks for study in self.sweeps}
        return [
            f"{name}/{file}"
            for name in self
            for notebook in NOTEBOOKS
            if not notebook.requested or notebook.name in requested.get(name, ())
            for file in notebook.files
        ]

    def sources(self, wildcards: Any) -> list[str]:
        return self._sources(wildcards.study)

    def attributes(self, wildcards: Any) -> str:
        """Return a digest of the attributes of a study's dataset and of its cells' specifications."""
        study = self[wildcards.study]
        if not isinstance(study, SweepStudy):
            return digest({})
        deployments = () if study.testbed.simulated else study.grid.deployments
        cells = [deployment_digest(study, deployment) for deployment in deployments]
        # The command may name the same files by other paths.
        attributes = {key: value for key, value in study.attributes.items() if key != "command"}
        return digest([attributes, cells or self.simulated_digest(wildcards)])

    def simulated_digest(self, wildcards: Any) -> str:
        study = self[wildcards.study]
        assert isinstance(study, SweepStudy)
        paths = [cell.path for cell in study.grid.cells]
        # Without this pydantic warns, because an axis' values are a tuple and the field is a list.
        sweep = study.sweep.model_dump(warnings=False)
        return digest([study.name, study.shared, paths, sweep])

    def goals(self, wildcards: Any) -> list[str]:
        """Return the table of a study's goals, if any."""
        study = self[wildcards.study]
        return study.testbed.goal_tables if isinstance(study, SweepStudy) else []

    def axes(self, notebook: str) -> Callable[[Any], dict[str, str]]:
        """Return an input function for a notebook's axes, by the names of its parameters."""
        shown = {study.folder.name: study.notebooks.get(notebook, {}) for study in self.sweeps}
        return lambda wildcards: shown.get(wildcards.study, {})

    def _sources(self, name: str) -> list[str]:
        study = self[name]
        if not isinstance(study, SweepStudy):
            place = study.folder / "dataset.nc"
            same = study.file.exists() and place.exists() and place.samefile(study.file)
            return [str(place if same else study.file)]
        if study.testbed.simulated:
            return [str(study.cells_file)]
        return [str(study.cell_file(cell)) for cell in study.grid.cells]


def deployment_digest(study: SweepStudy, deployment: str) -> str:
    """Return a digest of a deployment's cell specifications in any order; the sweep may lack the deployment."""
    cells = sorted(study.grid.deployments.get(deployment, ()), key=lambda cell: cell.path)
    return digest([cell_spec(study, cell) for cell in cells])


def mesh_digest(study: SweepStudy) -> str:
    """Return a digest of the specifications of all cells of a mesh."""
    return digest([deployment_digest(study, deployment) for deployment in sorted(study.grid.deployments)])


def require_runnable(study: SweepStudy) -> None:
    """Raise ConfigurationError if the testbed cannot run the sweep. Measured sweeps without stale cells may stay."""
    if study.testbed.simulated or any(staging.stale_cells(study)):
        require_supported(study)


def digest(content: Any) -> str:
    """Return a short hash of plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def alternatives_pattern(names: Iterable[str]) -> str:
    """Return a regular expression that matches exactly these names."""
    escaped = "|".join(map(re.escape, dict.fromkeys(names)))
    return f"(?:{escaped})" if escaped else NEVER


class ChangedError(Exception):
    """The configuration does not describe the job that Snakemake planned."""


def require_planned(study: Study, output: str, now: str = "", planned: str = "") -> None:
    """Raise ChangedError unless a job's output is in the study's folder, and a digest is the planned one.

    A module may move the outputs of rules alone.
    """
    if study.folder not in Path(output).parents:
        fix = "set `results` in the module's config; prefix: and pathvars: are not supported"
        raise ChangedError(f"{output} is not in the results folder {study.folder}: {fix}")
    if now != planned:
        raise ChangedError("the configuration has changed since this run began: run snakemake again")


@contextlib.contextmanager
def exit_on_errors(log: str, *expected: type[Exception], about: str = "") -> Iterator[None]:
    """Exit on expected errors, with the text in the log, after `about`, and with an error's `details` there.

    ConfigurationError, ChangedError and a full disk are always expected.
    """
    known: tuple[type[Exception], ...] = (*expected, ConfigurationError, ChangedError)
    details = ""
    try:
        yield
    except known as error:
        text, details = str(error), getattr(error, "details", "")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"{error.filename or 'results or temporary files'}: {error.strerror}"
        text = f"{where}: make room and run snakemake again, which keeps the measured cells"
    else:
        return
    message = f"{about}: {text}" if about else text
    # Snakemake removed the log before the job. It may be on the full disk.
    with contextlib.suppress(OSError), Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{details}{message}\n")
    sys.exit(message)


@contextlib.contextmanager
def redirected_to_log(log: str) -> Iterator[None]:
    """Redirect the output of this process and its children to the log."""
    streams = (sys.stdout.fileno(), sys.stderr.fileno())
    copies = [os.dup(stream) for stream in streams]
    with Path(log).open("a") as file:
        try:
            for stream in streams:
                os.dup2(file.fileno(), stream)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, copy in zip(streams, copies, strict=True):
                os.dup2(copy, stream)
                os.close(copy)
