# SPDX-License-Identifier: Apache-2.0
"""Settings of testbeds of kind kubernetes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from tpcsweep.deploying.paths.network_path import LARGEST
from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import AnyText, DeploymentParameters, Strict, Value, Word, tag
from tpcsweep.sweeps.problems import LIST_TAG, VALUE_TAG, Fault, fault
from tpcsweep.sweeps.testbed_settings import Given, PathRule, Settings
from tpcsweep.sweeps.units import RATE, RTT, show
from tpcsweep.testbeds.kubernetes.placements import Client, Role, Side, faults, overridden

_EMULATED = f"at most {show(LARGEST, RATE)}, what emulators of paths are asked for"


class Pair(Strict):
    """A path: the pods of both sides, and the RTT between them."""

    rtt: Annotated[float | None, replace(units.ROUND_TRIP, null="whatever is asked for")] = None
    """RTT of the path; omit it with netem, which emulates the RTT of each deployment"""
    bandwidth: Annotated[float | None, replace(units.BANDWIDTH, null="the testbed's")] = None
    """bandwidth of the path; null: the testbed's"""
    mtu: Annotated[int | None, replace(units.MTU, null="the testbed's")] = None
    """MTU of the path; null: the testbed's"""
    source: Side = Field(default_factory=Side)
    """pods of the source side"""
    destination: Side = Field(default_factory=Side)
    """pods of the destination side"""
    client: Client = Field(default_factory=Client)
    """the client pod, if it differs from the testbed's"""

    @property
    def sides(self) -> tuple[tuple[str, Side], ...]:
        return ("source", self.source), ("destination", self.destination)


def _all(text: object) -> object:
    if text != "all":
        raise fault("all, or a list of pairs", repr(text))
    return text


class Paths(Strict):
    """The paths between source and destination."""

    kind: Literal["nodes", "networks", "netem"]
    """nodes: real paths between nodes; networks: additional attached networks; netem: emulated in the pods"""
    pairs: Annotated[
        Annotated[Literal["all"], BeforeValidator(_all), Tag(VALUE_TAG)]
        | Annotated[tuple[Pair, ...], Field(min_length=1), Tag(LIST_TAG)],
        Discriminator(tag),
    ]
    """the paths; deployments run in parallel on disjoint ones; all: as many pairs as the nodes that `each`
    selects allow, each node in at most one pair
    """
    each: Pair | None = None
    """with pairs: all: the RTT of every pair, and the labels that select the nodes of both sides"""

    @property
    def declared(self) -> tuple[Pair, ...]:
        """The pairs as written in the file, or `each` with `pairs: all`."""
        if self.pairs == "all":
            assert self.each is not None
            return (self.each,)
        return self.pairs

    def place(self, index: int) -> tuple[str | int, ...]:
        return ("each",) if self.pairs == "all" else ("pairs", index)

    def _faults(self) -> Iterator[Fault]:
        if self.pairs != "all":
            if self.each is not None:
                yield ("each",), "a pair", "nothing without pairs: all"
        elif self.each is None:
            allowed = "settings of each pair, such as {rtt: 0 ms, source: {…}, destination: {…}}"
            yield ("each",), "nothing", allowed
            return
        elif self.kind == "networks":
            yield ("pairs",), "all", "a list: paths of kind networks have addresses that are each pair's own"
            return
        for index, pair in enumerate(self.declared):
            place = self.place(index)
            if self.kind == "netem" and pair.rtt is not None:
                allowed = "nothing: paths of kind netem have the RTT that a sweep asks for"
                yield (*place, "rtt"), show(pair.rtt, RTT), allowed
            if self.kind != "netem" and pair.rtt is None:
                yield (*place, "rtt"), "nothing", f"the RTT of the path, which those of kind {self.kind} need"
            yield from pair.client.without_network((*place, "client"), "it stands with the testbed's client")
            for side, placement in pair.sides:
                if self.kind != "networks":
                    yield from placement.without_network((*place, side), f"paths are of kind {self.kind}")
                elif not placement.network:
                    allowed = (
                        "the name of a network attachment, which paths of kind networks need on both sides"
                    )
                    yield (*place, side, "network"), "nothing", allowed


