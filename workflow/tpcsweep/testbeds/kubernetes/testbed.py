# SPDX-License-Identifier: Apache-2.0
"""The kubernetes testbed: deployments on the nodes of a cluster, side by side where the testbed has several pairs.

A deployment is brought up, handed over and taken down here, from its first object to its last.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from kubernetes.client import V1Pod, VersionApi

from tpcsweep.client.handle import ClientError
from tpcsweep.configuration.kubernetes import Kubernetes, Pair
from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.placements import CLIENT, server_templates
from tpcsweep.configuration.sweep import Measurement, path_text
from tpcsweep.configuration.templates import Tree, node_selector, spec_of
from tpcsweep.flags import BROKEN, BrokenError, FaultError
from tpcsweep.linux import signals
from tpcsweep.measure import cell
from tpcsweep.paths import Path, PathError
from tpcsweep.paths.plan import describe_limit
from tpcsweep.testbeds import Finding, Request, TeardownError
from tpcsweep.testbeds.kubernetes import api, leases, nodes, objects, rehearsal, state
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, call, create_object
from tpcsweep.testbeds.kubernetes.checks import CELL_MARGIN
from tpcsweep.testbeds.kubernetes.faults import IMAGE
from tpcsweep.testbeds.kubernetes.metadata import Naming, name_of, node_of
from tpcsweep.testbeds.kubernetes.pod.network import share
from tpcsweep.testbeds.kubernetes.pods import POKED, Place, Pods, address_of
from tpcsweep.testbeds.kubernetes.session import Session, SessionError
from tpcsweep.testbeds.kubernetes.site import Inbox, KubernetesSite, WatchedClient
from tpcsweep.testbeds.kubernetes.verify import FoundPath, verify_pods
from tpcsweep.testbeds.kubernetes.watch import OccupiedError, PodError, PodWatch
from tpcsweep.xrootd.servers import SideServers, place_of

EXPECTED = (ClusterError, BrokenError, PathError, TeardownError)
DEADLINE_MARGIN = 900.0
"""Seconds that a deployment's Job may last beside its cells and its start."""
OTHERS = (("src", "dst"), ("dst", "src"))
TRIAL = "trial of the image"
TRIAL_MARGIN = 60.0
"""Seconds that the trial's Job may last beside its start, if nobody removes it."""
LET_GO_SECONDS = 5.0
"""About so long a deployment that has let go of its nodes leaves them to others."""
SHARED = "; a quota keeps its nodes from deployments of this namespace alone (CrossNamespacePodAffinity)"
NEEDS = "docs/kubernetes.md#images has what the images of a testbed need"
RIGHTS = "config/kubernetes/rbac.yaml has the rights that sweeps need"


class RehearsalError(ClusterError):
    """The cluster refuses a pod of a sweep."""

    final = True


def require(settings: Kubernetes) -> None:
    """Start, ask and remove one client pod, to see whether deployments can come up at all.

    Raises:
        ClusterError: What keeps every deployment from coming up, and what to do about it: pods cannot be as the
            testbed says, the cluster cannot be found or reached, the namespace is missing, a right is lacking, the
            nodes make no pair, or the image does not run within `start_time`, or does not answer.
        TeardownError: The trial does not go.
    """
    cluster = api.connect_cluster(settings)
    nodes.pairs_of(cluster, settings)
    try:
        _try(cluster, settings)
    except ClusterError as error:
        advice = f"; {RIGHTS}" if "lacks the right" in str(error) else ""
        raise ClusterError(f"{cluster.name}: {error}{advice}") from error


@contextlib.contextmanager
def deployed(settings: Kubernetes, request: Request) -> Iterator[KubernetesSite]:
    """A deployment that is up, verified and ready, for the length of a `with`; nothing stays behind.

    Waits for nodes, and removes what dead owners have left. Raises what is in EXPECTED.
    """
    with standing(settings, request) as (place, pods), contextlib.ExitStack() as undo:
        cluster = place.cluster
        inbox = Inbox(lambda: pods.watch.fault() or place.held.lost(), pods.watch.own)
        session = Session(cluster, name_of(pods.by_name[CLIENT]), settings.orphan_time / 2, inbox.hear)
        undo.callback(session.close)
        undo.callback(signals.ignore)
        try:
            site = _up(settings, request, pods, session, inbox)
            site.until = pods.began + (settings.time_limit or math.inf)
            site.provenance["deployment"] = place.naming.identifier
            site.provenance["kubernetes"] |= {
                "version": call(VersionApi(cluster.http).get_code).git_version,
                "namespace": cluster.namespace,
                "nodes_kept_from": "all namespaces" if place.everywhere else "this namespace",
                "requests": pods.requests,
            }
            yield site
        except (SessionError, ClientError) as error:
            inbox.blame(error)  # in Kubernetes' words, where it knows why nothing is heard of the pods
            raise


