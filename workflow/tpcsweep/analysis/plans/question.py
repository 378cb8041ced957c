# SPDX-License-Identifier: Apache-2.0
"""Plans from fitted models: settings for a target throughput, and cells to measure next."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import Selection, Value, selected_parameters

PROBABILITY = 0.95

Given = Mapping[str, Value | tuple[Value, ...]]  # parameters in base units; a tuple has values to choose from


class Question(Selection):  # type: ignore[misc, valid-type]
    """A target, its probability, and parameters of sweeps. It changes no sweep."""

    target: Annotated[float | None, replace(units.TARGET, null="no question")] = Field(
        default=None, description="throughput that `tpcsweep plan` finds the cheapest setting for"
    )
    probability: Annotated[float, units.PROBABILITY] = Field(
        default=PROBABILITY, description="how surely one measurement is to reach the target"
    )

    @property
    def given(self) -> Given:
        return selected_parameters(self)

    @property
    def content(self) -> dict[str, Any]:
        """Arguments of `plan` and `recommend`, in base units, as JSON types."""
        content = {"target": self.target, "probability": self.probability, **self.given}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in content.items()}
