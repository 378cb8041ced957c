# SPDX-License-Identifier: Apache-2.0
"""Settings of testbeds: the files config/testbeds/*.yaml. Each kind adds its own in `testbeds/KIND/settings.py`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from tpcsweep.sweeps.parameters import DeploymentParameters, Strict, Value

if TYPE_CHECKING:
    from tpcsweep.sweeps.sweep import Grid


Given = Mapping[str, Value | tuple[Value, ...]]
"""The parameters that a sweep sets: single values, and tuples for axes."""
PathRule = Annotated[
    Literal["measure", "strict"],
    Field(description="if only the rate of a path is too low: measure flags its cells, strict refuses it"),
]


class Settings(Strict):
    """Common settings of all kinds of testbeds."""

    kind: Any
    """the word for this kind of testbed, to which each kind narrows it"""
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

    def conditions(self, _wanted: DeploymentParameters) -> dict[str, Value]:
        """Return unusual measuring conditions of these parameters; a change makes the cells stale.

        Usual conditions are omitted, so that cells keep their specification when a new condition is introduced.
        """
        return {}

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        return {}

    def most_bytes(self, _grid: Grid) -> float | None:
        """Return the most bytes that a sweep sends over external networks, or None if it uses none."""
        return None
