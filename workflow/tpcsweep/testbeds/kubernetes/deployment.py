"""Bring a deployment up on a cluster, hand it over, take it down: from the first object to the last."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kubernetes.client import V1Pod, VersionApi

from tpcsweep.client.handle import ClientError
from tpcsweep.configuration.testbeds import Kubernetes, Pair
from tpcsweep.linux import signals
from tpcsweep.paths import Path, PathError
from tpcsweep.paths.plan import describe_limit
from tpcsweep.testbeds import Request
from tpcsweep.testbeds.kubernetes import state
from tpcsweep.testbeds.kubernetes.api import Cluster, call
from tpcsweep.testbeds.kubernetes.leases import Leases
from tpcsweep.testbeds.kubernetes.objects import Naming
from tpcsweep.testbeds.kubernetes.pod.emulation import share
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT
from tpcsweep.testbeds.kubernetes.pods import Pods, ip, node
from tpcsweep.testbeds.kubernetes.session import Session, SessionError
from tpcsweep.testbeds.kubernetes.site import Inbox, Site, WatchedClient
from tpcsweep.testbeds.kubernetes.verify import Ends, Measured, verify

DEADLINE_MARGIN = 900.0
"""Seconds that a deployment's Job may last beside its cells and its start."""
OTHERS = (("src", "dst"), ("dst", "src"))
"""Each side, and the other one."""


def identifier() -> str:
    """A new deployment's, which no other one has: hundreds may be there at a time."""
    return secrets.token_hex(5)


@dataclass(frozen=True)
class Place:
    """Where a deployment goes: the pair whose nodes it holds."""

    cluster: Cluster
    pair: Pair
    held: Leases
    identifier: str
    """The deployment's own."""


@contextlib.contextmanager
def deployed(place: Place, settings: Kubernetes, request: Request) -> Iterator[Site]:
    """A deployment that is up, verified and ready, for the length of a `with`.

    Raises FaultError, PathError, SessionError or ClusterError when it does not come up, and TeardownError when it
    does not go; nothing stays behind in either case.
    """
    cluster, before, began = place.cluster, place.cluster.requests, time.monotonic()
    with running(place, settings, request) as pods, contextlib.ExitStack() as undo:
        inbox = Inbox(lambda: pods.watch.fault() or place.held.lost())
        session = Session(cluster, _pod_name(pods[CLIENT]), settings.orphan_time / 2, inbox.hear)
        undo.callback(session.close)
        undo.callback(signals.ignore)
        undo.enter_context(_blaming(inbox))
        site = _up(settings, request, pods, session, inbox, began)
        site.provenance["deployment"] = place.identifier
        site.provenance["kubernetes"] |= {
            "version": call(lambda: VersionApi(cluster.http).get_code()).git_version,
            "namespace": cluster.namespace,
            "requests": cluster.requests - before,
        }
        yield site


@contextlib.contextmanager
def running(place: Place, settings: Kubernetes, request: Request) -> Iterator[Pods]:
    """The objects of a deployment, its pods running, for the length of a `with`.

    Raises ClusterError when they do not come up, and TeardownError when they do not go.
    """
    naming = Naming(place.identifier, request.sweep, request.deployment)
    deadline = settings.start_time + request.seconds + DEADLINE_MARGIN
    with contextlib.ExitStack() as undo:  # the last registered is the first to be done
        undo.callback(_torn_down, place.cluster, place.identifier, request.stage)
        undo.callback(signals.ignore)
        pods = Pods(place.cluster, settings, place.pair, request.parameters, naming, deadline)
        undo.callback(pods.close, request.logs)
        undo.callback(signals.ignore)
        pods.run()
        yield pods


@contextlib.contextmanager
def _blaming(inbox: Inbox) -> Iterator[None]:
    """Say in Kubernetes' words why nothing is heard of the pods any more, where it knows."""
    try:
        yield
    except (SessionError, ClientError) as error:
        inbox.blame(error)
        raise


def _torn_down(cluster: Cluster, name: str, stage: Callable[[str], None]) -> None:
    for line in state.teardown(cluster, name):
        stage(line)


