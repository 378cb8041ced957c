# SPDX-License-Identifier: Apache-2.0
"""What the settings of all kinds of testbeds have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tpcsweep.configuration.parameters import DeploymentParameters, Strict, Value

Given = Mapping[str, Value | tuple[Value, ...]]
"""What a sweep says of parameters: values, and those of axes."""
PathRule = Annotated[
    Literal["measure", "strict"],
    Field(
        description="a path whose rate alone is below what was asked is measured on and its cells are flagged "
        "(measure), or it is refused (strict)"
    ),
]


class Settings(Strict):
    """What the settings of all kinds of testbeds have."""

    simulated: ClassVar[bool] = False
    """Whether cells are computed: at once, side by side, and never to be mixed with measured ones."""
    deploy_seconds: ClassVar[float]
    """Time to bring a deployment up, verify its path and tear it down, for the expected duration."""
    cell_seconds: ClassVar[float] = 1.0
    """Time that a cell takes beside its measuring."""

    @property
    def has_alternatives(self) -> bool:
        """Whether some deployments may be measured on this hardware or on that."""
        return False

    @property
    def places(self) -> int:
        """How many deployments may run side by side without disturbing each other."""
        return 1

    @property
    def identity(self) -> dict[str, str]:
        """What of it a cell is measured under, beside its name: nothing where cells say what was found."""
        return {}

    def conditions(self, _wanted: DeploymentParameters) -> dict[str, Value]:
        """What a cell with these parameters is measured under that is not so for others: another one makes it stale.

        What is as usual is not named, so that cells stay as they are that were measured before there was anything else.
        """
        return {}

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        """Give the parameters that a sweep leaves out, by those that it gives, where the testbed says what they are."""
        return {}
