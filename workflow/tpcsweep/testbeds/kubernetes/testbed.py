# SPDX-License-Identifier: Apache-2.0
"""The kubernetes testbed: deployments on the nodes of a cluster, side by side if the testbed has several pairs."""

import contextlib
import itertools
import json
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kubernetes.client import V1Job, V1Pod, VersionApi

from tpcsweep.common import signals
from tpcsweep.common.errors import BrokenError, FaultError
from tpcsweep.common.numbers import short
from tpcsweep.data.cell_result import CellResult
from tpcsweep.data.flags import BROKEN
from tpcsweep.deploying.paths.network_path import NetworkPath, PathError, describe_limit
from tpcsweep.deploying.paths.verification import FoundPath
from tpcsweep.deploying.xrootd.server_config import place_of
from tpcsweep.measuring import cell
from tpcsweep.measuring.client.client_process import Client, ClientError
from tpcsweep.sweeps.parameters import Parameters, parameters_by_sysctl
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.interface import Request, TeardownError
from tpcsweep.testbeds.kubernetes import api, check_list, deployments, nodes, objects, short_pods
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call
from tpcsweep.testbeds.kubernetes.checks import CELL_MARGIN
from tpcsweep.testbeds.kubernetes.metadata import Naming, node_name, object_name
from tpcsweep.testbeds.kubernetes.placements import CLIENT, CPU, resource_amount
from tpcsweep.testbeds.kubernetes.pod.network import share
from tpcsweep.testbeds.kubernetes.pods import Pods, pod_address
from tpcsweep.testbeds.kubernetes.session import Session, SessionError
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair
from tpcsweep.testbeds.kubernetes.site import Inbox, KubernetesSite
from tpcsweep.testbeds.kubernetes.tcp_looks import verify_pods
from tpcsweep.testbeds.kubernetes.watch import OccupiedError, PodError

EXPECTED = (ClusterError, BrokenError, PathError, TeardownError)
DEADLINE_MARGIN = 900.0  # seconds that a deployment's Job may last in addition to its start and its cells
AgentAnswer = Mapping[str, Any]  # an answer of agents, by keys
OTHERS = (("src", "dst"), ("dst", "src"))
RECORDED_SYSCTLS = [*parameters_by_sysctl(objects.KIND), "net.ipv4.tcp_no_metrics_save"]
TARGETS = {"src": "source", "dst": "destination"}  # targets of the sampler, by side
POLL = 1.0  # about how many seconds pass until a deployment looks again for a free pair
LET_GO_SECONDS = 5.0  # about how long a deployment leaves nodes to others that it could not get all of


require, rehearse = check_list.require, check_list.rehearse
check, manifests = check_list.check, check_list.manifests


@contextlib.contextmanager
def deployed(settings: Kubernetes, request: Request) -> Iterator[KubernetesSite]:
    """Yield the site of a deployment whose path is verified and whose servers are ready, and remove it afterwards.

    It waits for nodes, and removes leftovers of dead owners. Raises the errors in EXPECTED.
    """
    cluster = api.connect_cluster(settings)
    with running_pods(cluster, settings, request) as pods, contextlib.ExitStack() as undo:
        inbox = Inbox(pods.watch.fault, pods.watch.own)
        session = Session(cluster, object_name(pods.by_name[CLIENT]), settings.orphan_time / 2, inbox.receive)
        undo.callback(session.close)
        undo.callback(signals.ignore_signals)
        try:
            site = _up(settings, request, pods, session, inbox)
            site.until = pods.began + (settings.time_limit or math.inf)
            site.provenance["deployment"] = pods.naming.identifier
            site.provenance["kubernetes"] |= {
                "version": call(VersionApi(cluster.http).get_code).git_version,
                "namespace": cluster.namespace,
                "exclusive_group": settings.exclusive_group or "this namespace",
            }
            session.log(f"sweep {request.sweep}, deployment {request.deployment}: its servers are ready")
            yield site
        except (SessionError, ClientError) as error:
            inbox.blame(error)  # Kubernetes may know why the pods are silent
            raise
        except EXPECTED as error:
            session.log(f"the deployment ends: {error}")
            raise


def measure(site: KubernetesSite, wanted: Parameters, how: Measurement, *shown: Any) -> CellResult:
    """Measure a cell as `measuring.cell.measure` does. An eviction or a lost node does not make it a failed one.

    Raises FaultError if the cluster has taken a pod away, or would, as its time is up; otherwise BrokenError.
    """
    if time.monotonic() + how.bounds[1] + CELL_MARGIN > site.until:
        raise FaultError("its pods may not run for longer (time_limit of the testbed)")
    site.session.log(f"cell with tool={wanted.tool} streams={wanted.streams}: begins")
    result = cell.measure(site, wanted, how, *shown)
    rate = result.summary.throughput
    reached = "" if rate is None else f", {short(rate)} Gbit/s"
    site.session.log(f"{result.status}{reached} {' '.join((*result.flags, result.message))}".rstrip())
    if BROKEN in result.flags and site.inbox.taken_away():
        raise FaultError(result.message)
    return result


