# SPDX-License-Identifier: Apache-2.0
"""Settings of testbeds: the files config/testbeds/*.yaml. Each kind adds its own in `testbeds/KIND/settings.py`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import DeploymentParameters, Strict, Text, Value, Word
from tpcsweep.sweeps.sweep import Cell, Grid, Sweep

Given = Mapping[str, Value | tuple[Value, ...]]
"""The parameters that a sweep sets: single values, and tuples for axes."""
PathRule = Annotated[
    Literal["measure", "strict"],
    Field(description="if only the rate of a path is too low: measure flags its cells, strict refuses it"),
]


SettingName = Annotated[Word, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class HostSetting(Strict):
    """A setting of hosts that the user's shell commands apply, verify and restore: an axis of sweeps."""

    values: dict[Word, Text] = Field(min_length=1, description="command that applies each value of the axis")
    restore: Text
    """command that restores the hosts after a deployment, or after a run that was killed"""
    verify: Text | None = None
    """command whose output describes the state of the hosts; cells during which it changes are flagged"""
    timeout: Annotated[float, units.START_TIME] = 300.0
    """longest time of one of the commands"""
    settle: Annotated[float, units.SETTLE] = 0.0
    """pause after a value's command"""

    def digest(self, value: str) -> str:
        """Return a digest of a value's command; another digest makes its cells stale."""
        return hashlib.sha256(f"{self.values[value]}\n{self.settle}".encode()).hexdigest()[:16]


HostName = Annotated[Word, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class SavedHost(Strict):
    """A host whose state is read from a file."""

    saved: Text
    """file with the JSON that `fasterdata-tuning.sh --save-state` wrote"""


class Settings(Strict):
    """Common settings of all kinds of testbeds."""

    kind: Any
    """the word for this kind of testbed, to which each kind narrows it"""
    settings: dict[SettingName, HostSetting] = Field(
        default={}, description="settings of hosts that commands apply: axes of sweeps by their names"
    )
    hosts: dict[HostName, Text | SavedHost] = Field(
        default={},
        description="hosts whose state and load are recorded, each with the start of a command that runs there: local, "
        "ssh NAME, kubectl exec POD --, or a file with a saved state",
    )
    simulated: ClassVar[bool] = False
    """Whether cells are computed, many at a time, and never mixed with measured ones."""
    deploy_seconds: ClassVar[float]
    """Seconds to start a deployment, verify its path and tear it down, for the expected duration."""
    cell_seconds: ClassVar[float] = 1.0
    """Overhead of a cell, s."""

    @property
    def has_alternatives(self) -> bool:
        """Whether a deployment may run on different hardware."""
        return False

    @property
    def places(self) -> int:
        """Number of deployments that may run in parallel without disturbing each other."""
        return 1

    @property
    def identity(self) -> dict[str, str]:
        """The part of the testbed that a cell's specification contains in addition to its name."""
        return {}

    @property
    def goal_tables(self) -> list[str]:
        """CSV files with the rates that links must reach, at most one."""
        return []

    @property
    def settings_values(self) -> Mapping[str, Iterable[str]]:
        """The values of each setting."""
        return {name: setting.values for name, setting in self.settings.items()}

    def expected_seconds(self, grid: Grid) -> tuple[float, float]:
        """Return the shortest and the longest duration of a sweep, s, with all retries."""
        each = [self.deployment_seconds(grid, cells) for cells in grid.deployments.values()]
        return sum(low for low, _ in each), sum(high for _, high in each)

    def deployment_seconds(self, grid: Grid, cells: Sequence[Cell]) -> tuple[float, float]:
        """Return the shortest and the longest duration of a deployment, s, with all retries.

        The longest has commands that apply and restore settings for all of their `timeout`; `verify` only reads.
        """
        applied = [setting for _, setting in self.applied_settings(cells[0].parameters).values()]
        least = self.deploy_seconds + sum(setting.settle for setting in applied)
        commands = sum(2 * setting.timeout for setting in applied)
        shortest, longest = grid.sweep.measurement.bounds
        tries = len(cells) + math.ceil(grid.sweep.retry_share * len(cells))
        return (
            least + len(cells) * (shortest + self.cell_seconds),
            least + commands + tries * (longest + self.cell_seconds),
        )

    def applied_settings(self, wanted: DeploymentParameters) -> dict[str, tuple[str, HostSetting]]:
        """Return the settings of a deployment, each with its value, in the order of the testbed's file."""
        values = wanted.model_extra or {}
        return {name: (values[name], setting) for name, setting in self.settings.items() if name in values}

    def conditions(self, _wanted: DeploymentParameters) -> dict[str, Value]:
        """Return unusual measuring conditions of these parameters; a change makes the cells stale.

        Usual conditions are omitted, so that cells keep their specification when a new condition is introduced.
        """
        return {}

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        return {}

    def completed(self, sweep: Sweep) -> Sweep:
        """Return a sweep with the axes that the testbed itself defines."""
        return sweep

    def occupied(self, _wanted: DeploymentParameters) -> frozenset[str]:
        """Return the sites that a deployment occupies; deployments without a common one run side by side in rounds.

        Without sites each deployment is a job of Snakemake's.
        """
        return frozenset()

    def receiving_doors(self, _wanted: DeploymentParameters) -> list[str]:
        """Return names of the destination's doors, if only the kernels of `hosts` show connections to them."""
        return []

    def affordable(self, _grid: Grid, paths: Sequence[str]) -> list[str]:
        """Return the first deployments of some that together need no more than the budget of a run."""
        return [*paths]

    def most_bytes(self, _grid: Grid) -> float | None:
        """Return the most bytes that a sweep sends over external networks, or None if it uses none."""
        return None
