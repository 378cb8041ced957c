# SPDX-License-Identifier: Apache-2.0
"""Nodes, resources and addresses of the pods of a kubernetes testbed."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from ipaddress import ip_interface
from typing import Annotated, ClassVar, NamedTuple, TypeVar

from pydantic import AfterValidator, Field

from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import AnyText, Strict
from tpcsweep.sweeps.problems import Fault, fault, key
from tpcsweep.sweeps.units import SIZE, show
from tpcsweep.testbeds.kubernetes import pod_templates
from tpcsweep.testbeds.kubernetes.pod_templates import Template, Tree, merged, node_selector

CPU, MEMORY = "cpu", "memory"
OWN = (CPU, MEMORY, "ephemeral-storage")
"""Resources whose request may be below the limit; Kubernetes requests the limit for all others."""
SERVERS, AGENT = "servers", "agent"  # containers of a server's pod
CLIENT, HUB = "client", "hub"  # containers of the client's pod
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(r"(?P<number>[0-9]{1,18}(?:\.[0-9]{1,9})?)(?P<suffix>[KMGTPE]i|[numkMGTPE]?)")
WITHIN = Decimal("1.2")  # the largest ratio of limits to requests in clusters that require them to be close


def resource_amount(text: str) -> Decimal:
    """Return the amount of a Kubernetes quantity in cores, bytes or units; 0 for any other text.

    Exponents (1e3) are not supported: YAML reads them as numbers, and they are rare.
    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    parts = _QUANTITY.fullmatch(text)
    if not parts:
        return Decimal(0)
    number, suffix = Decimal(parts["number"]), parts["suffix"]
    if suffix.endswith("i"):
        return number * Decimal(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    return number.scaleb(_SUFFIXES[suffix])


def smallest_requests(limits: Mapping[str, str]) -> dict[str, str]:
    """Return the smallest requests for limits that may exceed them by 20 %: CPU and memory, rounded up."""
    requests = dict(limits)
    for name, (unit, suffix) in {CPU: (Decimal("0.001"), "m"), MEMORY: (Decimal(1), "")}.items():
        if name in limits:
            requests[name] = f"{math.ceil(resource_amount(limits[name]) / unit / WITHIN)}{suffix}"
    return requests


def small_requests(limits: Mapping[str, str]) -> dict[str, str]:
    """Return small CPU and memory requests, never above the limit. Extended resources request their limit."""
    small = {CPU: "10m", MEMORY: "32Mi"}
    requests = {name: min(text, limits.get(name, text), key=resource_amount) for name, text in small.items()}
    return requests | {name: text for name, text in limits.items() if name not in OWN}


REQUESTS: dict[str, Callable[..., dict[str, str]]] = {
    "guaranteed": dict,
    "near": smallest_requests,
    "burstable": small_requests,
}
"""Functions that return a container's requests for its limits, by the testbed's `qos`."""


def resources(
    own: Mapping[str, str], limits: Mapping[str, str], requests: Mapping[str, str], qos: str
) -> dict[str, dict[str, str]]:
    """Return requests and limits of a container from its `own` limits and a template's values. Pure.

    Own limits are raised to the template's requests. `qos` selects a function of REQUESTS for resources that the
    template does not request.
    """
    limited = {name: max(text, requests.get(name, text), key=resource_amount) for name, text in own.items()}
    limited |= limits
    return {"limits": limited, "requests": {**REQUESTS[qos](limited), **requests}}


BLOCK = 5  # consecutive ports of a server on its node's network, beginning with XRootD's
FIRST_PORT = 8080  # the first port of servers whose port is not configured


_WITH_LENGTH = "an address with prefix length, such as 10.1.0.1/24"


def _ip(text: str, needed: str, allowed: str) -> str:
    with suppress(ValueError):
        if needed in text:
            ip_interface(text)
            return text
    raise fault(allowed)


Address = Annotated[AnyText, AfterValidator(lambda text: _ip(text, "/", _WITH_LENGTH))]
"""An IP address with its prefix length."""
_HOST = "an IP address, such as 10.1.0.1 or fd00::1, or with its prefix length behind it"
Host = Annotated[AnyText, AfterValidator(lambda text: _ip(text, "", _HOST))]
"""An IP address, with or without prefix length."""


class Role(Strict):
    """Pods of one role, described by a Kubernetes pod template."""

    containers: ClassVar[tuple[str, str]] = (SERVERS, AGENT)
    """The main container of the pods, and the container that monitors it."""

    podTemplate: Template = Field(default_factory=dict)  # noqa: N815, Kubernetes' own word
    """a Kubernetes PodTemplateSpec, merged over tpcsweep's own"""


class Placement(Role):
    """Pods of a role or side, and their network attachment."""

    network: AnyText | None = None
    """paths of kind networks: the network attachment (Multus)"""
    addresses: tuple[Address, ...] = ()
    """paths of kind networks: addresses with prefix length, of the redirector and then of each origin;
    empty: assigned by the network
    """

    def without_network(self, place: tuple[str | int, ...], why: str) -> Iterator[Fault]:
        """Yield faults for network settings that have no effect, for the reason `why`."""
        if self.network is not None:
            yield (*place, "network"), repr(self.network), f"nothing: {why}"
        if self.addresses:
            yield (*place, "addresses"), ", ".join(self.addresses), f"nothing: {why}"


class Client(Placement):
    """The client pod."""

    containers: ClassVar[tuple[str, str]] = (CLIENT, HUB)


class Origin(Role):
    """One server of a side: settings that differ from its side's."""

    network: AnyText | None = None
    """paths of kind networks: network attachment of this server, instead of its side's"""
    address: Host | None = None
    """address that clients use: with host_network an address of the node, with paths of kind networks one
    with prefix length; null: the pod's address
    """
    port: Annotated[int | None, replace(units.FIRST_PORT, null="one that is free")] = None
    """with host_network: XRootD's port, the first of five consecutive ports; null: a free one"""


class Side(Placement):
    """The servers of one side of a pair."""

    memory: Annotated[int | None, replace(units.MEMORY, null="the testbed's")] = None
    """memory for files of each origin; null: the testbed's"""
    origins: tuple[Origin, ...] = ()
    """settings of single origins, such as their nodes, addresses or ports"""
    redirector: Origin = Field(default_factory=Origin)
    """settings of the redirector that differ from the origins'"""


class ServerPlacement(NamedTuple):
    """Pod template, network, ports and memory of one server."""

    template: Tree  # the pod template
    network: str | None
    address: str | None  # the configured address, possibly with prefix length; None: the pod's
    port: int | None
    """The first of BLOCK consecutive ports; None: the default ports, in the pod's own network."""
    memory: int  # memory for an origin's files, bytes


RoleType = TypeVar("RoleType", bound=Role)


def overridden(base: RoleType, by: Role) -> RoleType:
    """Return a role with the settings and templates of `by` merged over those of `base`. Pure."""
    known = type(base).model_fields
    given = {name: getattr(by, name) for name in by.model_fields_set if name in known}
    given["podTemplate"] = merged(base.podTemplate, by.podTemplate)
    return base.model_copy(update=given)


def server_placements(side: Side, origins: int, *, host_network: bool) -> list[ServerPlacement]:
    """Return the placement of a side's servers; with several origins the redirector comes first. Pure."""
    servers: list[Origin] = [side.redirector] if origins > 1 else []
    servers += [side.origins[n] if n < len(side.origins) else Origin() for n in range(origins)]
    configured_ports = [server.port for _, server in configured_servers(side) if server.port]
    free = (port for port in itertools.count(FIRST_PORT, BLOCK) if not _ports_overlap(port, configured_ports))
    assert side.memory is not None, "a side as Kubernetes.pairs has it"
    return [
        ServerPlacement(
            _template(side, server),
            server.network or side.network,
            server.address or (side.addresses[number] if number < len(side.addresses) else None),
            (server.port or next(free)) if host_network else None,
            side.memory,
        )
        for number, server in enumerate(servers)
    ]


def configured_servers(side: Side) -> list[tuple[tuple[str | int, ...], Origin]]:
    origins = [(("origins", number), origin) for number, origin in enumerate(side.origins)]
    return [(("redirector",), side.redirector), *origins]


def most_origins(side: Side, kind: str) -> tuple[int, str] | None:
    """Return the largest number of origins of a side and its reason; None without a limit. Pure."""
    if side.origins:
        return len(side.origins), f"{len(side.origins)} origins"
    if kind != "networks" or not side.addresses:
        return None
    count, needed = len(side.addresses), "one for the redirector and one for each of them"
    return max(1, count - 1), f"{count} of the addresses that more than one origin need, {needed}"


def faults(side: Side, kind: str, *, host_network: bool) -> Iterator[Fault]:
    """Yield settings of a side that contradict each other, the path's kind or the sweep's files."""
    if side.origins and side.addresses:
        yield ("addresses",), ", ".join(side.addresses), "nothing beside origins, which have an address each"
    for place, server in configured_servers(side):
        yield from _unfit(place, server, kind, host_network=host_network)
    limit = pod_templates.resources(side.podTemplate, SERVERS, "limits").get(MEMORY)
    if isinstance(limit, str) and side.memory is not None and 0 < resource_amount(limit) <= side.memory:
        allowed = f"for container {SERVERS} more memory than {show(side.memory, SIZE)}, which its files alone may take"
        yield ("podTemplate",), f"limits: {{memory: {limit}}}", allowed
    if host_network:
        yield from _clashes(side)


def _unfit(place: tuple[str | int, ...], server: Origin, kind: str, *, host_network: bool) -> Iterator[Fault]:
    attached = kind == "networks"
    if server.network is not None and not attached:
        yield (*place, "network"), repr(server.network), f"nothing: paths are of kind {kind}"
    if server.port is not None and not host_network:
        allowed = "nothing: pods with a network of their own have the usual ports (host_network is false)"
        yield (*place, "port"), str(server.port), allowed
    if server.address is None:
        return
    if not (attached or host_network):
        allowed = "nothing: pods have addresses of their own, unless host_network is true"
        yield (*place, "address"), server.address, allowed
    elif attached and "/" not in server.address:
        yield (*place, "address"), server.address, _WITH_LENGTH


def _clashes(side: Side) -> Iterator[Fault]:
    """Yield servers of a side that may share a node and use the same ports.

    Different addresses do not help: XRootD listens on all addresses of a node (XrdInet.cc, `Bind`).
    """
    servers = [(place, server, server.port) for place, server in configured_servers(side) if server.port]
    for (one, first, port), (another, second, wanted) in itertools.combinations(servers, 2):
        here, there = (node_selector(_template(side, server)) for server in (first, second))
        together = all(here[label] == there[label] for label in here.keys() & there.keys())
        if together and _ports_overlap(wanted, [port]):
            allowed = (
                f"{BLOCK} ports that follow each other and are none of {port} to {port + BLOCK - 1}, those of "
                f"{key(one)}: they may be on one node, and XRootD listens at all addresses of that"
            )
            yield (*another, "port"), str(wanted), allowed


def server_templates(side: Side) -> list[Tree]:
    """Return all templates of a side's servers; origins without settings use their side's template. Pure."""
    return [_template(side, server) for server in (side.redirector, *(side.origins or (Origin(),)))]


def _ports_overlap(port: int, others: Iterable[int]) -> bool:
    """Return whether BLOCK ports from `port` overlap BLOCK ports from one of the others."""
    return any(abs(port - other) < BLOCK for other in others)


def _template(side: Side, server: Origin) -> Tree:
    """Return a server's template. Redirectors have the devices of origins, but their own CPU and memory."""
    of_side = side.podTemplate
    if server is side.redirector:
        none: Tree = dict.fromkeys(("requests", "limits"), dict.fromkeys(OWN))
        of_side = merged(of_side, {"spec": {"containers": [{"name": SERVERS, "resources": none}]}})
    return merged(of_side, server.podTemplate)
