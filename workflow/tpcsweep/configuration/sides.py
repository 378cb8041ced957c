# SPDX-License-Identifier: Apache-2.0
"""The two sides of a comparison, as people name them: `demo`, `demo:tool=curl`, `other/dataset.nc:rtt=20 ms`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpcsweep.configuration.parameters import Value, quantity, show_value
from tpcsweep.configuration.problems import quoted, refused, suggest
from tpcsweep.configuration.units import UnitError, parse
from tpcsweep.files import is_file

DATASET = "dataset.nc"
SUFFIX = ".nc"
"""What the paths of datasets end in, where a name may stand too."""
STORE = ".zarr"
"""What those of Zarr stores end in."""

LONGEST_NAME = 100
"""Bytes of a side's part of file names; a file system takes 255 for both together."""


@dataclass(frozen=True)
class Side:
    """One of two datasets that are compared, or the part of it with some values of its axes."""

    key: str
    """What errors call it: base or new."""
    text: str
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
    dataset = results / where / DATASET
    if where.endswith(SUFFIX) and not is_file(dataset):
        dataset = Path(where)
    if not is_file(dataset):
        known = suggest(where, sorted(file.parent.name for file in results.glob(f"*/{DATASET}")))
        allowed = f"{known} with a dataset in {results}, or the path of a file that ends in .nc"
        raise refused(key, quoted(text), allowed)
    chosen: dict[str, Value] = {}
    for part in filter(None, choice.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not (name and equals and value):
            raise refused(key, quoted(text), f"{where}:AXIS=VALUE,AXIS=VALUE")
        chosen[name] = _value(key, name, value)
    named = Side(key, text, dataset, chosen)
    if len(named.name.encode()) > LONGEST_NAME:
        allowed = f"a folder and values whose names have at most {LONGEST_NAME} bytes: they name the results"
        raise refused(key, quoted(text), allowed)
    return named


def shown(name: str, value: Value) -> str:
    """Give a coordinate's value for people, with its unit."""
    return "null" if isinstance(value, float) and math.isinf(value) else show_value(name, value)


def _value(key: str, name: str, text: str) -> Value:
    known = quantity(name)
    if known is None:
        return int(text) if name == "repetition" and re.fullmatch(r"[0-9]{1,9}", text) else text
    if text == "null" and known.null:
        return math.inf
    value: str | float = text
    if re.fullmatch(r"[0-9]{1,99}(?:\.[0-9]{1,99})?", text):  # a bare number: `parse` wants a unit of text
        value = int(text) if known.dimension.whole and "." not in text else float(text)
    try:
        return parse(value, known.dimension)
    except UnitError as error:
        raise refused(f"{key}, {name}", error.given, error.allowed) from error