def measure(site: KubernetesSite, wanted: Parameters, how: Measurement, *shown: Any) -> dict[str, Any]:
    """Measure a cell as `measure.cell.measure` does, unless the cluster takes away what it is measured on.

    An eviction or a node that is gone says nothing of a cell, which then has not failed: it is yet to be measured.

    Raises:
        FaultError: What the cluster has taken away in the midst of the cell, or that it would: its time is up.
        BrokenError: Where the deployment was broken before anything was measured.
    """
    if time.monotonic() + how.bounds[1] + CELL_MARGIN > site.until:
        raise FaultError("its pods may not run for longer (time_limit of the testbed)")
    if site.whose is not None:
        parameters = {name: path_text(value) for name, value in wanted.model_dump().items()}
        told = {"deployment": site.provenance["deployment"], **parameters}
        site.session.ask("cell", whose=site.whose, cell=told)
    result = cell.measure(site, wanted, how, *shown)
    if BROKEN in result["flags"] and site.inbox.taken_away():
        raise FaultError(result["message"])
    return result


@contextlib.contextmanager
def standing(settings: Kubernetes, request: Request) -> Iterator[tuple[Place, Pods]]:
    """Pods that run, on the nodes of the first pair that nobody uses, for the length of a `with`.

    Only the scheduler can tell that a node is in use that others call by another name, or whose users are in another
    namespace. Such nodes are waited for as long as it takes. Now and then what is placed already lets go of its own, or
    two might wait for each other, and it is the next pair's turn.
    """
    told = ""
    for turn in itertools.count():
        with contextlib.ExitStack() as undo:
            place = undo.enter_context(placed(settings, request, turn))
            if not turn:
                where = place.chosen if settings.paths.pairs == "all" else ""
                request.stage(f"deploying {request.deployment}{where}{'' if place.everywhere else SHARED}")
            try:
                pods = undo.enter_context(running(place, settings, request))
            except OccupiedError as error:
                words = str(error)
            else:
                yield place, pods
                return
        if words != told:
            request.stage(f"waiting for nodes that other deployments use: {words}")
        told = words
        signals.heed()  # the teardown has ignored what asks to end
        time.sleep(LET_GO_SECONDS * random.uniform(0.5, 1.5))


@contextlib.contextmanager
def placed(settings: Kubernetes, request: Request, turn: int = 0) -> Iterator[Place]:
    """Hold the Leases of the first pair that is free, without what dead owners left, for the length of a `with`.

    Which comes first is the request's affair, and in another `turn` it is another one.
    """
    cluster = api.connect_cluster(settings)
    pairs = [pair for pair in nodes.pairs_of(cluster, settings) if settings.serves(pair, request.parameters)]
    first = (request.turn + turn) % len(pairs)
    pairs = [*pairs[first:], *pairs[:first]]
    naming = Naming.new(request.sweep, request.deployment)
    alternatives = [locks(pair) for pair in pairs]

    def waiting(holder: str) -> None:
        request.stage(f"waiting for {holder}")

    with leases.first_free(cluster, alternatives, naming, waiting) as held:
        for leftover in state.leftovers(cluster):
            request.stage(f"removing what is left of {leftover}")
            state.teardown(cluster, leftover.identifier)
        everywhere = _everywhere(cluster, settings, naming)
        yield Place(cluster, pairs[held.index], held, naming, everywhere, len(pairs))


@contextlib.contextmanager
def running(place: Place, settings: Kubernetes, request: Request) -> Iterator[Pods]:
    """The objects of a deployment, its pods running, for the length of a `with`.

    Raises OccupiedError if other deployments use their nodes, ClusterError, and TeardownError.
    """

    def torn_down() -> None:
        place.held.go_with(None)  # or the Leases would go with the Job, and pods may take longer
        for line in state.teardown(place.cluster, place.naming.identifier):
            request.stage(line)

    with contextlib.ExitStack() as undo:  # the last registered is the first to be done
        undo.callback(torn_down)
        undo.callback(signals.ignore)
        deadline = settings.start_time + request.seconds + DEADLINE_MARGIN
        deadline = min(deadline, settings.time_limit or deadline)
        own = settings.model_copy(update={"client": place.pair.client})
        pods = Pods(place, own, request.parameters, request.streams, deadline, request.stage)
        undo.callback(pods.close, request.logs)
        undo.callback(signals.ignore)
        pods.run()
        yield pods


def reap(settings: Kubernetes) -> list[str]:
    """Remove what dead owners have left in the namespace; returns what it was. Raises ClusterError, TeardownError."""
    return state.reap(api.connect_cluster(settings))


