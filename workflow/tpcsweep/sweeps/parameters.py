# SPDX-License-Identifier: Apache-2.0
"""The parameters of a cell with their units, defaults and bounds.

The order of the fields is the order of axes in paths and datasets: parameters of the deployment come first.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    StringConstraints,
    Tag,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import InitErrorDetails, PydanticCustomError

from tpcsweep.deploying.xrootd.releases import SYSTEM
from tpcsweep.sweeps import units
from tpcsweep.sweeps.problems import LIST_TAG, VALUE_TAG, Fault, fault
from tpcsweep.sweeps.units import COUNT, Quantity, show

KNOBS = ("cores", "origins", "streams")
"""Searched parameters, most expensive first: a plan saves cores, then origins, then streams."""


Value = str | int | float | None  # the value of a parameter, in base units
CAPITALS = ("mtu", "rtt", "tcp")  # words that figures and pages write in capitals
LINK = SOURCE, DESTINATION = ("source", "destination")
"""Axes of a mesh: the sites at both ends of a link. A link that does not exist is NaN in datasets."""


def link_text(source: str, destination: str) -> str:
    return f"{source} → {destination}"


NOT_DECLARED = "not declared"  # text of a parameter whose value nobody knows: NaN in datasets

WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # the pattern of words that become parts of file names
Word = Annotated[str, StringConstraints(strict=True, pattern=WORD, max_length=64)]
AnyText = Annotated[str, Field(strict=True)]
Text = Annotated[str, Field(strict=True, min_length=1)]

MOST_VALUES = 1000
"""Limit on values of an axis and on entries of `exclude` and `include`; all pairs are compared."""


@dataclass(frozen=True)
class Before:
    """Annotation of a parameter that is added later: the value that all cells had before.

    Cells without the parameter stay current, and datasets get it with this value.
    """

    value: Value


@dataclass(frozen=True)
class Testbeds:
    """Annotation of each parameter: the kinds of testbeds that support it. Several annotations add up.

    Other testbeds refuse all values but the default.
    """

    kinds: tuple[str, ...]


DEPLOYED = Testbeds(("netns", "kubernetes"))
SIMULATED = Testbeds(("simulation",))
ENDPOINTS = Testbeds(("endpoints",))


def _sysctl_text(value: Value) -> str:
    return {"off": "0", "on": "1"}.get(str(value), str(value))


@dataclass(frozen=True)
class Sysctl:
    """Annotation of a parameter of deployments that is a sysctl in the network namespaces of servers.

    Testbeds set, record and verify the sysctl. A null value leaves it to the kernel.
    """

    name: str  # such as net.ipv4.tcp_notsent_lowat
    text: Callable[[Any], str] = _sysctl_text
    """Returns the sysctl's text of a parameter's value; by default on is 1, and off is 0."""
    testbeds: Testbeds = DEPLOYED
    """Testbeds on which the sysctl sets the parameter."""


RECEIVE_BUFFER = 1 << 20
"""Largest initial size of a receive buffer, in bytes.
The kernel's default of 128 KiB relies on autotuning, which on Linux 6.18 may never start: such a connection stays at 64
KiB per RTT. See docs/paths.md."""


def _receive_buffer(size: int) -> str:
    return f"4096 {min(size, RECEIVE_BUFFER)} {size}"


def _send_buffer(size: int) -> str:
    return f"4096 {min(size, 16384)} {size}"


class Strict(BaseModel):
    """An immutable model that refuses unknown keys; the docstrings of its fields are their descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        errors = [
            InitErrorDetails(type=fault(allowed, given), loc=place, input=None)
            for place, given, allowed in self._faults()
        ]
        if errors:
            raise ValidationError.from_exception_data(type(self).__name__, errors)
        return self

    def _faults(self) -> Iterable[Fault]:
        """Return faults that involve several fields; each is reported at its own place instead of the model's."""
        return ()


