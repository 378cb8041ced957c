# SPDX-License-Identifier: Apache-2.0
"""The objects of a deployment on the cluster, from the first Job to the logs of its containers."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes.client import V1Pod

from tpcsweep.configuration.kubernetes import Kubernetes, Pair
from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.configuration.placements import CLIENT, server_templates, spots
from tpcsweep.configuration.templates import Tree, node_selector, spec_of
from tpcsweep.testbeds.kubernetes import objects, state
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call, create_object
from tpcsweep.testbeds.kubernetes.metadata import NODES, Naming, job_of, meta_of, name_of
from tpcsweep.testbeds.kubernetes.pod import places
from tpcsweep.testbeds.kubernetes.watch import OccupiedError, PodWatch
from tpcsweep.xrootd import credentials
from tpcsweep.xrootd import servers as xrootd

PARALLEL = 16
"""Requests at a time."""
POKE_SECONDS = 1.0
POKED = "tpcsweep/filled"


@dataclass(frozen=True)
class Place:
    """The pair of a deployment."""

    cluster: Cluster
    pair: Pair
    naming: Naming
    among: int
    """The number of pairs to choose from."""

    @property
    def chosen(self) -> str:
        """Name the pair, if the nodes of a cluster make it."""
        source, destination = (node_selector(side.podTemplate)[objects.NODE] for _, side in self.pair.sides)
        return f" on {source} and {destination}, one of {self.among} pairs of nodes"


class Pods:
    """The objects of a deployment."""

    def __init__(
        self,
        place: Place,
        settings: Kubernetes,
        wanted: DeploymentParameters,
        streams: int,
        deadline: float,
        tell: Callable[[str], None],
    ) -> None:
        """Create the Jobs and all objects that do not depend on the pods' addresses.

        Raises OccupiedError if another deployment has chosen the same nodes earlier, and ClusterError.

        Args:
            place: Where the pods run.
            settings: The testbed, with the pair's client.
            wanted: The deployment.
            streams: The largest number of a cell.
            deadline: Seconds after which the Jobs end.
            tell: Is called with the reason for which pods do not run.
        """
        self._cluster = place.cluster
        self._settings = settings
        self._wanted = wanted
        self._naming = place.naming
        self._spots = {
            name: spots(side, wanted.origins, host_network=settings.host_network)
            for name, side in (("src", place.pair.source), ("dst", place.pair.destination))
        }
        self._before = self._cluster.requests
        self.began = time.monotonic()
        client = objects.client_job(self._naming, settings, deadline)
        nodes = chosen_nodes(place.pair)
        assert client.metadata and client.metadata.annotations
        client.metadata.annotations[NODES] = "\n".join(sorted(nodes))
        self._owner = create_object(self._cluster, client)
        if earlier := state.users(state.deployments(self._cluster), nodes, before=self._owner):
            raise OccupiedError(earlier[0])  # both saw the pair free
        self.watch = PodWatch(self._cluster, self._naming, tell=tell)
        bodies: list[Any] = [
            objects.package(self._naming, self._owner),
            objects.network_policy(self._naming, self._owner, metrics=settings.metrics),
        ]
        self.templates = {CLIENT: objects.template_of(client)}
        """The templates of the client's pod, and of the first origin's of each side."""
        for side, of_side in self._spots.items():
            servers = zip(of_side, self._blank(side).servers, strict=True)
            jobs = [
                objects.server_job(
                    self._naming, settings, spot, server, wanted, streams, self._owner, deadline
                )
                for spot, server in servers
            ]
            bodies += jobs
            self.templates[side] = objects.template_of(jobs[-wanted.origins])
        self._create(bodies)
        self.by_name: dict[str, V1Pod] = {}
        """The running pods by the names of their servers, and `client`."""
        self.sides: dict[str, xrootd.SideServers] = {}

    def run(self) -> None:
        """Wait until all pods run, and create the objects that contain their addresses. Raises ClusterError."""
        count = 1 + sum(map(len, self._spots.values()))
        running = self.watch.running(count, self._settings.start_time).values()
        self.by_name = {_name(pod, self._naming): pod for pod in running}
        self.sides = {side: self._with(side, self._addresses(side)) for side in self._spots}
        self._fill()

    @property
    def requests(self) -> int:
        return self._cluster.requests - self._before

    @property
    def servers(self) -> list[xrootd.Server]:
        return [server for side in self.sides.values() for server in side.servers]

    @contextlib.contextmanager
    def poked(self) -> Iterator[None]:
        """Have kubelets update the mounts of their pods at once, for the length of a `with`.

        Kubelets do so when a pod's annotations change, and otherwise once a minute:
        https://kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap/
        """
        ended = threading.Event()
        names = [name_of(pod) for pod in self.by_name.values()]

        def annotate(count: int, pod: str) -> None:
            body = {"metadata": {"annotations": {POKED: str(count)}}}
            with contextlib.suppress(ClusterError):  # the watch reports faults of pods
                call(self._cluster.core.patch_namespaced_pod, pod, self._cluster.namespace, body, seconds=5)

        def poke() -> None:
            with ThreadPoolExecutor(PARALLEL) as pool:
                for count in itertools.count(1):
                    list(pool.map(partial(annotate, count), names))
                    if ended.wait(POKE_SECONDS):
                        return

        with ThreadPoolExecutor(1) as poking:
            poking.submit(poke)
            try:
                yield
            finally:
                ended.set()

    def close(self, logs: Path) -> None:
        """End the watch, and save the logs of the containers."""
        pods = self.watch.pods().values()
        self.watch.close()
        containers = [(pod, container.name) for pod in pods if pod.spec for container in pod.spec.containers]
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda container: self._save_log(logs, *container), containers))

    def _create(self, bodies: list[Any]) -> None:
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(partial(create_object, self._cluster), bodies))

    def _addresses(self, side: str) -> list[str]:
        servers = zip(self._spots[side], self._blank(side).servers, strict=True)
        return [
            spot.address.partition("/")[0]
            if spot.address and not spot.network
            else address_of(self.by_name[server.name], attached=spot.network is not None)
            for spot, server in servers
        ]

    def _blank(self, side: str) -> xrootd.SideServers:
        """Return a side's servers without their addresses."""
        return self._with(side, [side] * len(self._spots[side]))

    def _with(self, side: str, addresses: list[str]) -> xrootd.SideServers:
        origins = addresses[-self._wanted.origins :]
        ports = [places.block(spot.port) for spot in self._spots[side]]
        return xrootd.side(side, addresses[0], origins, places.STATE, places.FILES, ports)

    def _fill(self) -> None:
        addresses = {server.address for server in self.servers} | set(map(address_of, self.by_name.values()))
        files = {places.COMPLETE: b"", **_credentials(sorted(addresses))}
        configuration = {places.COMPLETE: ""}
        for server in self.servers:
            configuration[f"{server.name}.cfg"] = xrootd.configuration(
                self._introduced(server), places.PRIVATE, authorization=self._wanted.authorization
            )
        bodies: list[Any] = [objects.config_map(self._naming, configuration, self._owner)]
        for of, theirs in objects.SECRETS.items():
            content = {name: files[name] for name in files if theirs(name)}
            bodies.append(objects.secret(self._naming, of, content, self._owner))
        self._create(bodies)

    def _introduced(self, server: xrootd.Server) -> xrootd.Server:
        """Have an origin in its node's network reach its redirector through its agent (`network.introduce`)."""
        if server.role == "manager" or not (server.manager and self._settings.host_network):
            return server
        return replace(server, manager=f"{xrootd.LOOPBACK}:{server.ports.cmsd}")

    def _save_log(self, logs: Path, pod: V1Pod, container: str) -> None:
        read, space = self._cluster.core.read_namespaced_pod_log, self._cluster.namespace
        try:
            text = call(read, name_of(pod), space, container=container, seconds=0)
        except ClusterError:
            return  # the container has never run, or its node is gone
        if text:
            logs.mkdir(parents=True, exist_ok=True)
            path = logs / f"{container}.{_name(pod, self._naming)}.log"
            path.write_text(xrootd.without_secrets(text))


