"""Bring a deployment up on a cluster, hand it over, take it down: from the first object to the last."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes.client import V1Job, V1Pod, VersionApi

from tpcsweep import credentials, signals, xrootd
from tpcsweep.paths import PathError
from tpcsweep.testbed_settings import Kubernetes, Pair
from tpcsweep.testbeds import Request
from tpcsweep.testbeds.kubernetes import objects, state
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call, create
from tpcsweep.testbeds.kubernetes.faults import PodWatch
from tpcsweep.testbeds.kubernetes.leases import Leases
from tpcsweep.testbeds.kubernetes.objects import Naming
from tpcsweep.testbeds.kubernetes.pod import places
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT
from tpcsweep.testbeds.kubernetes.session import Session
from tpcsweep.testbeds.kubernetes.site import Inbox, Side, Site, WatchedClient
from tpcsweep.testbeds.kubernetes.verify import Ends, Measured, verify

DEADLINE_MARGIN = 900.0
"""Seconds that a deployment's Job may last beside its cells and its start."""
PARALLEL = 16
"""Requests at a time."""
POKE_SECONDS = 1.0
POKED = "tpcsweep/filled"
SECRETS: Mapping[str, Callable[[str], bool]] = {
    "client": lambda name: name.startswith(("ca", "user", places.COMPLETE)),
    "servers": lambda name: not name.startswith("user"),
}
"""Which credentials the client has, and which the servers."""


@contextlib.contextmanager
def deployed(
    cluster: Cluster, settings: Kubernetes, pair: Pair, request: Request, identifier: str, held: Leases
) -> Iterator[Site]:
    """A deployment that is up, verified and ready, for the length of a `with`; the caller holds its nodes.

    Raises FaultError, PathError, SessionError or ClusterError when it does not come up, and TeardownError when it
    does not go; nothing stays behind in either case.
    """
    with contextlib.ExitStack() as undo:  # the last registered is the first to be done
        undo.callback(_torn_down, cluster, identifier, request.stage)
        naming = Naming(identifier, request.sweep, request.deployment)
        deployment = _Deployment(cluster, settings, pair, request, naming, held)
        undo.callback(deployment.close)
        undo.callback(signals.ignore)
        yield deployment.up()


def identifier() -> str:
    """A new deployment's."""
    return secrets.token_hex(3)


def _torn_down(cluster: Cluster, name: str, stage: Callable[[str], None]) -> None:
    for line in state.teardown(cluster, name):
        stage(line)