def locks(pair: Pair) -> set[str]:
    """The names of the Leases by which those wait that choose the same nodes: one for each way of choosing. Pure."""

    def nodes(template: Tree) -> str:
        rules = (spec_of(template, "affinity") or {}).get("nodeAffinity")
        return json.dumps([node_selector(template), rules], sort_keys=True)

    return {leases.name_for(nodes(each)) for _, side in pair.sides for each in server_templates(side)}


def agreed(releases: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The release that all servers run: a node may have kept an older image under the same name. Pure."""
    (first, release), *others = releases.items()
    for name, another in others:
        if another != release:
            raise ClusterError(
                f"{name} runs XRootD {json.dumps(another)}, and {first} runs {json.dumps(release)}: the nodes have "
                "different images of one name; name `image` of the testbed by its digest, or set `pull_policy: Always`"
            )
    return release


def rehearse(configuration: Configuration) -> None:
    """Have the API server say whether it would accept each distinct pod of a sweep. Raises ClusterError."""
    settings = configuration.testbed
    assert isinstance(settings, Kubernetes)
    cluster = api.connect_cluster(settings)
    everywhere = _everywhere(cluster, settings, Naming.new("", TRIAL))
    for name, job in rehearsal.distinct_jobs(
        configuration, nodes.pairs_of(cluster, settings), everywhere=everywhere
    ):
        if refusal := rehearsal.refusal(cluster, job):
            raise RehearsalError(f"{cluster.name}: {name}: {refusal}")


def manifests(configuration: Configuration) -> list[dict[str, Any]]:
    """Return the Job of each distinct pod of a sweep, as the API gets it; asks a cluster for `pairs: all` alone."""
    settings = configuration.testbed
    assert isinstance(settings, Kubernetes)
    all_of_them = settings.paths.pairs == "all"
    pairs = nodes.pairs_of(api.connect_cluster(settings), settings) if all_of_them else settings.pairs
    found = rehearsal.distinct_jobs(configuration, pairs, everywhere=True)
    return [job.model_dump(mode="json", by_alias=True, exclude_none=True) for _, job in found]


def check(configuration: Configuration) -> Iterator[Finding]:
    """Yield what a sweep needs of its cluster, and whether it has that."""
    settings, name = configuration.testbed, configuration.testbed_name
    assert isinstance(settings, Kubernetes)
    try:
        cluster = api.connect_cluster(settings)
        everywhere = _everywhere(cluster, settings, Naming.new("", TRIAL))
        pairs = nodes.pairs_of(cluster, settings)
    except ClusterError as error:
        yield Finding(name, "cluster", "failed", str(error))
        return
    yield Finding(name, "cluster", "ok", cluster.name)
    yield from rehearsal.findings(cluster, configuration, pairs, everywhere=everywhere)
    try:
        _try(cluster, settings)
    except EXPECTED as error:
        yield Finding(settings.image, "image", "failed", str(error))
    else:
        yield Finding(settings.image, "image", "ok")


def _try(cluster: Cluster, settings: Kubernetes) -> None:
    """Make a Job like a deployment's until its pod answers. If others have its node, the first deployment waits."""
    naming = Naming.new("", TRIAL)
    everywhere = _everywhere(cluster, settings, naming)
    job = objects.client_job(naming, settings, settings.start_time + TRIAL_MARGIN, everywhere=everywhere)
    assert job.spec and job.spec.template.spec
    job.spec.template.spec.init_containers = objects.checks(
        settings, job.spec.template.spec.containers[-1].resources
    )
    with contextlib.ExitStack() as undo:
        lock = leases.name_for(naming.identifier)
        held = undo.enter_context(leases.first_free(cluster, [[lock]], naming))
        undo.callback(state.teardown, cluster, naming.identifier)
        undo.callback(held.go_with, None)
        owner = create_object(cluster, job)
        held.go_with(owner)
        create_object(cluster, objects.package(naming, owner))
        filled = objects.secret(naming, CLIENT, {}, owner), objects.config_map(naming, {}, owner)
        rehearsal.dry_run(cluster, *filled, objects.network_policy(naming, owner))
        watch = undo.enter_context(contextlib.closing(PodWatch(cluster, naming, patient=False)))
        try:
            [name] = watch.running(1, settings.start_time)
        except OccupiedError:
            return
        except PodError as error:
            of_image = any(reason in str(error) for reason in IMAGE)
            advice = (
                "; correct `image`, `pull_policy` or imagePullSecrets of a podTemplate" if of_image else ""
            )
            if "container image-" in str(error):
                advice = f"; {NEEDS}"
            raise PodError(f"the client pod does not come up: {error}{advice}") from error
        annotated = {"metadata": {"annotations": {POKED: ""}}}
        call(cluster.core.patch_namespaced_pod, name, cluster.namespace, annotated, dry_run="All")
        session = Session(cluster, name, settings.orphan_time / 2, lambda _: None)
        undo.callback(session.close)
        try:
            session.ask("clock")
        except SessionError as error:
            raise PodError(watch.fault() or str(error)) from error


def _everywhere(cluster: Cluster, settings: Kubernetes, naming: Naming) -> bool:
    """Whether pods may ask for nodes without deployments of any namespace, which a quota may forbid. None is made.

    The cluster makes the pods of Jobs, and says in events alone, and late, why it may not; here RefusedError says it.
    """

    def refusal(*, everywhere: bool) -> RefusedError | None:
        job = objects.client_job(naming, settings, settings.start_time, everywhere=everywhere)
        assert job.spec
        template = job.spec.template
        assert template.metadata
        metadata = template.metadata.model_copy(update={"name": naming.prefix})
        pod = V1Pod(metadata=metadata, spec=template.spec)
        try:
            rehearsal.dry_run(cluster, pod)
        except RefusedError as error:
            return error
        return None

    refused = refusal(everywhere=True)
    if refused and (refused.status != 403 or refusal(everywhere=False)):
        raise refused
    return refused is None


def _up(settings: Kubernetes, request: Request, pods: Pods, session: Session, inbox: Inbox) -> KubernetesSite:
    wanted, sides = request.parameters, pods.sides
    ran = time.monotonic()
    agents = {
        server.name: place_of(address_of(pods.by_name[server.name]), server.ports.agent)
        for server in pods.servers
    }
    with pods.poked():
        asked = {"servers": agents, "destinations": sides["dst"].names, "tools": list(request.tools)}
        described = {CLIENT: session.ask("connect", **asked)}
    if settings.host_network:
        _introduce(session, sides.values())
    for side, other in OTHERS:
        described |= session.tell(sides[side].names, "describe", peers=sides[other].addresses)
    _require_congestion_control(described, wanted.congestion_control)
    release = agreed(session.tell([server.name for server in pods.servers], "release"))
    connected = time.monotonic()
    emulated: dict[str, Any] = {"emulator": "none", "qdiscs": {}}
    if settings.paths.kind == "netem":
        path = Path(wanted.rtt, wanted.bandwidth, wanted.loss, wanted.mtu, wanted.queue_limit)
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
        client=WatchedClient(session, inbox),
        sides=sides,
        machines={name: description["boot"] for name, description in described.items()},
        networks={name: described[name]["network"] for side in sides.values() for name in side.names},
        provenance={},
        rtt_idle=measured.rtt.median,
        bandwidth_found=measured.bandwidth,
        path_slow=measured.slow,
        whose={"sweep": request.sweep, "testbed": request.testbed} if settings.metrics else None,
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


def _introduce(session: Session, sides: Iterable[SideServers]) -> None:
    """Have servers on the network of their nodes take their addresses, or raise SessionError."""
    for server in itertools.chain.from_iterable(side.servers for side in sides):
        session.tell([server.name], "own", address=server.address)
        if server.role == "server" and server.manager:
            session.tell([server.name], "introduce", address=server.address, redirector=server.manager)


def _require_congestion_control(described: Mapping[str, Any], wanted: str) -> None:
    for name, description in described.items():
        in_force = description.get("sysctls", {}).get("net.ipv4.tcp_congestion_control", wanted)
        if in_force != wanted:
            raise PathError(
                f"{name}: congestion_control is {in_force}, asked for {wanted}: "
                "name what the nodes use first in congestion_controls of the testbed's file"
            )


def _provenance(
    pods: Pods,
    described: Mapping[str, Any],
    release: Mapping[str, Any],
    emulated: Mapping[str, Any],
    measured: FoundPath,
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """The fields that every testbed has, of the first origin of a side where they are one machine's, and our own."""
    first = {side: described[pods.sides[side].names[0]] for side in pods.sides}
    addresses = {server.name: server.address for server in pods.servers}
    hosts = {name: node_of(pod) for name, pod in pods.by_name.items()}
    return {
        **first["src"]["machine"],
        "host": hosts[pods.sides["src"].names[0]],
        "nodes": {
            side: ", ".join(sorted({hosts[name] for name in pods.sides[end].names}))
            for side, end in (("source", "src"), ("destination", "dst"))
        },
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


def _describe(pod: V1Pod, address: str | None) -> dict[str, Any]:
    assert pod.status
    statuses = pod.status.container_statuses or []
    return {
        "node": node_of(pod),
        "address": address or pod.status.pod_ip,
        "image": next((status.image_id for status in statuses), None),
        "qos": pod.status.qos_class,
    }
