# SPDX-License-Identifier: Apache-2.0
"""The sides of a comparison as users type them, such as `demo:tool=curl` or `other/dataset.nc`."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpcsweep.configuration.parameters import Value, quantity, show_value
from tpcsweep.configuration.places import existing_dataset, find_dataset
from tpcsweep.configuration.problems import quoted, refused
from tpcsweep.configuration.units import Quantity, UnitError, parse


@dataclass(frozen=True)
class ComparedSide:
    """A dataset to compare, or the part of it with given axis values."""

    key: str  # the name of the side in error messages: base or new
    text: str
    dataset: Path
    chosen: Mapping[str, Value]  # axis values, in base units


def read_side(key: str, text: str) -> ComparedSide:
    """Find a side's dataset with `find_dataset`, and parse axis values after a colon.

    The text is DATASET:AXIS=VALUE,AXIS=VALUE. Paths may contain colons: the longest prefix that is a dataset counts.
    """
    ends = [len(text), *(at for at in range(len(text) - 1, -1, -1) if text[at] == ":")]
    end = next((at for at in ends if existing_dataset(Path(text[:at]))), ends[-1])
    where, choice = text[:end], text[end + 1 :]
    dataset, chosen = find_dataset(where, key), dict[str, Value]()
    for part in filter(None, choice.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not (name and equals and value):
            raise refused(key, quoted(text), f"{where}:AXIS=VALUE,AXIS=VALUE")
        chosen[name] = _value(key, name, value)
    return ComparedSide(key, text, dataset, chosen)


def axis_text(name: str, value: Value) -> str:
    return "null" if isinstance(value, float) and math.isinf(value) else show_value(name, value)


def _null(known: Quantity, text: str) -> str:
    return meant if (meant := known.meant(text)).startswith("null") else ""


def _value(key: str, name: str, text: str) -> Value:
    known = quantity(name)
    if known is None:
        return int(text) if name == "repetition" and re.fullmatch("[0-9]+", text) else text
    if text == "null" and known.null:
        return math.inf
    bare = re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text)  # `parse` requires a unit in text
    try:
        return parse(float(text) if bare else text, known.dimension)
    except UnitError as error:
        raise refused(f"{key}, {name}", error.given, _null(known, text) + error.allowed) from error
