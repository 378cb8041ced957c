"""The two sides of a comparison, as people name them: `demo`, `demo:tool=curl`, `other/dataset.nc:rtt=20 ms`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpcsweep.configuration.parameters import Parameters, Value, quantity, show_value
from tpcsweep.configuration.problems import ConfigurationError, Problem, suggest
from tpcsweep.configuration.units import Dimension, UnitError, parse

DATASET = "dataset.nc"


@dataclass(frozen=True)
class Side:
    """One of two datasets that are compared, or the part of it with some values of its axes."""

    key: str
    """What errors call it: base or new."""
    text: str
    """As it was given."""
    dataset: Path
    chosen: Mapping[str, Value]
    """Values of axes, in base units."""

    @property
    def name(self) -> str:
        """The text as a part of file names."""
        folder = self.dataset.parent.name or "here"
        _, colon, chosen = self.text.partition(":")
        return re.sub(r"[^A-Za-z0-9._=@-]+", "-", f"{folder}{colon}{chosen}")


def side(key: str, text: str, results: Path) -> Side:
    """Read what names a side: a folder of results or a path that ends in .nc, then axis=value after a colon.

    Raises:
        ConfigurationError: for a dataset that is not there, and values that are none of their parameter.
    """
    where, _, choice = text.partition(":")
    dataset = Path(where) if where.endswith(".nc") else results / where / DATASET
    if not dataset.is_file():
        known = sorted(found.parent.name for found in results.glob(f"*/{DATASET}"))
        allowed = (
            f"{suggest(where, known)} with a dataset in {results}, or the path of a file that ends in .nc"
        )
        raise ConfigurationError([Problem(key, repr(text), allowed)])
    chosen: dict[str, Value] = {}
    for part in filter(None, choice.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not (name and equals and value):
            raise ConfigurationError([Problem(key, repr(text), f"{where}:AXIS=VALUE,AXIS=VALUE")])
        chosen[name] = _value(key, name, value)
    return Side(key, text, dataset, chosen)


def shown(name: str, value: Value) -> str:
    """A coordinate's value for people, with its unit."""
    if isinstance(value, float) and math.isinf(value):
        return "null"
    return show_value(name, value)


def _value(key: str, name: str, text: str) -> Value:
    known = quantity(name) if name in Parameters.model_fields else None
    if known is None:
        return int(text) if name == "repetition" and text.isdigit() else text
    if text == "null" and known.null:
        return math.inf
    try:
        return parse(_number(text, known.dimension), known.dimension)
    except UnitError as error:
        raise ConfigurationError(
            [Problem(f"{key}, {name}", *str(error)[6:].split(", allowed: ", 1))]
        ) from error


def _number(text: str, dimension: Dimension) -> str | float:
    """A bare number as a number: `parse` wants a unit of text."""
    if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
        return text
    return int(text) if dimension.whole and "." not in text else float(text)
