# SPDX-License-Identifier: Apache-2.0
"""Where the pods of a kubernetes testbed run, what they may use there, and by what address they are asked for."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from ipaddress import IPv4Interface
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from tpcsweep.configuration import units
from tpcsweep.configuration.parameters import AnyText, Strict
from tpcsweep.configuration.problems import Fault, fault, key
from tpcsweep.configuration.units import SIZE, show

CPU, MEMORY = "cpu", "memory"
OWN = (CPU, MEMORY, "ephemeral-storage")
"""What may be requested less of than it is limited to; of all else Kubernetes requests what is the limit."""
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(r"(?P<number>[0-9]{1,18}(?:\.[0-9]{1,9})?)(?P<suffix>[KMGTPE]i|[numkMGTPE]?)")
WITHIN = Decimal("1.2")
"""How many times the requests limits may be, where a cluster wants them near each other."""
LARGEST = 2**63 - 1
"""What Kubernetes can say of anything."""
ALLOWED = 'a quantity of Kubernetes above 0, such as 16, 250m or 10Gi (in quotes: "250m")'


def amount_of(text: str) -> Decimal:
    """Return the amount of a quantity of Kubernetes, in cores, bytes or pieces; 0 for another text.

    Exponents (1e3) are left out: YAML reads them as numbers, and nobody writes them.
    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    parts = _QUANTITY.fullmatch(text)
    if not parts:
        return Decimal(0)
    number, suffix = Decimal(parts["number"]), parts["suffix"]
    if suffix.endswith("i"):
        return number * Decimal(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    return number.scaleb(_SUFFIXES[suffix])


def _quantity(value: object) -> str:
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if isinstance(text, str) and 0 < amount_of(text) <= LARGEST:
        return text
    raise fault(ALLOWED)


_SCHEMA = {"type": ["string", "number"]}
Amount = Annotated[str, BeforeValidator(_quantity), Field(json_schema_extra=_SCHEMA)]
"""A quantity as Kubernetes writes it."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$")]
"""What there is a quantity of: cpu, memory, or the name of an extended resource."""


class Resources(Strict):
    """What a container requests and is limited to, key by key instead of what it has by itself."""

    requests: dict[Name, Amount] = Field(default_factory=dict)
    """requests, as in a container's specification"""
    limits: dict[Name, Amount] = Field(default_factory=dict)
    """limits, as in a container's specification"""

    def _faults(self) -> Iterator[Fault]:
        for what, of in (("requests", self.requests), ("limits", self.limits)):
            for name, text in of.items():
                least, whole = Decimal("0.001"), "whole thousandths of a core"
                if name != CPU:
                    least, whole = Decimal(1), "a whole number"
                if amount_of(text) % least:
                    yield (what, name), text, whole
        for name, text in self.requests.items():
            if name not in OWN:
                allowed = f"nothing but {', '.join(OWN)}: of all else Kubernetes requests what is in limits"
                yield ("requests", name), text, allowed
            elif name in self.limits and amount_of(text) > amount_of(self.limits[name]):
                yield ("requests", name), text, f"at most {self.limits[name]}, its limit"

    def over(self, limits: Mapping[str, str], qos: str) -> dict[str, dict[str, str]]:
        """Give requests and limits of a container, over those that it has by itself. Pure.

        Args:
            limits: Of cpu and memory, where it has any; no less than what is requested.
            qos: Which of REQUESTS is requested unless something else is said.
        """
        own = {name: max(text, self.requests.get(name, text), key=amount_of) for name, text in limits.items()}
        limited = {**own, **self.limits}
        return {"limits": limited, "requests": {**REQUESTS[qos](limited), **self.requests}}


def near(limits: Mapping[str, str]) -> dict[str, str]:
    """Give the least that may be requested where limits must be within 20 % of it: of CPU and memory, rounded up."""
    requests = dict(limits)
    for name, (unit, suffix) in {CPU: (Decimal("0.001"), "m"), MEMORY: (Decimal(1), "")}.items():
        if name in limits:
            requests[name] = f"{math.ceil(amount_of(limits[name]) / unit / WITHIN)}{suffix}"
    return requests


def little(limits: Mapping[str, str]) -> dict[str, str]:
    """Give what is requested where that is to be little: of extended resources all, and never more than the limit."""
    small = {CPU: "10m", MEMORY: "32Mi"}
    requests = {name: min(text, limits.get(name, text), key=amount_of) for name, text in small.items()}
    return requests | {name: text for name, text in limits.items() if name not in OWN}


REQUESTS: Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]] = MappingProxyType(
    {"guaranteed": dict, "near": near, "burstable": little}
)
"""What containers request of what they are limited to, by the testbed's `qos`."""


BLOCK = 5
"""Ports that a server on the network of its node has: XRootD's, and those that follow it (`pod.places`)."""
FIRST_PORT = 8080
"""Of the first server that says none."""


