# SPDX-License-Identifier: Apache-2.0
"""The parameters of a cell: meaning, unit, default and bounds of each.

The order of the fields is the order of the axes in paths and datasets: parameters of the deployment are first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    create_model,
    model_validator,
)

from tpcsweep.configuration import units
from tpcsweep.configuration.problems import LIST_TAG, VALUE_TAG, Fault, fault, refuse
from tpcsweep.configuration.units import COUNT, Quantity, show
from tpcsweep.xrootd.releases import SYSTEM

Value = str | int | float | None
"""The value of a parameter, in base units."""

WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""The pattern of words, which become parts of file names."""
Word = Annotated[str, StringConstraints(strict=True, pattern=WORD, max_length=64)]
AnyText = Annotated[str, Field(strict=True)]
Text = Annotated[str, Field(strict=True, min_length=1)]

MOST_VALUES = 1000
"""Values of an axis, and entries of `exclude` and `include`: each is compared with each."""


class Strict(BaseModel):
    """An immutable model that refuses unknown keys; the docstrings of its fields are their descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        refuse(type(self), self._faults())
        return self

    def _faults(self) -> Iterable[Fault]:
        """Return what is wrong with fields that are valid one by one."""
        return ()


class DeploymentParameters(Strict):
    """What changes servers or paths: another value is another deployment."""

    pair: Word = "only"
    """pair of storage endpoints, by its name in the testbed"""
    xrootd: Word = SYSTEM
    """release of XRootD that the servers are: system, a version, or a testbed's own"""
    origins: Annotated[int, units.ORIGINS] = 1
    """XRootD origins of each side; more than one has a redirector"""
    cores: Annotated[float | None, replace(units.QUOTA, null="no quota")] = None
    """CPU cores of each side, in total over its origins; null: no quota"""
    rtt: Annotated[float, units.ROUND_TRIP] = 0.0
    """round-trip time that the path adds; 0: none"""
    bandwidth: Annotated[float, units.BANDWIDTH] = 1.0
    """bandwidth of the path, in each direction"""
    loss: Annotated[float, units.LOSS] = 0.0
    """share of packets that the path loses, in each direction"""
    queue_limit: Annotated[int | None, replace(units.QUEUE_LIMIT, null="sized to the path")] = None
    """packets that may be under way in each direction, as netem's limit; null: sized to the path"""
    mtu: Annotated[int, units.MTU] = 9000
    """largest packet of the path"""
    tcp_buffer: Annotated[int, units.TCP_BUFFER] = 64 * 2**20
    """largest TCP buffer of a connection, each for sending and receiving"""
    congestion_control: Word = "cubic"
    """TCP congestion control of the servers"""
    layer: Literal["network", "memory_to_memory", "memory_to_disk", "disk_to_disk"] = "memory_to_memory"
    """where the files of source and destination are; network: none"""
    authorization: Literal["usual", "macaroons", "none"] = "usual"
    """whom servers let in: holders of their macaroons, or everybody; usual: as is usual with the tool"""


class Parameters(DeploymentParameters):
    """All the parameters of a cell, in base units."""

    tool: Word = "gfal-copy"
    """what moves the bytes"""
    copy_mode: Literal["pull", "push"] = "pull"
    """which side opens the connections: pull is the destination"""
    encryption: Literal["usual", "tls", "none"] = "usual"
    """how the data go from side to side; usual: as is usual with the tool"""
    endpoint: Literal["redirector", "direct"] = "redirector"
    """whom clients ask: the redirector of a side, or its origins in turn; one origin has none"""
    tcp_streams: Annotated[int, units.TCP_STREAMS] = 1
    """TCP connections inside one transfer, as many as the tool can have"""
    file_size: Annotated[int, units.FILE_SIZE] = 256 * 2**20
    """size of each file"""
    source_content: Literal["sparse", "random"] = "sparse"
    """content of the source files: holes, or random bytes kept in memory"""
    streams: Annotated[int, units.STREAMS] = 1
    """concurrent single-file transfers, kept active"""