@contextlib.contextmanager
def running_pods(cluster: Cluster, settings: Kubernetes, request: Request) -> Iterator[Pods]:
    """Yield the running pods of a deployment, on the nodes of the first free pair; remove leftovers before.

    The scheduler alone knows of deployments that call a node by another label, or run in another namespace. Two of them
    could wait for each other's nodes: one lets go of its own after a while, and tries the next pair.
    """
    pairs = [
        pair for pair in nodes.node_pairs(cluster, settings) if settings.serves(pair, request.parameters)
    ]
    naming = Naming.new(request.sweep, request.deployment, settings)
    reported = ""
    for preferred_place in itertools.count(request.preferred_place):
        for identifier, whose in deployments.leftovers(cluster).items():
            request.stage(f"removing what is left of {whose}")
            deployments.teardown(cluster, identifier)
        pause = POLL
        with contextlib.ExitStack() as undo:
            try:
                pair = first_free(deployments.deployments(cluster), pairs, preferred_place)
                request.stage(f"deploying {request.deployment}")
                pause = LET_GO_SECONDS
                pods = undo.enter_context(
                    deployed_objects(cluster, naming.renewed(), settings, pair, request)
                )
            except OccupiedError as error:
                words = str(error)
            else:
                yield pods
                return
        if words != reported:
            request.stage(f"waiting for nodes that other deployments use: {words}")
        reported = words
        signals.restore_signals()  # the teardown has ignored signals
        time.sleep(pause * random.uniform(0.5, 1.5))


def first_free(jobs: Sequence[V1Job], pairs: Sequence[Pair], preferred_place: int) -> Pair:
    """Return the first pair, counted from `preferred_place`, whose nodes no deployment of some Jobs has chosen. Pure.

    Raises OccupiedError if there is none.
    """
    users: dict[str, None] = {}
    for index in range(preferred_place, preferred_place + len(pairs)):
        pair = pairs[index % len(pairs)]
        if not (using := deployments.users(jobs, objects.chosen_nodes(pair))):
            return pair
        users |= dict.fromkeys(using)
    first, *others = users
    raise OccupiedError(f"{first} and {len(others)} more" if others else first)


@contextlib.contextmanager
def deployed_objects(
    cluster: Cluster, naming: Naming, settings: Kubernetes, pair: Pair, request: Request
) -> Iterator[Pods]:
    """Create the objects of a deployment, yield its running pods, and remove all of it.

    Raises OccupiedError if other deployments use its nodes, ClusterError, and TeardownError.
    """

    def torn_down() -> None:
        for line in deployments.teardown(cluster, naming.identifier):
            request.stage(line)

    with contextlib.ExitStack() as undo:
        undo.callback(torn_down)
        undo.callback(signals.ignore_signals)
        deadline = settings.start_time + request.seconds + DEADLINE_MARGIN
        deadline = min(deadline, settings.time_limit or deadline)
        pods = Pods(cluster, naming, settings, pair, request, deadline)
        undo.callback(pods.close, request.logs)
        undo.callback(signals.ignore_signals)
        pods.run()
        yield pods


def reap(settings: Kubernetes) -> list[str]:
    """Remove leftovers of dead owners in the namespace, and describe them. Raises ClusterError, TeardownError."""
    return deployments.reap(api.connect_cluster(settings))


def common_release(releases: Mapping[str, AgentAnswer]) -> AgentAnswer:
    """Return the release that all servers run. Pure.

    Raises ClusterError if an image lacks it, which is final, or if a node has an older image.
    """
    for name, release in releases.items():
        if "unusable" in release:
            raise PodError(f"{name}: {release['unusable']}", final=True)
    (first, release), *others = releases.items()
    for name, another in others:
        if another != release:
            raise ClusterError(
                f"{name} runs XRootD {json.dumps(another)}, and {first} runs {json.dumps(release)}: the nodes have "
                "different images of one name; name `image` of the testbed by its digest, or set `pull_policy: Always`"
            )
    return release