def _up(
    settings: Kubernetes, request: Request, pods: Pods, session: Session, inbox: Inbox, began: float
) -> Site:
    """From pods that run to servers that deliver: agents, path, servers, client."""
    wanted, sides = request.parameters, pods.sides
    ran = time.monotonic()
    with pods.poked():
        found = _connected(session, pods, list(request.tools))
    for side, other in OTHERS:
        found |= session.tell(sides[side].names, "describe", peers=sides[other].addresses)
    _require_congestion_control(found, wanted.congestion_control)
    connected = time.monotonic()
    emulated: dict[str, Any] = {"emulator": "none", "qdiscs": {}}
    if settings.paths.kind == "netem":
        path = Path(wanted.rtt, wanted.bandwidth, wanted.loss, wanted.mtu, wanted.queue_limit)
        emulated = {"emulator": "netem", "qdiscs": {}, **describe_limit(path)}
        one = asdict(share(path, wanted.origins))
        for side, other in OTHERS:
            told = session.tell(sides[side].names, "emulate", peers=sides[other].addresses, **one)
            emulated["qdiscs"] |= told
    both = zip(sides["src"].origins, sides["dst"].origins, strict=True)
    measured = verify(session, wanted, [Ends(*pair) for pair in both], strict=settings.path == "strict")
    verified = time.monotonic()
    for role in ("manager", "server"):  # redirectors first, or origins look for them again ten seconds later
        session.tell([server.name for server in pods.servers if server.role == role], "start")
    client = WatchedClient(session, inbox)
    machines = {name: one["boot"] for name, one in found.items()}
    known = measured.rtt.median, measured.bandwidth, measured.slow
    site = Site(session, inbox, client, sides, machines, {}, *known)
    site.ready()
    inbox.check()
    seconds = {
        "pods": ran - began,
        "agents": connected - ran,
        "path": verified - connected,
        "servers": time.monotonic() - verified,
    }
    site.provenance = _provenance(pods, found, emulated, measured, seconds)
    return site


def _connected(session: Session, pods: Pods, tools: list[str]) -> dict[str, Any]:
    """What the hub says of the client's machine, when it has found all agents."""
    agents = {server.name: ip(pods[server.name]) for server in pods.servers}
    destinations = pods.sides["dst"].names
    return {CLIENT: session.ask("connect", servers=agents, destinations=destinations, tools=tools)}


def _require_congestion_control(found: Mapping[str, Any], wanted: str) -> None:
    for name, one in found.items():
        in_force = one.get("sysctls", {}).get("net.ipv4.tcp_congestion_control", wanted)
        if in_force != wanted:
            raise PathError(
                f"{name}: congestion_control is {in_force}, asked for {wanted}: "
                "name what the nodes use first in congestion_controls of the testbed's file"
            )


def _provenance(
    pods: Pods,
    found: Mapping[str, Any],
    emulated: Mapping[str, Any],
    measured: Measured,
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """The fields that every testbed has, of the first origin of a side where they are one machine's, and our own."""
    first = {side: found[pods.sides[side].names[0]] for side in pods.sides}
    nodes = {name: node(pod) for name, pod in pods.items()}
    return {
        **first["src"]["machine"],
        "host": nodes[pods.sides["src"].names[0]],
        "software": found[CLIENT]["software"],
        "path": {
            "measured": measured.to_dict(),
            "mtu_bytes": measured.mtu,
            **emulated,
        },
        "sysctls": {
            f"{side}.{key}": value for side, one in first.items() for key, value in one["sysctls"].items()
        },
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "kubernetes": {
            "pods": {name: _seen(pod) for name, pod in sorted(pods.items())},
            "machines": {
                name: {**one["machine"], "host": nodes[name]} for name, one in sorted(found.items())
            },
        },
    }


def _pod_name(pod: V1Pod) -> str:
    return (pod.metadata and pod.metadata.name) or ""


def _seen(pod: V1Pod) -> dict[str, Any]:
    """What is worth knowing of a pod later."""
    assert pod.status
    statuses = pod.status.container_statuses or []
    return {
        "node": node(pod),
        "address": pod.status.pod_ip,
        "image": next((status.image_id for status in statuses), None),
        "qos": pod.status.qos_class,
    }