def chosen_nodes(pair: Pair) -> set[str]:
    """Return a pair's choices of nodes as texts, by which deployments see each other's nodes. Pure."""

    def choice(template: Tree) -> str:
        rules = (spec_of(template, "affinity") or {}).get("nodeAffinity")
        return json.dumps([node_selector(template), rules], sort_keys=True)

    return {choice(each) for _, side in pair.sides for each in server_templates(side)}


def address_of(pod: V1Pod, *, attached: bool = False) -> str:
    """Return a pod's address, or that of its `attached` network; raises ClusterError if it has none."""
    assert pod.status
    if not attached:
        return pod.status.pod_ip or ""
    for network in json.loads((meta_of(pod).annotations or {}).get(objects.NETWORK_STATUS) or "[]"):
        if network.get("interface") == objects.NETWORK and network.get("ips"):
            return str(network["ips"][0])
    raise ClusterError(
        f"pod {name_of(pod)} has no address on its attached network: the network assigns none; write `addresses`"
    )


def _name(pod: V1Pod, naming: Naming) -> str:
    """Return the name of a pod's server, from the name of its Job."""
    return job_of(pod).removeprefix(naming.prefix).removeprefix("-") or CLIENT


def _credentials(addresses: list[str]) -> dict[str, bytes]:
    """Create credentials for these addresses, and return their files by names that a Secret may have."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "credentials"
        credentials.create_credentials(made, addresses, (os.getuid(), os.getgid()))
        return {
            str(path.relative_to(made)).replace("/", places.SLASH): path.read_bytes()
            for path in made.rglob("*")
            if path.is_file()
        }