def _up(settings: Kubernetes, request: Request, pods: Pods, session: Session, inbox: Inbox) -> KubernetesSite:
    wanted, sides = request.parameters, pods.sides
    ran = time.monotonic()
    addresses = {server.name: pod_address(pods.by_name[server.name]) for server in pods.servers}
    agents = {server.name: place_of(addresses[server.name], server.ports.agent) for server in pods.servers}
    pods.furnish()
    arguments = {"servers": agents, "destinations": sides["dst"].names, "tools": list(request.tools)}
    described: dict[str, Any] = {CLIENT: session.ask("connect", **arguments)}
    for server in pods.servers if settings.host_network else ():  # they use addresses of their nodes
        session.tell([server.name], "own", address=server.address)
        if server.role == "server" and server.manager:
            session.tell([server.name], "introduce", address=server.address, redirector=server.manager)
    for side, other in OTHERS:
        arguments = {"target": TARGETS[side], "peers": sides[other].addresses, "sysctls": RECORDED_SYSCTLS}
        described |= session.tell(sides[side].names, "describe", **arguments)
    needed = objects.sysctls_in_pods(settings, wanted)
    _require_sysctls({name: each["sysctls"] for name, each in described.items() if name != CLIENT}, needed)
    release = common_release(session.tell([server.name for server in pods.servers], "release"))
    connected = time.monotonic()
    emulated: dict[str, Any] = {"emulator": "none", "qdiscs": {}}
    if settings.paths.kind == "netem":
        path = NetworkPath(wanted.rtt, wanted.bandwidth, wanted.loss, wanted.mtu, wanted.queue_limit)
        emulated = {"emulator": "netem", "qdiscs": {}, **describe_limit(path)}
        share_of_origin = asdict(share(path, wanted.origins))
        for side, other in OTHERS:
            peers = sides[other].addresses
            emulated["qdiscs"] |= session.tell(sides[side].names, "emulate", peers=peers, **share_of_origin)
    ends = list(zip(sides["src"].origins, sides["dst"].origins, strict=True))
    measured = verify_pods(session, wanted, ends, strict=settings.path == "strict")
    verified = time.monotonic()
    for role in ("manager", "server"):  # redirectors first, or origins look for them again ten seconds later
        session.tell([server.name for server in pods.servers if server.role == role], "start")
    site = KubernetesSite(
        session=session,
        inbox=inbox,
        client=Client(
            send=lambda line: session.ask("client", line=line.decode()),
            lines=inbox.lines(),
            why=lambda: "its pod has ended",
            delay=session.longest,
        ),
        sides=sides,
        machines={name: description["boot"] for name, description in described.items()},
        networks={name: described[name]["network"] for side in sides.values() for name in side.names},
        provenance={},
        rtt_idle=measured.rtt.median,
        bandwidth_found=measured.bandwidth,
        path_slow=measured.slow,
        client_cores=_cpu_limit(pods.by_name[CLIENT], CLIENT),
    )
    site.ready()
    inbox.check()
    seconds = {
        "pods": ran - pods.began,
        "agents": connected - ran,
        "path": verified - connected,
        "servers": time.monotonic() - verified,
    }
    site.provenance = _provenance(pods, described, release, emulated, measured, seconds)
    return site


def _require_sysctls(sysctls: Mapping[str, Mapping[str, str]], needed: Mapping[str, str]) -> None:
    """Raise PathError for the first origin whose sysctls, by its name, are not those needed."""
    for origin, values in sysctls.items():
        for problem in short_pods.sysctl_problems(needed, values):
            raise PathError(f"{origin}: {problem}")


def _provenance(
    pods: Pods,
    described: AgentAnswer,
    release: AgentAnswer,
    emulated: AgentAnswer,
    measured: FoundPath,
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return the fields of every testbed, from the first origin of each side, and those of this one."""
    names = {side: servers.names for side, servers in pods.sides.items()}
    first = {side: described[origins[0]] for side, origins in names.items()}
    addresses = {server.name: server.address for server in pods.servers}
    hosts = {name: node_name(pod) for name, pod in pods.by_name.items()}
    on = {side: ", ".join(sorted({hosts[name] for name in origins})) for side, origins in names.items()}
    return {
        **first["src"]["machine"],
        "host": hosts[names["src"][0]],
        "hosts": {hosts[name]: description["settings"] for name, description in sorted(described.items())},
        "nodes": {"source": on["src"], "destination": on["dst"]},
        "software": described[CLIENT]["software"],
        "xrootd": release,
        "path": {"measured": measured.to_dict(), "mtu_bytes": measured.mtu, **emulated},
        "sysctls": {
            f"{side}.{key}": value
            for side, description in first.items()
            for key, value in description["sysctls"].items()
        },
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "kubernetes": {
            "pods": {name: _describe(pod, addresses.get(name)) for name, pod in sorted(pods.by_name.items())},
            "templates": pods.templates,
            "machines": {
                name: {**description["machine"], "host": hosts[name]}
                for name, description in sorted(described.items())
            },
        },
    }


def _cpu_limit(pod: V1Pod, container: str) -> float:
    assert pod.spec
    [spec] = [each for each in pod.spec.containers if each.name == container]
    limit = spec.resources and (spec.resources.limits or {}).get(CPU)
    return float(resource_amount(limit)) if limit else math.nan


def _describe(pod: V1Pod, address: str | None) -> dict[str, Any]:
    assert pod.status and pod.status.container_statuses
    return {
        "node": node_name(pod),
        "address": address or pod.status.pod_ip,
        "image": pod.status.container_statuses[0].image_id,
        "qos": pod.status.qos_class,
    }