class _Deployment:
    """The steps of coming up, and what they have opened so far."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Kubernetes,
        pair: Pair,
        request: Request,
        naming: Naming,
        held: Leases,
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.wanted = request.parameters
        self.request = request
        self.naming = naming
        self.leases = held
        self.placed = {"src": pair.source, "dst": pair.destination}
        self.requests = cluster.requests
        self.watch: PodWatch | None = None
        self.session: Session | None = None

    def up(self) -> Site:
        """All steps in order: objects, pods, credentials, hub, path, servers."""
        began = time.monotonic()
        settings, naming = self.settings, self.naming
        deadline = settings.start_time + self.request.seconds + DEADLINE_MARGIN
        owner = create(self.cluster, objects.job(naming, settings, deadline))
        watch = self.watch = PodWatch(self.cluster, naming.identifier)
        self._create(owner)
        pods = self._running(watch)
        ran = time.monotonic()
        sides = {side: self._side(side, pods) for side in self.placed}
        self._fill(owner, sides, pods)
        inbox = Inbox(lambda: watch.fault() or self.leases.lost())
        client = next(name for name, pod in pods.items() if _role(pod) == "client")
        session = self.session = Session(self.cluster, client, inbox.hear)
        with _poking(self.cluster, list(pods)):
            agents = {server.name: _ip(pods[self._pod(server.name)]) for server in _servers(sides)}
            here = session.ask("connect", servers=agents, destinations=sides["dst"].names)
        connected = time.monotonic()
        found = self._described(session, sides)
        emulated = self._emulated(session, sides)
        measured = verify(session, self.wanted, _ends(sides))
        verified = time.monotonic()
        for role in ("manager", "server"):
            session.tell([server.name for server in _servers(sides) if server.role == role], "start")
        machines = {name: one["boot"] for name, one in found.items()} | {CLIENT: here["boot"]}
        site = Site(session, inbox, WatchedClient(session, inbox), sides, machines, {}, measured.rtt.median)
        site.ready()
        inbox.check()
        seconds = {
            "pods": ran - began,
            "agents": connected - ran,
            "path": verified - connected,
            "servers": time.monotonic() - verified,
        }
        site.provenance = self._provenance(pods, found, emulated, measured, seconds)
        return site

    def close(self) -> None:
        """Release what this process holds, and save what the servers have said; the rest goes by label."""
        if self.session:
            self.session.close()
        if self.watch:
            pods = self.watch.pods().values()
            self.watch.close()
            with ThreadPoolExecutor(PARALLEL) as pool:
                list(pool.map(self._save_logs, pods))

    def _create(self, owner: V1Job) -> None:
        """All that can be made before the pods have addresses, at once."""
        bodies: list[Any] = [objects.network_policy(self.naming, owner)]
        for side, placed in self.placed.items():
            for number, server in enumerate(self._blank(side).servers):
                pod = objects.server_pod(
                    self.naming, self.settings, placed, server, number, self.wanted, owner
                )
                bodies.append(pod)
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda body: create(self.cluster, body), bodies))

    def _running(self, watch: PodWatch) -> dict[str, V1Pod]:
        servers = sum(len(self._blank(side).servers) for side in self.placed)
        return watch.running(servers + 1, self.settings.start_time)

    def _side(self, side: str, pods: Mapping[str, V1Pod]) -> Side:
        """A side's servers with their addresses: those of an attached network, or those of their pods."""
        blank = self._blank(side)
        attached = [address.partition("/")[0] for address in self.placed[side].addresses]
        own = [_ip(pods[self._pod(server.name)]) for server in blank.servers]
        return self._with(side, (attached or own)[: len(own)])

    def _blank(self, side: str) -> Side:
        """A side's servers without addresses."""
        return self._with(side, [""] * (self.wanted.origins + (self.wanted.origins > 1)))

    def _with(self, side: str, addresses: list[str]) -> Side:
        origins = addresses[-self.wanted.origins :]
        return Side(*xrootd.side(side, addresses[0] or side, origins, places.STATE, places.FILES))

    def _pod(self, server: str) -> str:
        return f"{self.naming.prefix}-{server}"

    def _fill(self, owner: V1Job, sides: Mapping[str, Side], pods: Mapping[str, V1Pod]) -> None:
        """Make Secrets and ConfigMap, now that addresses are known."""
        servers = _servers(sides)
        addresses = {server.address for server in servers} | {_ip(pod) for pod in pods.values()}
        files = {places.COMPLETE: b"", **_credentials(sorted(addresses))}
        configurations = {
            f"{server.name}.cfg": xrootd.configuration(server, places.PRIVATE) for server in servers
        }
        bodies: list[Any] = [
            *(
                objects.secret(self.naming, of, {n: c for n, c in files.items() if wanted(n)}, owner)
                for of, wanted in SECRETS.items()
            ),
            objects.config_map(self.naming, {places.COMPLETE: "", **configurations}, owner),
        ]
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda body: create(self.cluster, body), bodies))

    def _described(self, session: Session, sides: Mapping[str, Side]) -> dict[str, Any]:
        """What every origin's agent says of its machine and network; it watches the other side from now on."""
        found: dict[str, Any] = {}
        for side, other in (("src", "dst"), ("dst", "src")):
            found |= session.tell(sides[side].names, "describe", peers=sides[other].addresses)
        control = self.wanted.congestion_control
        for name, one in found.items():
            in_force = one["sysctls"].get("net.ipv4.tcp_congestion_control", control)
            if in_force != control:
                raise PathError(
                    f"{name}: congestion_control is {in_force}, asked for {control}: "
                    "name what the nodes use first in congestion_controls of the testbed's file"
                )
        return found

    def _emulated(self, session: Session, sides: Mapping[str, Side]) -> dict[str, Any]:
        """The emulated path, where the testbed makes one: what was set at each origin."""
        if self.settings.paths.kind != "netem":
            return {}
        wanted = self.wanted
        path = {"rtt": wanted.rtt, "bandwidth": wanted.bandwidth / wanted.origins}
        path |= {"loss": wanted.loss, "mtu": wanted.mtu}
        found: dict[str, Any] = {}
        for side, other in (("src", "dst"), ("dst", "src")):
            found |= session.tell(sides[side].names, "emulate", peers=sides[other].addresses, **path)
        return found

    def _save_logs(self, pod: V1Pod) -> None:
        """What the containers of a pod have said, without the tokens that servers log."""
        assert pod.metadata
        assert pod.spec
        name = pod.metadata.name or ""
        for container in pod.spec.containers:
            read = partial(
                self.cluster.core.read_namespaced_pod_log,
                name,
                self.cluster.namespace,
                container=container.name,
            )
            try:
                text = call(read, seconds=0)
            except ClusterError:
                continue  # it has never run, or its node is gone
            if text:
                short = name.removeprefix(f"{self.naming.prefix}-")
                self.request.logs.mkdir(parents=True, exist_ok=True)
                path = self.request.logs / f"{container.name}.{short}.log"
                path.write_text(xrootd.without_secrets(text))

    def _provenance(
        self,
        pods: Mapping[str, V1Pod],
        found: Mapping[str, Any],
        emulated: Mapping[str, Any],
        measured: Measured,
        seconds: Mapping[str, float],
    ) -> dict[str, Any]:
        first = {side: found[f"{side}1"] for side in self.placed}
        version = call(lambda: VersionApi(self.cluster.http).get_code())
        return {
            # Fields of one machine tell of the first source origin's; the others are below.
            **first["src"]["machine"],
            "software": first["src"]["software"],
            "deployment": self.naming.identifier,
            "path": {
                "measured": measured.to_dict(),
                "emulator": "netem" if emulated else "none",
                "mtu_bytes": measured.mtu,
                "qdiscs": dict(emulated),
            },
            "sysctls": {
                f"{side}.{name}": value
                for side, one in first.items()
                for name, value in one["sysctls"].items()
            },
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
            "kubernetes": {
                "version": version.git_version,
                "namespace": self.cluster.namespace,
                "requests": self.cluster.requests - self.requests,
                "pods": {name: _seen(pod) for name, pod in sorted(pods.items())},
                "machines": {name: one["machine"] for name, one in sorted(found.items())},
            },
        }


