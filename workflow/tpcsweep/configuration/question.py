# SPDX-License-Identifier: Apache-2.0
"""What may be asked of a fitted model: a throughput to reach, and the parameters that are given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, model_validator

from tpcsweep.configuration import bounds
from tpcsweep.configuration.parameters import Selection, Value, chosen, show_value
from tpcsweep.configuration.problems import refused
from tpcsweep.configuration.units import FRACTION, RATE, show

KNOBS = ("cores", "origins", "streams")
"""What is searched, dearest first: fewer cores are cheaper, of equals fewer origins, of equals fewer streams."""

PROBABILITY = 0.95

Given = Mapping[str, Value | tuple[Value, ...]]
"""Parameters in base units; a tuple has values to choose from."""


class Question(Selection):  # type: ignore[misc, valid-type]
    """What is to be reached, how surely, and with what given.

    Parameters are those of sweeps. They say what to plan for, and change no sweep.
    """

    target: Annotated[float | None, replace(bounds.TARGET, null="no question")] = Field(
        default=None, description="throughput that `snakemake plan` finds the cheapest setting for"
    )
    probability: Annotated[float, bounds.PROBABILITY] = Field(
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
            name: [_number(value) for value in content[name]]
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


def _number(value: object) -> object:
    """A number, or null, of the text that it is; whatever else it is, the parameter refuses."""
    if not isinstance(value, str):
        return value
    if value == "null":
        return None
    if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", value):
        return float(value) if "." in value else int(value)
    return value


def _text(name: str, values: Value | tuple[Value, ...]) -> str:
    return "+".join(show_value(name, v) for v in (values if isinstance(values, tuple) else (values,)))