class DeploymentParameters(Strict):
    """Parameters of servers and paths: each combination of their values is a deployment.

    Values of the testbed's `settings` are extra fields, such as `tuning`.
    """

    model_config = ConfigDict(extra="allow")

    pair: Annotated[Word, ENDPOINTS] = "only"
    """name of a pair of storage endpoints in the testbed"""
    source: Annotated[Word, ENDPOINTS, Before("only")] = "only"
    """name of the site that files are copied from, in a testbed with sites"""
    destination: Annotated[Word, ENDPOINTS, Before("only")] = "only"
    """name of the site that files are copied to, in a testbed with sites"""
    beside: Annotated[Word, ENDPOINTS, Before("none")] = "none"
    """background traffic: none, reverse (its other direction), or a name of the testbed's `beside`"""
    xrootd: Annotated[Word, DEPLOYED] = SYSTEM
    """release of XRootD on the servers: system, a version, or a name that the testbed defines"""
    origins: Annotated[int, units.ORIGINS, DEPLOYED, SIMULATED] = 1
    """XRootD origins on each side; more than one need a redirector"""
    cores: Annotated[float | None, replace(units.QUOTA, null="no quota"), DEPLOYED, SIMULATED] = None
    """CPU cores of each side, shared by its origins; null: no quota"""
    # None in grids of endpoints that do not declare the next two (`Endpoints.defaults`); measuring gets NaN.
    rtt: Annotated[float, units.ROUND_TRIP, DEPLOYED, SIMULATED] = 0.0
    """round-trip time that the path adds; 0: none"""
    bandwidth: Annotated[float, units.BANDWIDTH, DEPLOYED, SIMULATED] = 1.0
    """bandwidth of the path, in each direction"""
    loss: Annotated[float, units.LOSS, DEPLOYED] = 0.0
    """share of packets that the path loses, in each direction"""
    queue_limit: Annotated[
        int | None, replace(units.QUEUE_LIMIT, null="sized to the path"), DEPLOYED, SIMULATED
    ] = None
    """packets that may be in flight in each direction, as netem's limit; null: sized to the path"""
    mtu: Annotated[int, units.MTU, DEPLOYED, SIMULATED] = 9000
    """MTU of the path"""
    tcp_buffer: Annotated[
        int,
        units.TCP_BUFFER,
        DEPLOYED,
        SIMULATED,
        Sysctl("net.ipv4.tcp_rmem", _receive_buffer),
        Sysctl("net.ipv4.tcp_wmem", _send_buffer),
    ] = 64 * 2**20
    """largest TCP send buffer and receive buffer of a connection"""
    congestion_control: Annotated[
        Word,
        DEPLOYED,
        # On netns routes set it, because the sysctl may be refused inside a namespace.
        Sysctl("net.ipv4.tcp_congestion_control", testbeds=Testbeds(("kubernetes",))),
    ] = "cubic"
    """TCP congestion control of the servers"""
    layer: Annotated[
        Literal["network", "mirage", "memory_to_memory", "memory_to_disk", "disk_to_disk"],
        DEPLOYED,
        SIMULATED,
    ] = "memory_to_memory"
    """storage of the source and destination files; mirage: servers invent and discard their content; network:
    no files
    """
    scitag: Annotated[
        int | None,
        Quantity(COUNT, 65, 65535, "the first experiment's first activity; 16 bits", null="no tag"),
        Testbeds(("netns",)),
        ENDPOINTS,
        Before(None),
    ] = None
    """SciTag of the transfers, 64 times the experiment plus the activity, by which servers announce their flows;
    null: no tag
    """
    authorization: Annotated[Literal["usual", "macaroons", "none"], DEPLOYED, SIMULATED] = "usual"
    """whether servers require their macaroons or admit anonymous clients; usual: the tool's default"""


