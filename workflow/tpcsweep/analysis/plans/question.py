# SPDX-License-Identifier: Apache-2.0
"""Plans from fitted models: settings for a target throughput, and cells to measure next."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import Field

from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import Selection, Value, selected_parameters
from tpcsweep.sweeps.problems import validated

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

    @classmethod
    def asked(cls, content: Mapping[str, Any], words: Mapping[str, Iterable[str]]) -> Self:
        """Return a question; `words` are those of the fitted cells, and values of settings are among them."""
        return validated(cls, content, context={"settings": words})

    @property
    def given(self) -> Given:
        return selected_parameters(self)

    @property
    def content(self) -> dict[str, Any]:
        """Arguments of `plan` and `recommend`, in base units, as JSON types."""
        content = {"target": self.target, "probability": self.probability, **self.given}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in content.items()}