@contextlib.contextmanager
def _poking(cluster: Cluster, pods: list[str]) -> Iterator[None]:
    """Have kubelets look again at what their pods mount, until the end of the `with`.

    They do so when a pod's annotations change, and by themselves once a minute:
    https://kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap/
    """
    ended = threading.Event()

    def poke() -> None:
        with ThreadPoolExecutor(PARALLEL) as pool:
            for count in itertools.count(1):
                list(pool.map(partial(_poke, cluster, {POKED: str(count)}), pods))
                if ended.wait(POKE_SECONDS):
                    return

    thread = threading.Thread(target=poke, name="poking", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _poke(cluster: Cluster, annotations: dict[str, str], pod: str) -> None:
    """Whatever is wrong with a pod is noticed elsewhere."""
    body = {"metadata": {"annotations": annotations}}
    with contextlib.suppress(ClusterError):
        call(lambda: cluster.core.patch_namespaced_pod(pod, cluster.namespace, body), seconds=5)


def _credentials(addresses: list[str]) -> dict[str, bytes]:
    """The files of a deployment's credentials, with names that a Secret may have."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "credentials"
        credentials.create(made, addresses, (os.getuid(), os.getgid()))
        return {
            f"{places.FOLDERS.get(path.parent.name, '')}{path.name}": path.read_bytes()
            for path in made.rglob("*")
            if path.is_file()
        }


def _servers(sides: Mapping[str, Side]) -> list[xrootd.Server]:
    return [server for side in sides.values() for server in side.servers]


def _ends(sides: Mapping[str, Side]) -> list[Ends]:
    """Source and destination origins, one by one."""
    both = zip(sides["src"].origins, sides["dst"].origins, strict=True)
    return [Ends(source, destination) for source, destination in both]


def _ip(pod: V1Pod) -> str:
    assert pod.status
    return pod.status.pod_ip or ""


def _role(pod: V1Pod) -> str:
    return ((pod.metadata and pod.metadata.labels) or {}).get(state.ROLE, "")


def _seen(pod: V1Pod) -> dict[str, Any]:
    """What is worth knowing of a pod later."""
    assert pod.spec
    assert pod.status
    statuses = pod.status.container_statuses or []
    return {
        "node": pod.spec.node_name,
        "address": pod.status.pod_ip,
        "image": next((status.image_id for status in statuses), None),
        "qos": pod.status.qos_class,
    }