_WITH_LENGTH = "an address with prefix length, such as 10.1.0.1/24"


def _ipv4(text: str, needed: str, allowed: str) -> str:
    with suppress(ValueError):
        if needed in text:
            IPv4Interface(text)
            return text
    raise fault(allowed)


Address = Annotated[AnyText, AfterValidator(lambda text: _ipv4(text, "/", _WITH_LENGTH))]
"""An IP address with its prefix length."""
_HOST = "an IPv4 address, such as 10.1.0.1, or with its prefix length behind it"
Host = Annotated[AnyText, AfterValidator(lambda text: _ipv4(text, "", _HOST))]
"""An IP address, with its prefix length or without."""


class Placement(Strict):
    """Where pods run, and what they need there: passed through to their specifications."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    """labels that a node must have"""
    affinity: dict[str, Any] = Field(default_factory=dict)
    """affinity, as in a pod's specification"""
    tolerations: tuple[dict[str, Any], ...] = ()
    """tolerations, as in a pod's specification"""
    annotations: dict[str, str] = Field(default_factory=dict)
    """annotations of the pods"""
    resources: Resources = Field(default_factory=Resources)
    """requests and limits of the server, or of the client; extended resources too, as of SR-IOV
    devices"""
    agent: Resources = Field(default_factory=Resources)
    """requests and limits of the agent beside it, or of the client's hub"""
    network: AnyText | None = None
    """paths of kind networks: the network attachment (Multus)"""
    addresses: tuple[Address, ...] = ()
    """paths of kind networks: addresses with prefix length, of the redirector and of each origin"""

    def without_network(self, place: tuple[str | int, ...], why: str) -> Iterator[Fault]:
        """Give faults where a network is given though there is none, which `why` says."""
        if self.network is not None:
            yield (*place, "network"), repr(self.network), f"nothing: {why}"
        if self.addresses:
            yield (*place, "addresses"), ", ".join(self.addresses), f"nothing: {why}"


class Origin(Strict):
    """One server of a side: what it says instead of what its side does."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    """labels that its node must have, instead of its side's"""
    network: AnyText | None = None
    """paths of kind networks: its attachment, instead of its side's"""
    address: Host | None = None
    """what it is asked for by: with host_network an address of its node, with networks one with prefix
    length; null: its pod's"""
    port: Annotated[int | None, replace(units.FIRST_PORT, null="one that is free")] = None
    """with host_network: XRootD's port, the first of five in a row; null: one that is free"""


class Redirector(Origin):
    """The redirector of a side: what it says instead of what its side does."""

    affinity: dict[str, Any] = Field(default_factory=dict)
    """affinity, instead of its side's"""
    tolerations: tuple[dict[str, Any], ...] = ()
    """tolerations, instead of its side's"""
    annotations: dict[str, str] = Field(default_factory=dict)
    """annotations, instead of its side's"""
    resources: Resources = Field(default_factory=Resources)
    """requests and limits, apart from its side's"""
    agent: Resources = Field(default_factory=Resources)
    """those of its agent, instead of its side's"""


class Side(Placement):
    """The servers of one side of a pair."""

    memory: Annotated[int | None, replace(units.MEMORY, null="the testbed's")] = None
    """memory for files of each origin; null: the testbed's"""
    origins: tuple[Origin, ...] = ()
    """the origins one by one, where they have nodes, addresses or ports of their own"""
    redirector: Redirector = Field(default_factory=Redirector)
    """the redirector, where it differs from the origins"""


class Spot(NamedTuple):
    """Where one server of a side goes."""

    placed: Placement
    """Its node, and what it may use there."""
    network: str | None
    address: str | None
    """With its prefix length, where it is written with one; None: its pod's."""
    port: int | None
    """The first of BLOCK that follow each other; None: the usual ones, in a network of its own."""
    memory: int
    """Of an origin, for its files, bytes."""


Some = TypeVar("Some", bound=Strict)


def over(below: Some, above: Strict) -> Some:
    """Give a model with what another one was given instead, key by key. Pure."""
    known = type(below).model_fields
    given = {name: getattr(above, name) for name in above.model_fields_set if name in known}
    return below.model_copy(update=given)


def spots(side: Side, origins: int, *, host_network: bool) -> list[Spot]:
    """Give where the servers of a side go, with so many origins: first the redirector of several. Pure."""
    servers: list[Origin] = [side.redirector] if origins > 1 else []
    servers += [side.origins[n] if n < len(side.origins) else Origin() for n in range(origins)]
    said = [server.port for _, server in servers_of(side) if server.port]
    free = (port for port in itertools.count(FIRST_PORT, BLOCK) if not _near(port, said))
    assert side.memory is not None, "a side as Kubernetes.pairs has it"
    return [
        Spot(
            _placed(side, server),
            server.network or side.network,
            server.address or (side.addresses[number] if number < len(side.addresses) else None),
            (server.port or next(free)) if host_network else None,
            side.memory,
        )
        for number, server in enumerate(servers)
    ]


