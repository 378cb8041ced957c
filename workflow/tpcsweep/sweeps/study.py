# SPDX-License-Identifier: Apache-2.0
"""A study: a sweep on a testbed, or an existing dataset, and the specification of its cells."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from tpcsweep.sweeps.citation import Citation
from tpcsweep.sweeps.designs import SCREENING, compared_axes
from tpcsweep.sweeps.parameters import LINK
from tpcsweep.sweeps.sweep import Cell, Grid, Sweep
from tpcsweep.sweeps.testbed_settings import Settings

FORMAT = 1  # The version of cell specifications. Changing it makes all cells stale.


def log_folder(deployment: str) -> str:
    """Return the folder with the logs of a deployment, relative to the folder of results."""
    return f"logs/{deployment}"


@dataclass(frozen=True)
class SweepStudy:
    """A valid sweep and a valid testbed; `testbeds.support` decides whether the testbed can run the sweep."""

    name: str
    sweep: Sweep
    sweep_file: str
    testbed_name: str
    testbed: Settings
    testbed_file: str
    results: Path
    grid: Grid
    requested: Mapping[str, str]  # the keys of `--config` that select this study
    citation: Citation | None = None  # the authors of the measurements, if a file in config/ names them

    @property
    def attributes(self) -> dict[str, Any]:
        """Dataset attributes that no cell contains: scale, authors, and the command that measures cells again."""
        found: dict[str, Any] = {}
        if not self.testbed.simulated:
            found = {"command": self.command, "cells": f"{self.folder}/cells", "repeat": self.sweep.repeated}
            found |= {"order": "blocks"} if self.sweep.order == "blocks" else {}
            found |= {"design": SCREENING} if self.sweep.design == SCREENING else {}
            found |= {"excluded": excluded} if (excluded := self.grid.excluded) else {}
        found |= {"description": self.sweep.description} if self.sweep.description else {}
        for part in (self.sweep.scale, self.citation):
            found |= part.attributes if part else {}
        return found

    @property
    def notebooks(self) -> dict[str, dict[str, str]]:
        """The sweep's notebooks, each with the axes that it shows."""
        is_compared = self.sweep.order == "blocks" and compared_axes(self.grid.axes)
        also = {
            "hardware": self.testbed.has_alternatives,
            "links": set(LINK) <= set(self.grid.axes),
            "effects": is_compared,
        }
        return {**self.sweep.notebooks.places, **{name: {} for name, is_shown in also.items() if is_shown}}

    @property
    def has_settings(self) -> bool:
        """Whether deployments apply settings of hosts; all of them do, or none."""
        return bool(self.testbed.applied_settings(self.grid.cells[0].parameters))

    @property
    def in_rounds(self) -> bool:
        """Whether one job measures all deployments, in rounds of links that share no site."""
        return bool(self.testbed.occupied(self.grid.cells[0].parameters))

    @property
    def places(self) -> int:
        """Number of deployments that may run at once: one with settings, which other deployments would share."""
        return 1 if self.has_settings else self.testbed.places

    @property
    def folder(self) -> Path:
        """The results folder: the sweep's name, which has no @, and @TESTBED unless the testbed is of kind netns."""
        here = self.testbed.kind == "netns"
        return self.results / (self.name if here else f"{self.name}@{self.testbed_name}")

    @cached_property
    def shared(self) -> dict[str, dict[str, Any]]:
        """The part of the specification that all cells share, computed once for up to 10⁵ cells."""
        testbed = {"name": self.testbed_name, "kind": self.testbed.kind, **self.testbed.identity}
        return {"measurement": self.sweep.measurement.model_dump(), "testbed": testbed}

    def cell_file(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.path}.json"

    @property
    def cells_file(self) -> Path:
        """The file of all cells of a simulated study: JSON lines, each with the content of a cell's file."""
        return self.folder / "cells.jsonl"

    @property
    def command(self) -> str:
        return shlex.join(["snakemake", *config_arguments(self.requested)])


def config_arguments(config: Mapping[str, object]) -> list[str]:
    return ["--config", *(f"{key}={value}" for key, value in config.items())]


class Specification(TypedDict):
    """Specification of a cell: everything that affects its measurement. It survives a round trip through JSON."""

    format: int
    sweep: str
    parameters: dict[str, Any]  # all fields of `Parameters`
    repetition: int
    measurement: dict[str, Any]  # all fields of `Measurement`
    testbed: dict[str, Any]  # name, kind and identity
    conditions: NotRequired[Any]  # effects of the parameters on the testbed, if any


def cell_spec(study: SweepStudy, cell: Cell) -> Specification:
    """Return the specification that a cell's file must contain. Other cells are stale.

    It contains nothing of the grid's shape, so adding a value to an axis does not invalidate existing cells.
    """
    spec: Specification = {
        "format": FORMAT,
        "sweep": study.name,
        "parameters": cell.parameters.model_dump(),
        "repetition": cell.repetition,
        "measurement": study.shared["measurement"],
        "testbed": study.shared["testbed"],
    }
    applied = study.testbed.applied_settings(cell.parameters).items()
    # A digest, because commands may name hosts.
    commands = {name: setting.digest(value) for name, (value, setting) in applied}
    if conditions := {**study.testbed.conditions(cell.parameters), **commands}:
        spec["conditions"] = conditions
    return spec