class Parameters(DeploymentParameters):
    """All parameters of a cell, in base units."""

    tool: Annotated[Word, DEPLOYED, SIMULATED, ENDPOINTS] = "gfal-copy"
    """tool that transfers the data"""
    copy_mode: Annotated[Literal["pull", "push"], DEPLOYED, SIMULATED, ENDPOINTS] = "pull"
    """side that opens the connections: the destination with pull, the source with push"""
    encryption: Annotated[Literal["usual", "tls", "none"], DEPLOYED, SIMULATED] = "usual"
    """encryption of the data between the sides; usual: the tool's default"""
    endpoint: Annotated[Literal["redirector", "direct"], DEPLOYED, SIMULATED] = "redirector"
    """servers that clients contact: the redirector of a side, or its origins in turn; a single origin has
    no redirector
    """
    tcp_streams: Annotated[int, units.TCP_STREAMS, DEPLOYED, ENDPOINTS] = 1
    """TCP connections of one transfer; the maximum depends on the tool"""
    file_size: Annotated[int, units.FILE_SIZE, DEPLOYED, SIMULATED, ENDPOINTS] = 256 * 2**20
    """size of each file"""
    checksum: Annotated[Literal["none", "adler32", "crc32c", "md5"], DEPLOYED, ENDPOINTS, Before("none")] = (
        "none"
    )
    """checksum by which the tool compares each file with its source; a transfer with another one fails"""
    source_content: Annotated[Literal["sparse", "random"], DEPLOYED, SIMULATED] = "sparse"
    """content of the source files: sparse files, or random bytes kept in memory"""
    streams: Annotated[int, units.STREAMS, DEPLOYED, SIMULATED, ENDPOINTS] = 1
    """concurrent transfers of one file each; the client starts the next one immediately"""


WITHOUT_FILES = ("network", "mirage")
"""Layers whose bytes are counted by connections, because nobody sees files."""
DEPLOYMENT = tuple(DeploymentParameters.model_fields)  # names of the parameters of deployments, in order
CELL = tuple(name for name in Parameters.model_fields if name not in DEPLOYMENT)
"""Names of the other parameters, in order. Every other axis belongs to deployments: settings of users do."""


Annotation = TypeVar("Annotation")


def _annotations(kind: type[Annotation]) -> Iterator[tuple[str, Annotation]]:
    """Yield the annotations of a type, each with the name of its parameter."""
    for name, field in Parameters.model_fields.items():
        yield from ((name, item) for item in field.metadata if isinstance(item, kind))


BEFORE: Mapping[str, Value] = {name: before.value for name, before in _annotations(Before)}
"""Parameters that were added later, with the values that cells had before."""


def supporting_testbeds(parameter: str) -> tuple[str, ...]:
    """Return the kinds of testbeds that support a parameter."""
    return tuple(kind for name, each in _annotations(Testbeds) if name == parameter for kind in each.kinds)


def parameters_by_sysctl(kind: str) -> dict[str, str]:
    """Return the sysctls that a kind of testbed sets, each with the name of its parameter."""
    return {sysctl.name: name for name, sysctl in _annotations(Sysctl) if kind in sysctl.testbeds.kinds}


def sysctls(kind: str, wanted: DeploymentParameters) -> dict[str, str]:
    """Return the texts of the sysctls that a kind of testbed sets for some parameters, by the sysctls' names."""
    return {
        sysctl.name: sysctl.text(value)
        for name, sysctl in _annotations(Sysctl)
        if kind in sysctl.testbeds.kinds and (value := getattr(wanted, name)) is not None
    }


CONDITIONS = "conditions"
"""The key of a specification for effects of a cell's parameters on its testbed; most cells have none."""