def servers_of(side: Side) -> list[tuple[tuple[str | int, ...], Origin]]:
    """All servers of a side of which anything is said, with their places."""
    origins = [(("origins", number), origin) for number, origin in enumerate(side.origins)]
    return [(("redirector",), side.redirector), *origins]


def most_origins(side: Side, kind: str) -> tuple[int, str] | None:
    """How many origins a side can have on paths of a kind, and what bounds them; None where nothing does. Pure."""
    if side.origins:
        if kind == "networks" and side.redirector.address is None:
            return 1, "redirector.address, which more than one origin need"
        return len(side.origins), f"{len(side.origins)} origins"
    if kind != "networks":
        return None
    count, needed = len(side.addresses), "one for the redirector and one for each of them"
    return max(1, count - 1), f"{count} of the addresses that more than one origin need, {needed}"


def faults(side: Side, kind: str, *, host_network: bool) -> Iterator[Fault]:
    """Give what a side says that cannot be on paths of a kind, or contradicts itself or what is measured."""
    if side.origins and side.addresses:
        yield ("addresses",), ", ".join(side.addresses), "nothing beside origins, which have an address each"
    for place, server in servers_of(side):
        yield from _unfit(place, server, kind, host_network=host_network)
    if CPU in side.resources.limits:
        allowed = "nothing: an origin is limited to cores / origins of the sweep, which is what is measured"
        yield ("resources", "limits", CPU), side.resources.limits[CPU], allowed
    limit = side.resources.limits.get(MEMORY)
    if limit is not None and side.memory is not None and amount_of(limit) <= side.memory:
        allowed = f"more than {show(side.memory, SIZE)}, which its files alone may take (memory)"
        yield ("resources", "limits", MEMORY), limit, allowed
    if host_network:
        yield from _clashes(side)


def needless(placed: Placement | Redirector) -> Iterator[Fault]:
    """Give requests that stand beside `qos: guaranteed`, by which they are what limits are."""
    for name in ("resources", "agent"):
        for resource, text in getattr(placed, name).requests.items():
            allowed = "nothing with qos guaranteed, which requests what limits say; or qos burstable"
            yield (name, "requests", resource), text, allowed


def _unfit(place: tuple[str | int, ...], server: Origin, kind: str, *, host_network: bool) -> Iterator[Fault]:
    attached = kind == "networks"
    if server.network is not None and not attached:
        yield (*place, "network"), repr(server.network), f"nothing: paths are of kind {kind}"
    if server.port is not None and not host_network:
        allowed = "nothing: pods with a network of their own have the usual ports (host_network is false)"
        yield (*place, "port"), str(server.port), allowed
    if server.address is None:
        if attached and "origins" in place:
            allowed = "its address with prefix length, as paths are of kind networks"
            yield (*place, "address"), "nothing", allowed
    elif not (attached or host_network):
        allowed = "nothing: pods have addresses of their own, unless host_network is true"
        yield (*place, "address"), server.address, allowed
    elif attached and "/" not in server.address:
        yield (*place, "address"), server.address, _WITH_LENGTH


def _clashes(side: Side) -> Iterator[Fault]:
    """Servers of a side that may be on one node and want the same ports.

    Their addresses do not tell them apart: XRootD listens at all that a node has (XrdInet.cc, `Bind`).
    """
    servers = [(place, server, server.port) for place, server in servers_of(side) if server.port]
    for (one, first, port), (another, second, wanted) in itertools.combinations(servers, 2):
        here, there = over(side, first).node_selector, over(side, second).node_selector
        together = all(here[label] == there[label] for label in here.keys() & there.keys())
        if together and _near(wanted, [port]):
            allowed = (
                f"{BLOCK} ports that follow each other and are none of {port} to {port + BLOCK - 1}, those of "
                f"{key(one)}: they may be on one node, and XRootD listens at all addresses of that"
            )
            yield (*another, "port"), str(wanted), allowed


def placements(side: Side) -> list[Placement]:
    """The placements that servers of a side can have: origins of which nothing is said have their side's. Pure."""
    return [_placed(side, server) for server in (side.redirector, *(side.origins or (Origin(),)))]


def _near(port: int, others: Iterable[int]) -> bool:
    """Whether BLOCK ports from this one on are also of those from another one on."""
    return any(abs(port - other) < BLOCK for other in others)


def _placed(side: Side, server: Origin) -> Placement:
    """A redirector has devices as the origins have, and cores and memory of its own."""
    placed = over(side, server)
    if not isinstance(server, Redirector):
        return placed
    devices = {name: text for name, text in side.resources.limits.items() if name not in OWN}
    limits = {**devices, **server.resources.limits}
    return placed.model_copy(update={"resources": server.resources.model_copy(update={"limits": limits})})
