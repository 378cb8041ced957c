# SPDX-License-Identifier: Apache-2.0
"""The settings of testbeds of kind kubernetes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_interface
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from tpcsweep.configuration import bounds
from tpcsweep.configuration.parameters import AnyText, Strict, Value, Word
from tpcsweep.configuration.problems import Fault, fault, refuse
from tpcsweep.configuration.settings import PathRule, Settings
from tpcsweep.configuration.units import RATE, RTT, show
from tpcsweep.paths.plan import LARGEST

_DOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?"
_NAME = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_DOMAIN}/)?{_NAME}(?:/{_NAME})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)


def _image(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise fault("an image such as registry.example.org/tpcsweep:0.1.0, or with @sha256:… behind it")
    return text


def _address(text: str) -> str:
    with suppress(ValueError):
        if "/" in text:
            ip_interface(text)
            return text
    raise fault("an address with prefix length, such as 10.1.0.1/24")


Address = Annotated[AnyText, AfterValidator(_address)]
"""An IP address with its prefix length."""

Label = Annotated[AnyText, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
"""A name as Kubernetes has it for namespaces (RFC 1123)."""
Subdomain = Annotated[AnyText, Field(pattern=r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$")]
"""A name as Kubernetes has it for most objects."""


def _list(values: Iterable[str]) -> str:
    return ", ".join(values) or "nothing"


class Placement(Strict):
    """Where pods run, and what they need there: passed through to their specifications."""

    node_selector: dict[str, str] = Field(default_factory=dict, description="labels that a node must have")
    affinity: dict[str, Any] = Field(
        default_factory=dict, description="affinity, as in a pod's specification"
    )
    tolerations: tuple[dict[str, Any], ...] = Field(
        default=(), description="tolerations, as in a pod's specification"
    )
    annotations: dict[str, str] = Field(default_factory=dict, description="annotations of the pods")
    resources: dict[str, str] = Field(
        default_factory=dict, description="extended resources of each pod, such as those of SR-IOV devices"
    )
    network: AnyText | None = Field(
        default=None, description="paths of kind networks: the network attachment (Multus)"
    )
    addresses: tuple[Address, ...] = Field(
        default=(),
        description="paths of kind networks: addresses with prefix length, of the redirector and of each origin",
    )

    def without_network(self, place: tuple[str | int, ...], why: str) -> Iterator[Fault]:
        """Give faults where a network is given though there is none, which `why` says."""
        if self.network is not None:
            yield (*place, "network"), repr(self.network), f"nothing: {why}"
        if self.addresses:
            yield (*place, "addresses"), _list(self.addresses), f"nothing: {why}"


class Pair(Strict):
    """A path: where the source is, where the destination is, and the RTT between them."""

    rtt: Annotated[float | None, replace(bounds.ROUND_TRIP, null="whatever is asked for")] = Field(
        default=None, description="RTT of the path; left out with netem, which makes any"
    )
    source: Placement = Field(default_factory=Placement, description="pods of the source side")
    destination: Placement = Field(default_factory=Placement, description="pods of the destination side")

    @property
    def sides(self) -> tuple[tuple[str, Placement], ...]:
        return ("source", self.source), ("destination", self.destination)


class Paths(Strict):
    """Where the paths between source and destination come from."""

    kind: Literal["nodes", "networks", "netem"] = Field(
        description="nodes: real paths between nodes; networks: attached networks; netem: emulated in the pods"
    )
    pairs: tuple[Pair, ...] = Field(
        min_length=1, description="the paths; disjoint ones are used side by side"
    )

    @model_validator(mode="after")
    def _fit_their_kind(self) -> Paths:
        refuse(Paths, self._faults())
        return self

    def _faults(self) -> Iterator[Fault]:
        first: dict[str, int] = {}
        for index, pair in enumerate(self.pairs):
            place = ("pairs", index)
            if self.kind == "netem" and pair.rtt is not None:
                allowed = "nothing: paths of kind netem have the RTT that a sweep asks for"
                yield (*place, "rtt"), show(pair.rtt, RTT), allowed
            if self.kind != "netem" and pair.rtt is None:
                yield (*place, "rtt"), "nothing", f"the RTT of the path, which those of kind {self.kind} need"
            if self.kind == "networks":
                yield from _network(place, pair)
            else:
                for side, placement in pair.sides:
                    yield from placement.without_network((*place, side), f"paths are of kind {self.kind}")
            same = first.setdefault(json.dumps(pair.model_dump(mode="json"), sort_keys=True), index)
            if same != index:
                yield place, f"the same as pairs[{same}]", "each pair once"


def _network(place: tuple[str | int, ...], pair: Pair) -> Iterator[Fault]:
    """What a pair of kind networks lacks on either side, and addresses that it has twice."""
    held = []
    for side, placement in pair.sides:
        if not placement.network:
            allowed = "the name of a network attachment, which paths of kind networks need on both sides"
            yield (*place, side, "network"), "nothing", allowed
        if not placement.addresses:
            allowed = "one address for one origin, or one for the redirector and one for each origin"
            yield (*place, side, "addresses"), "nothing", allowed
        for index, address in enumerate(placement.addresses):
            host = ip_interface(address).ip
            if host in held:
                yield (*place, side, "addresses", index), f"{host} again", "each address of a pair once"
            held.append(host)


class Kubernetes(Settings):
    """Pods of a Kubernetes cluster."""

    deploy_seconds: ClassVar[float] = 20.0

    kind: Literal["kubernetes"] = Field(description="pods of a Kubernetes cluster")
    context: AnyText | None = Field(
        default=None, description="context of the kubeconfig; null: the current one"
    )
    namespace: Label | None = Field(
        default=None, description="namespace of all objects; null: that of the context"
    )
    image: Annotated[str, AfterValidator(_image)] = Field(
        strict=True, description="image of all pods, best by digest"
    )
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="when nodes pull the image"
    )
    pull_secrets: tuple[Subdomain, ...] = Field(
        default=(), description="names of secrets to pull the image with"
    )
    releases: tuple[Word, ...] = Field(
        default=(), description="releases of XRootD that the image has beside its system's"
    )
    paths: Paths = Field(description="the paths between source and destination")
    bandwidth: Annotated[float, bounds.BANDWIDTH] = Field(
        description="bandwidth of the paths; with netem the largest that may be asked for"
    )
    mtu: Annotated[int, bounds.MTU] = Field(default=1500, description="MTU of the paths")
    path: PathRule = "measure"
    congestion_controls: tuple[Word, ...] = Field(
        default=("cubic",),
        min_length=1,
        description="what nodes use by themselves, then others that pods may set by sysctl",
    )
    tcp_buffer: Annotated[int | None, replace(bounds.TCP_BUFFER, null="pods set their own")] = Field(
        default=None, description="largest TCP buffers of the nodes, where pods cannot set their own"
    )
    memory: Annotated[int, bounds.MEMORY] = Field(
        default=4 * 2**30, description="memory for files of each origin"
    )
    qos: Literal["guaranteed", "burstable"] = Field(
        default="guaranteed",
        description="guaranteed: origins request the cores they are limited to; burstable: they request little",
    )
    host_network: bool = Field(default=False, strict=True, description="pods use the network of their nodes")
    client: Placement = Field(default_factory=Placement, description="the client pod")
    client_cores: Annotated[float, bounds.CLIENT_CORES] = Field(
        default=2.0, description="CPU cores of the client pod"
    )
    client_memory: Annotated[int, bounds.CLIENT_MEMORY] = Field(
        default=2 * 2**30, description="memory of the client pod"
    )
    metrics: bool = Field(
        default=False,
        strict=True,
        description="everybody may ask the client pod for metrics of the cell that runs (Prometheus)",
    )
    start_time: Annotated[float, bounds.START_TIME] = Field(
        default=300.0, description="longest time from creating pods to their running, pulling images included"
    )
    orphan_time: Annotated[float, bounds.ORPHAN_TIME] = Field(
        default=120.0,
        description="time after which the cluster removes what nobody comes for any more; out of reach for half of it, "
        "a deployment counts as broken",
    )

    @model_validator(mode="after")
    def _agree(self) -> Kubernetes:
        refuse(Kubernetes, self._faults())
        return self

    def _faults(self) -> Iterator[Fault]:
        kind, controls = self.paths.kind, self.congestion_controls
        if len(set(controls)) < len(controls):
            yield ("congestion_controls",), _list(controls), "each name once"
        if kind != "networks":
            yield from self.client.without_network(("client",), f"paths are of kind {kind}")
        if kind == "netem" and self.bandwidth > LARGEST:
            allowed = f"at most {show(LARGEST, RATE)}, what emulators of paths are asked for"
            yield ("bandwidth",), show(self.bandwidth, RATE), allowed
        if not self.host_network:
            return
        if kind != "nodes":
            allowed = f"false: paths of kind {kind} act on pods that have a network of their own"
            yield ("host_network",), "true", allowed
        cannot = "as pods in the network of their nodes (host_network) cannot set their own"
        if self.tcp_buffer is None:
            yield ("tcp_buffer",), "nothing", f"the largest TCP buffers of the nodes, {cannot}"
        if len(controls) > 1:
            yield ("congestion_controls",), _list(controls), f"the one that the nodes use, {cannot}"

    def defaults(self) -> dict[str, Value]:
        """Give the parameters that a sweep leaves out: those of the first path, where it is a real one."""
        values: dict[str, Value] = {"mtu": self.mtu, "congestion_control": self.congestion_controls[0]}
        if self.paths.kind != "netem":
            values |= {"rtt": self.paths.pairs[0].rtt, "bandwidth": self.bandwidth}
        if self.tcp_buffer is not None:
            values["tcp_buffer"] = self.tcp_buffer
        return values