def complete(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell's specification with the parameters that were added after it was written."""
    return {**specification, "parameters": {**BEFORE, **specification.get("parameters", {})}}


def quantity(name: str, model: type[Strict] = Parameters) -> Quantity | None:
    """Return the dimension and bounds of a parameter; None for text parameters and unknown names."""
    field = model.model_fields.get(name)
    return next((item for item in field.metadata if isinstance(item, Quantity)), None) if field else None


def show_value(name: str, value: Value) -> str:
    """Return a parameter's value, or a repetition, for messages."""
    if value is None or isinstance(value, str):
        return "null" if value is None else value
    known = quantity(name)
    return show(value, known.dimension if known else COUNT)


def name_text(name: str) -> str:
    """Return a parameter's name for people."""
    return " ".join(word.upper() if word in CAPITALS else word for word in name.split("_"))


def value_text(name: str, value: Any) -> str:
    """Return a coordinate for messages. inf is null, in the words of the parameter or as no limit; NaN is missing."""
    value = value.item() if hasattr(value, "item") else value  # a numpy scalar; pods may not have numpy
    if isinstance(value, float) and math.isnan(value):
        return NOT_DECLARED
    if isinstance(value, bool):  # sweeps have no bool axes, but datasets may be edited
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        known = quantity(name)
        return (known and known.null) or "no limit"
    return show_value(name, value)


def _unique(values: list[Hashable]) -> tuple[Hashable, ...]:
    if twice := [value for value, times in Counter(values).items() if times > 1]:
        raise fault("each value once", f"{', '.join(map(repr, twice))} more than once")
    return tuple(values)


def tag(value: object) -> str:
    """Return the tag of a value in a union of a single value and a list."""
    return LIST_TAG if isinstance(value, list | tuple) else VALUE_TAG


def about_support(parameter: str) -> str:
    """Return the testbeds that support a parameter, and its sysctls, for documentation."""
    names = ", ".join(sysctl.name for name, sysctl in _annotations(Sysctl) if name == parameter)
    return ", ".join(supporting_testbeds(parameter)) + (f"; sysctl {names}" if names else "")


Settings = Mapping[str, Iterable[str]]
"""Names of a testbed's settings, with the values of each."""


def _checked_setting(named: tuple[str, object], info: ValidationInfo) -> object:
    """Return one value, or a list, if the validation's context has the setting with these values, or None."""
    name, given = named
    known: Settings | None = (info.context or {}).get("settings", {})
    if known is None:
        return given
    if name not in known:
        raise PydanticCustomError("extra_forbidden", "an unknown key")
    listed, values = given if isinstance(given, list | tuple) else [given], [*known[name]]
    if not listed or any(value not in values for value in listed):
        raise fault(f"of its values: {', '.join(values)}", repr(given))
    if len(set(listed)) < len(listed):
        raise fault("each value once", repr(given))
    return given


class _Selected(Strict):
    """Parameters, and as extra fields the testbed's settings."""

    __pydantic_extra__: dict[str, Annotated[Any, PlainValidator(_checked_setting)]]
    _words: ClassVar[JsonDict] = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
    }
    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": _words})

    @model_validator(mode="before")
    @classmethod
    def _with_names(cls, content: object) -> object:
        """Add the name to the value of each setting, because validators of extra fields get values alone."""
        if not isinstance(content, dict):
            return content
        return {name: value if name in cls.model_fields else (name, value) for name, value in content.items()}


def _selection(name: str, doc: str, *, defaults: bool) -> type[Strict]:
    """Return a model in which every parameter is optional and accepts one value or a list."""
    fields: dict[str, Any] = {}
    hints = get_type_hints(Parameters, include_extras=True)
    for parameter, info in Parameters.model_fields.items():
        single: Any = hints[parameter]
        listed = Field(min_length=1, max_length=MOST_VALUES, json_schema_extra={"uniqueItems": True})
        several = Annotated[list[single], listed, AfterValidator(_unique)]
        either = Annotated[
            Annotated[single, Tag(VALUE_TAG)] | Annotated[several, Tag(LIST_TAG)], Discriminator(tag)
        ]
        description = f"{info.description} ({about_support(parameter)})"
        # A factory keeps the default out of the schema if a missing parameter means any value.
        default = {"default": info.default} if defaults else {"default_factory": lambda: None}
        fields[parameter] = (either, Field(description=description, **default))
    return create_model(name, __base__=_Selected, __doc__=doc, **fields)


SweepParameters = _selection(
    "SweepParameters", "Parameters of a sweep: one value, or a list for an axis.", defaults=True
)
Selection = _selection("Selection", "Values of some parameters, by which cells are chosen.", defaults=False)


def selected_parameters(selection: Strict) -> dict[str, Value | tuple[Value, ...]]:
    """Return what a `SweepParameters` or `Selection` sets: settings by name, then parameters; lists are tuples."""
    settings = selection.model_extra or {}
    chosen = {name: settings[name] for name in sorted(settings)}
    names = Parameters.model_fields  # a `Question` has more fields
    chosen |= {name: getattr(selection, name) for name in names if name in selection.model_fields_set}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in chosen.items()}