class Metadata(Strict):
    """Labels and annotations, as Kubernetes has them."""

    labels: dict[AnyText, AnyText] = Field(default_factory=dict)
    """labels, such as kueue.x-k8s.io/queue-name, or those that policies of the cluster require"""
    annotations: dict[AnyText, AnyText] = Field(default_factory=dict)
    """annotations"""


class Kubernetes(Settings):
    """Pods of a Kubernetes cluster."""

    deploy_seconds: ClassVar[float] = 20.0

    kind: Literal["kubernetes"]
    """pods of a Kubernetes cluster"""
    context: AnyText | None = None
    """context of the kubeconfig; null: the current one"""
    namespace: AnyText | None = None
    """namespace of all objects; null: that of the context"""
    image: AnyText
    """image of all pods, preferably by digest"""
    server_image: AnyText | None = None
    """image of server pods, with XRootD, Python 3.11 and iproute2; null: the image of all pods"""
    metadata: Metadata = Field(default_factory=Metadata)
    """labels and annotations of every object: Jobs, pods, ConfigMaps and NetworkPolicies"""
    exclusive_group: Word | None = None
    """a name that several namespaces agree on: no two deployments of the same name share a node; null: no two
    deployments of the namespace do
    """
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """when nodes pull the image"""
    releases: tuple[Word, ...] = ()
    """releases of XRootD in the image, in addition to its system release"""
    paths: Paths
    """the paths between source and destination"""
    parallel_deployments: Annotated[int, units.PARALLEL] = 1
    """number of deployments in parallel: at most the number of pairs that share neither a node nor a link"""
    bandwidth: Annotated[float, units.BANDWIDTH]
    """bandwidth of the paths; with netem the largest that a sweep may use"""
    mtu: Annotated[int, units.MTU] = 1500
    """MTU of the paths"""
    path: PathRule = "measure"
    congestion_controls: tuple[Word, ...] = Field(default=("cubic",), min_length=1)
    """default congestion control of the nodes, then others that pods may set by sysctl"""
    tcp_buffer: Annotated[int | None, replace(units.TCP_BUFFER, null="pods set their own")] = None
    """largest TCP buffer of the nodes, if pods cannot set their own"""
    memory: Annotated[int, units.MEMORY] = 4 * 2**30
    """memory for files of each origin"""
    qos: Literal["guaranteed", "near", "burstable"] = "guaranteed"
    """guaranteed: requests equal limits; near: requests are five sixths of the limits, so limits are at
    most 20 % above requests; burstable: small requests; pod templates override the resources
    """
    host_network: bool = Field(default=False, strict=True)
    """whether pods use their node's network; each server then has its own ports"""
    server: Role = Field(default_factory=Role)
    """pods of all servers"""
    agent: Role = Field(default_factory=Role)
    """pods with an agent, which are the server pods; the agent's container is `agent`"""
    client: Client = Field(default_factory=Client)
    """the client pod"""
    source: Side = Field(default_factory=Side)
    """pods of source sides, for keys that a pair does not set"""
    destination: Side = Field(default_factory=Side)
    """pods of destination sides, for keys that a pair does not set"""
    start_time: Annotated[float, units.START_TIME] = 300.0
    """longest time for pods to start, including image pulls"""
    orphan_time: Annotated[float, units.ORPHAN_TIME] = 120.0
    """time after which the cluster removes objects whose owner no longer renews them; a deployment that is
    unreachable for half of this time is broken
    """
    time_limit: Annotated[float | None, replace(units.TIME_LIMIT, null="none")] = None
    """longest lifetime of pods; the remaining cells are measured in another deployment"""

    def _faults(self) -> Iterator[Fault]:
        kind = self.paths.kind
        yield from self._of_pods()
        if kind != "networks":
            yield from self.client.without_network(("client",), f"paths are of kind {kind}")
        if kind == "netem" and self.bandwidth > LARGEST:
            yield ("bandwidth",), show(self.bandwidth, RATE), _EMULATED
        if not self.host_network:
            return
        if kind != "nodes":
            allowed = f"false: paths of kind {kind} act on pods that have a network of their own"
            yield ("host_network",), "true", allowed
        if self.tcp_buffer is None:
            why = "as pods in the network of their nodes (host_network) cannot set their own"
            yield ("tcp_buffer",), "nothing", f"the largest TCP buffers of the nodes, {why}"

    def _of_pods(self) -> Iterator[Fault]:
        """Yield the faults of all sides, each once, located in the pair or the testbed that sets the value."""
        problems: dict[tuple[str | int, ...], tuple[str, str]] = {}
        for index, (given, pair) in enumerate(zip(self.paths.declared, self.pairs, strict=True)):
            place = ("paths", *self.paths.place(index))
            if self.paths.kind == "netem" and given.bandwidth is not None and given.bandwidth > LARGEST:
                problems[*place, "bandwidth"] = show(given.bandwidth, RATE), _EMULATED
            for name, side in pair.sides:
                own_fields = getattr(given, name).model_fields_set
                for key, value, allowed in faults(side, self.paths.kind, host_network=self.host_network):
                    where = (*place, name) if key[0] in own_fields else (name,)
                    problems.setdefault((*where, *key), (value, allowed))
        for name in ("source", "destination"):
            for own in sorted({"network", "addresses", "origins"} & getattr(self, name).model_fields_set):
                problems[name, own] = "a key of a pair", "nothing: write it in each of paths.pairs"
        yield from ((place, *words) for place, words in problems.items())

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs with missing keys taken from the testbed, and pod templates merged."""
        return tuple(map(self._whole, self.paths.declared))

    def _whole(self, pair: Pair) -> Pair:
        whole: dict[str, Any] = {"client": overridden(self.client, pair.client)}
        whole["bandwidth"] = self.bandwidth if pair.bandwidth is None else pair.bandwidth
        whole["mtu"] = self.mtu if pair.mtu is None else pair.mtu
        for name, given in pair.sides:
            side = overridden(getattr(self, name), given)
            template = reduce(overridden, (self.server, self.agent, getattr(self, name), given)).podTemplate
            own = {"memory": side.memory or self.memory, "podTemplate": template}
            whole[name] = side.model_copy(update=own)
        return pair.model_copy(update=whole)

    @property
    def has_alternatives(self) -> bool:
        """Whether several pairs have the same RTT, bandwidth and MTU."""
        figures = [(pair.rtt, pair.bandwidth, pair.mtu) for pair in self.pairs]
        return self.paths.pairs == "all" or len(set(figures)) < len(figures)

    @property
    def places(self) -> int:
        return self.parallel_deployments

    def serves(self, pair: Pair, wanted: DeploymentParameters) -> bool:
        """Return whether a pair has or can emulate the RTT, bandwidth and MTU of a deployment."""
        return self.fits(pair, {name: getattr(wanted, name) for name in ("rtt", "bandwidth", "mtu")})

    def fits(self, pair: Pair, wanted: Mapping[str, float]) -> bool:
        """Return whether a pair has or can emulate some of RTT, bandwidth and MTU."""
        if self.paths.kind == "netem":
            bandwidth, mtu = wanted.get("bandwidth", 0), wanted.get("mtu", pair.mtu)
            return bandwidth <= (pair.bandwidth or 0) and mtu == pair.mtu
        return all(getattr(pair, name) == value for name, value in wanted.items())

    def defaults(self, given: Given = MappingProxyType({})) -> dict[str, Value]:
        """Return defaults for a sweep, from the first pair with one of its RTTs, or the first pair."""
        rtts = given.get("rtt")
        wanted_rtts = rtts if isinstance(rtts, tuple) else (rtts,)
        first = next((pair for pair in self.pairs if pair.rtt in wanted_rtts), self.pairs[0])
        values: dict[str, Value] = {"mtu": first.mtu, "congestion_control": self.congestion_controls[0]}
        if self.paths.kind != "netem":
            values |= {"rtt": first.rtt, "bandwidth": first.bandwidth}
        if self.tcp_buffer is not None:
            values["tcp_buffer"] = self.tcp_buffer
        return values