DEPLOYMENT = tuple(DeploymentParameters.model_fields)
"""Names of the parameters that change the deployment, in order."""
CELL = tuple(name for name in Parameters.model_fields if name not in DEPLOYMENT)
"""Names of the other parameters, in order."""

BEFORE: Mapping[str, Value] = {
    "pair": "only",
    "xrootd": SYSTEM,
    "authorization": "usual",
    "encryption": "usual",
}
"""The values of newer parameters in cells that are older than the parameter, and whose files do not name it."""

CONDITIONS = "conditions"
"""The key of a specification for consequences of a cell's parameters on its testbed; most cells have none."""


def complete(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell's specification with the parameters that are newer than the cell's file."""
    return {**specification, "parameters": {**BEFORE, **specification.get("parameters", {})}}


def quantity(name: str) -> Quantity | None:
    """Return the dimension and bounds of a parameter; None for words and for names that are no parameter."""
    field = Parameters.model_fields.get(name)
    return next((item for item in field.metadata if isinstance(item, Quantity)), None) if field else None


def show_value(name: str, value: Value) -> str:
    """Return a value of a parameter, or of `repetition`, for people."""
    if value is None or isinstance(value, str):
        return "null" if value is None else value
    known = quantity(name)
    return show(value, known.dimension if known else COUNT)


def value_text(name: str, value: Any) -> str:
    """Return a coordinate of a dataset for people: inf is null, which means no limit, or what the parameter says."""
    value = value.item() if hasattr(value, "item") else value  # of numpy, which pods may not have
    if isinstance(value, bool):  # no sweep has an axis of bool, but a dataset may be edited
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        known = quantity(name)
        return (known and known.null) or "no limit"
    return show_value(name, value)


def _unique(values: list[Hashable]) -> tuple[Hashable, ...]:
    # Some file systems take the folders of names that differ only by case for one.
    names = [value.casefold() if isinstance(value, str) else value for value in values]
    times = Counter(names)
    if twice := dict.fromkeys(value for value, name in zip(values, names, strict=True) if times[name] > 1):
        raise fault("each value once, whatever its case", f"{', '.join(map(repr, twice))} more than once")
    return tuple(values)


def tag(value: object) -> str:
    """Return the tag of a value in a union of one value and a list."""
    return LIST_TAG if isinstance(value, list | tuple) else VALUE_TAG


def _selection(name: str, doc: str, *, defaults: bool) -> type[Strict]:
    """A model in which every parameter is optional, and is one value or a list of values."""
    fields: dict[str, Any] = {}
    hints = get_type_hints(Parameters, include_extras=True)
    for parameter, info in Parameters.model_fields.items():
        single: Any = hints[parameter]
        listed = Field(min_length=1, max_length=MOST_VALUES, json_schema_extra={"uniqueItems": True})
        several = Annotated[list[single], listed, AfterValidator(_unique)]
        either = Annotated[
            Annotated[single, Tag(VALUE_TAG)] | Annotated[several, Tag(LIST_TAG)], Discriminator(tag)
        ]
        # A factory keeps the default out of the schema where a missing parameter means any value.
        default = {"default": info.default} if defaults else {"default_factory": lambda: None}
        fields[parameter] = (either, Field(description=info.description, **default))
    return create_model(name, __base__=Strict, __doc__=doc, **fields)


Given = _selection("Given", "Parameters of a sweep: one value, or a list for an axis.", defaults=True)
Selection = _selection("Selection", "Values of some parameters, by which cells are chosen.", defaults=False)


def chosen(selection: Strict) -> dict[str, Value | tuple[Value, ...]]:
    """Return the parameters that a `Given` or `Selection` sets, in the order of the fields; lists are tuples."""
    names = Parameters.model_fields  # a `Question` has more fields
    return {name: getattr(selection, name) for name in names if name in selection.model_fields_set}
