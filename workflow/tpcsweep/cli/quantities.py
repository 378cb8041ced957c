# SPDX-License-Identifier: Apache-2.0
"""Types of options: quantities with units, one or several with commas."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import click
from pydantic_core import PydanticCustomError

from tpcsweep.configuration import units
from tpcsweep.configuration.parameters import Parameters, quantity

BARE = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
"""A number without a unit."""
_LISTED = 8  # units that an error lists


class Amount(click.ParamType):  # type: ignore[type-arg]  # older click has no arguments
    """A quantity as text with its unit; the value is in base units. Only plain numbers and shares need no unit."""

    name = "amount"

    def __init__(self, known: units.Quantity) -> None:
        """`known` has the dimension and the bounds."""
        self._known = known

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> units.Number | None:
        """Return the number in base units; None for null. A value that is no text is returned unchanged."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        dimension = self._known.dimension
        if value == "null" and self._known.null:
            return None
        bare = BARE.fullmatch(value) is not None
        if bare and dimension.base:
            self.fail(
                f"{value!r} has no unit. Use {_units(dimension)}, such as '{value} {dimension.base}'.", param
            )
        number = float(value) if bare else value
        try:
            units.parse(number, dimension)
        except units.UnitError:
            self.fail(f"{value!r} is not {dimension.name}. {_advice(dimension)}", param, context)
        try:
            return self._known.read(number)
        except PydanticCustomError:
            self.fail(f"{value!r} is out of bounds: {self._known.allowed()}.", param, context)


class Several(click.ParamType):  # type: ignore[type-arg]
    """Amounts with commas between them."""

    name = "amounts"

    def __init__(self, one: Amount) -> None:
        """`one` is the type of each."""
        self._one = one

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> list[units.Number | None]:
        """Return the numbers in base units."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        return [self._one.convert(part.strip(), param, context) for part in value.split(",")]


def parameter_options(several: Collection[str]) -> list[click.Option]:
    """Return an option for each parameter of sweeps; `several` are those that accept more than one value."""
    return [
        click.Option(
            [f"--{name.replace('_', '-')}", name],
            type=_type(name, name in several),
            metavar="VALUE,…" if name in several else "VALUE",
            help=_sentence(about.description or name),
        )
        for name, about in Parameters.model_fields.items()
    ]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _type(name: str, several: bool) -> click.ParamType[Any]:
    known = quantity(name)
    if known is None:
        return click.STRING
    return Several(Amount(known)) if several else Amount(known)


def _units(dimension: units.Dimension) -> str:
    """The units that people write most, for an error."""
    names = list(dimension.shown if len(dimension.units) > _LISTED else dimension.units)
    return " or ".join([", ".join(names[:-1]), names[-1]])


def _advice(dimension: units.Dimension) -> str:
    if not dimension.units:
        return "Use a plain number."
    bare = "" if dimension.base else "a plain number, or "
    return f"Use {bare}a number with {_units(dimension) if dimension.base else '%'}, such as '{dimension.example}'."
