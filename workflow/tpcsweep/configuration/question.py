# SPDX-License-Identifier: Apache-2.0
"""What may be asked of a fitted model: a throughput to reach, and the parameters that are given."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import Field, model_validator

from tpcsweep.configuration.parameters import Selection, Value, chosen, show_value
from tpcsweep.configuration.problems import refused
from tpcsweep.configuration.units import FRACTION, RATE, Quantity, show

KNOBS = ("cores", "origins", "streams")
"""What is searched, dearest first: fewer cores are cheaper, of equals fewer origins, of equals fewer streams."""

PROBABILITY = 0.95

Given = Mapping[str, Value | tuple[Value, ...]]
"""Parameters in base units; a tuple has values to choose from."""


class Question(Selection):  # type: ignore[misc, valid-type]
    """What is to be reached, how surely, and with what given.

    Parameters are those of sweeps. They say what to plan for, and change no sweep.
    """

    target: Annotated[float | None, Quantity(RATE, above=0, null="no question")] = Field(
        default=None, description="throughput that `snakemake plan` finds the cheapest setting for"
    )
    # Nobody has seen the tails of a few hundred cells.
    probability: Annotated[float, Quantity(FRACTION, above=0, at_most=0.99)] = Field(
        default=PROBABILITY, description="how surely one measurement is to reach the target"
    )

    @property
    def given(self) -> Given:
        """The parameters that were given, in the order of `Parameters`."""
        return chosen(self)

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, content: Any) -> Any:
        """Read numbers in lists: of a list on the command line Snakemake makes one of texts."""
        if not isinstance(content, Mapping):
            return content
        read = {
            name: [_number(value) if isinstance(value, str) else value for value in content[name]]
            for name in KNOBS
            if isinstance(content.get(name), list)
        }
        return {**content, **read}

    def needed_target(self) -> float:
        """Give the target; raises ConfigurationError where there is none."""
        if self.target is None:
            raise refused("target", "nothing", 'this key is needed, as in --config target="100 Gbit/s"')
        return self.target

    @property
    def content(self) -> dict[str, Any]:
        """What `plan` and `recommend` are to be given, in base units."""
        return {"target": self.target, "probability": self.probability, **self.given}

    @property
    def name(self) -> str:
        """What the answer's folder is called: target=500Mbitps,rtt=60ms. Empty where nothing is asked for."""
        parts = {} if self.target is None else {"target": show(self.target, RATE)}
        if self.probability != PROBABILITY:
            parts["probability"] = show(self.probability, FRACTION)
        parts |= {name: _text(name, value) for name, value in self.given.items()}
        text = ",".join(f"{name}={text}" for name, text in parts.items())
        return text.replace(" ", "").replace("/s", "ps").replace("%", "percent")


def _number(text: str) -> str | float | None:
    """A number, or null, where a text is one; another text is left to what checks it."""
    if text == "null":
        return None
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return float(text)
    return text


def _text(name: str, values: Value | tuple[Value, ...]) -> str:
    return "+".join(show_value(name, v) for v in (values if isinstance(values, tuple) else (values,)))
