"""The settings of each kind of testbed: what config/testbeds/*.yaml may say."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tpcsweep.parameters import Strict, Word
from tpcsweep.units import CORES, COUNT, DURATION, RATE, RTT, SIZE, Quantity


class Netns(Strict):
    """Network namespaces on this machine."""

    deploy_seconds: ClassVar[float] = 6.0
    """Time to bring a deployment up, verify its path and tear it down, for the expected duration."""
    cell_seconds: ClassVar[float] = 1.0
    """Time that a cell takes beside its measuring."""

    kind: Literal["netns"] = Field(description="network namespaces on this machine")
    cpus: Annotated[int | None, Quantity(COUNT, at_least=1, null="all")] = Field(
        default=None,
        description="CPUs that both sides together may be given; null: all that this process may use",
    )
    max_bandwidth: Annotated[float, Quantity(RATE, above=0)] = Field(
        default=5.0, description="bandwidth that a path can carry on this machine"
    )
    max_rtt: Annotated[float, Quantity(RTT, above=0)] = Field(
        default=500.0, description="largest RTT that a path can make"
    )
    memory: Annotated[int | None, Quantity(SIZE, at_least=1, null="half of what is available")] = Field(
        default=None, description="memory for files; null: half of what is available"
    )


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
    network: str | None = Field(
        default=None, strict=True, description="paths of kind networks: the network attachment (Multus)"
    )
    addresses: tuple[str, ...] = Field(
        default=(),
        description="paths of kind networks: addresses with prefix length, of the redirector and of each origin",
    )


class Pair(Strict):
    """A path: where the source is, where the destination is, and the RTT between them."""

    rtt: Annotated[float | None, Quantity(RTT, at_least=0, null="whatever is asked for")] = Field(
        default=None, description="RTT of the path; left out with netem, which makes any"
    )
    source: Placement = Field(default_factory=Placement, description="pods of the source side")
    destination: Placement = Field(default_factory=Placement, description="pods of the destination side")


class Paths(Strict):
    """Where the paths between source and destination come from."""

    kind: Literal["nodes", "networks", "netem"] = Field(
        description="nodes: real paths between nodes; networks: attached networks; netem: emulated in the pods"
    )
    pairs: tuple[Pair, ...] = Field(
        min_length=1, description="the paths; disjoint ones are used side by side"
    )


class Kubernetes(Strict):
    """Pods of a Kubernetes cluster."""

    deploy_seconds: ClassVar[float] = 20.0
    cell_seconds: ClassVar[float] = 1.0

    kind: Literal["kubernetes"] = Field(description="pods of a Kubernetes cluster")
    context: str | None = Field(
        default=None, strict=True, description="context of the kubeconfig; null: the current one"
    )
    namespace: str | None = Field(
        default=None, strict=True, description="namespace of all objects; null: that of the context"
    )
    image: str = Field(strict=True, min_length=1, description="image of all pods, best by digest")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="when nodes pull the image"
    )
    pull_secrets: tuple[str, ...] = Field(default=(), description="names of secrets to pull the image with")
    paths: Paths = Field(description="the paths between source and destination")
    bandwidth: Annotated[float, Quantity(RATE, above=0)] = Field(
        description="bandwidth of the paths; with netem the largest that may be asked for"
    )
    mtu: Annotated[int, Quantity(SIZE, at_least=1280, at_most=65521)] = Field(
        default=1500, description="MTU of the paths"
    )
    congestion_controls: tuple[Word, ...] = Field(
        default=("cubic",),
        min_length=1,
        description="what nodes use by themselves, then others that pods may set by sysctl",
    )
    tcp_buffer: Annotated[int | None, Quantity(SIZE, at_least=4096, null="pods set their own")] = Field(
        default=None, description="largest TCP buffers of the nodes, where pods cannot set their own"
    )
    memory: Annotated[int, Quantity(SIZE, at_least=1)] = Field(
        default=4 * 2**30, description="memory for files of each origin"
    )
    qos: Literal["guaranteed", "burstable"] = Field(
        default="guaranteed",
        description="guaranteed: origins request the cores they are limited to; burstable: they request little",
    )
    host_network: bool = Field(default=False, strict=True, description="pods use the network of their nodes")
    client: Placement = Field(default_factory=Placement, description="the client pod")
    client_cores: Annotated[float, Quantity(CORES, above=0)] = Field(
        default=2.0, description="CPU cores of the client pod"
    )
    client_memory: Annotated[int, Quantity(SIZE, at_least=2**28)] = Field(
        default=2 * 2**30, description="memory of the client pod"
    )
    start_time: Annotated[float, Quantity(DURATION, above=0)] = Field(
        default=300.0, description="longest time from creating pods to their running, pulling images included"
    )


Testbed = Netns | Kubernetes
"""Any testbed's settings."""

KINDS: dict[str, type[Netns] | type[Kubernetes]] = {"netns": Netns, "kubernetes": Kubernetes}
"""The kinds of testbeds, by the name that `kind` gives them."""
