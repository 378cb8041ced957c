# SPDX-License-Identifier: Apache-2.0
"""The objects of a deployment on the cluster, from the first Job to the logs of its containers."""

import contextlib
import inspect
import json
import os
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes.client import V1Pod
from websocket import WebSocketException

from tpcsweep.deploying.xrootd import credentials
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.testbeds.interface import Request
from tpcsweep.testbeds.kubernetes import deployments, objects
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call, create_object
from tpcsweep.testbeds.kubernetes.metadata import PYTHON, Naming, object_metadata, object_name, reference
from tpcsweep.testbeds.kubernetes.placements import CLIENT, HUB, SERVERS, ServerPlacement, server_placements
from tpcsweep.testbeds.kubernetes.pod import pod_files, receive
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair
from tpcsweep.testbeds.kubernetes.watch import OccupiedError, PodWatch

PARALLEL = 16  # requests at a time
HAND_OVER_SECONDS = 60.0  # seconds for a pod to take its files; some tenths, unless its node is overloaded


class Pods:
    def __init__(
        self,
        cluster: Cluster,
        naming: Naming,
        settings: Kubernetes,
        pair: Pair,
        request: Request,
        deadline: float,
    ) -> None:
        """Create the client's Job, and watch the pods; Jobs end after `deadline` seconds.

        Raises OccupiedError if another deployment has chosen the same nodes earlier, and ClusterError.
        """
        self.naming = naming
        self.pair = pair
        self._cluster = cluster
        self._settings = settings
        self._wanted = wanted = request.parameters
        self._placements = {
            name: server_placements(side, wanted.origins, host_network=settings.host_network)
            for name, side in (("src", pair.source), ("dst", pair.destination))
        }
        self.began = time.monotonic()
        client, *jobs = objects.deployment_jobs(naming, settings, pair, wanted, request.streams, deadline)
        self._owner = create_object(cluster, client)
        present = deployments.deployments(cluster)
        if earlier := deployments.users(present, objects.chosen_nodes(pair), before=self._owner):
            raise OccupiedError(earlier[0])  # both saw the pair free
        self.by_name: dict[str, V1Pod] = {}  # the running pods by the names of their servers, and `client`
        self.sides: dict[str, xrootd.SideServers] = {}
        for job in jobs:
            object_metadata(job).owner_references = [reference(self._owner)]
        named = {object_name(job): objects.template_of(job) for job in jobs}
        self.templates = {side: named[f"{naming.prefix}-{side}1"] for side in self._placements}
        """The templates of the first origin's pod of each side, and of the client's."""
        self.templates[CLIENT] = objects.template_of(client)
        policy = objects.network_policy(naming, self._owner)
        self._bodies = [objects.package(naming, self._owner), policy, *jobs]
        self.watch = PodWatch(cluster, naming, tell=request.stage)

    def run(self) -> None:
        """Create all other objects, and wait until all pods run. Raises ClusterError."""
        self._create(self._bodies)
        count = 1 + sum(map(len, self._placements.values()))
        running = self.watch.wait_until_ready(count, self._settings.start_time).values()
        self.by_name = {server_name(pod, self.naming): pod for pod in running}
        self.sides = {
            side: objects.side_servers(side, placed, self._addresses(side, placed))
            for side, placed in self._placements.items()
        }

    @property
    def servers(self) -> list[xrootd.Server]:
        return [server for side in self.sides.values() for server in side.servers]

    def furnish(self) -> None:
        """Hand each pod its credentials, and those of servers their configuration; all contain the pods' addresses.

        Raises ClusterError.
        """
        addresses = {server.address for server in self.servers} | set(map(pod_address, self.by_name.values()))
        every = _credentials(sorted(addresses))
        of_servers = {name: text for name, text in every.items() if not name.startswith("user")}
        files = {CLIENT: {name: text for name, text in every.items() if name.startswith(("ca", "user"))}}
        for server in self.servers:
            if self._settings.host_network and server.role == "server" and server.manager:
                # An origin in its node's network reaches its redirector through its agent (`network.introduce`).
                server = replace(server, manager=f"{xrootd.LOOPBACK}:{server.ports.cmsd}")
            text = xrootd.configuration(server, pod_files.PRIVATE, authorization=self._wanted.authorization)
            files[server.name] = {**of_servers, pod_files.CONFIGURATION.name: text}
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(self._hand_over, files, files.values()))

    def close(self, logs: Path) -> None:
        pods = self.watch.pods().values()
        self.watch.close()
        containers = [(pod, container.name) for pod in pods if pod.spec for container in pod.spec.containers]
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda container: self._save_log(logs, *container), containers))

    def _create(self, bodies: list[Any]) -> None:
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(partial(create_object, self._cluster), bodies))

    def _addresses(self, side: str, placed: list[ServerPlacement]) -> list[str]:
        servers = objects.side_servers(side, placed, [side] * len(placed)).servers
        return [
            placement.address.partition("/")[0]
            if placement.address and not placement.network
            else pod_address(self.by_name[server.name], attached=placement.network is not None)
            for placement, server in zip(placed, servers, strict=True)
        ]

    def _hand_over(self, name: str, files: Mapping[str, str]) -> None:
        pod = object_name(self.by_name[name])
        source = inspect.getsource(receive)
        command = HUB if name == CLIENT else SERVERS, [PYTHON, "-Ic", source, str(pod_files.PRIVATE)]

        def attempt() -> None:
            try:
                with contextlib.closing(self._cluster.execute(pod, *command)) as connection:
                    connection.write_stdin(json.dumps(files).encode() + b"\n")
                    connection.run_forever(HAND_OVER_SECONDS)
                    answer = connection.read_all()
            except (WebSocketException, OSError) as error:
                raise ClusterError(f"pod {pod} cannot be handed its files: {error}") from error
            if answer != b"received":
                raise ClusterError(f"pod {pod} has not taken its files: {answer!r}")

        call(attempt, seconds=2 * HAND_OVER_SECONDS)

    def _save_log(self, logs: Path, pod: V1Pod, container: str) -> None:
        read, space = self._cluster.core.read_namespaced_pod_log, self._cluster.namespace
        with contextlib.suppress(ClusterError):  # the container has never run, or its node is gone
            if text := call(read, object_name(pod), space, container=container, seconds=0):
                logs.mkdir(parents=True, exist_ok=True)
                path = logs / f"{container}.{server_name(pod, self.naming)}.log"
                path.write_text(xrootd.without_secrets(text), "utf-8")


def pod_address(pod: V1Pod, *, attached: bool = False) -> str:
    """Return a pod's address, or that of its `attached` network; raises ClusterError if it has none."""
    assert pod.status
    if not attached:
        return pod.status.pod_ip or ""
    for network in json.loads((object_metadata(pod).annotations or {}).get(objects.NETWORK_STATUS) or "[]"):
        if network.get("interface") == objects.NETWORK and network.get("ips"):
            return str(network["ips"][0])
    raise ClusterError(
        f"pod {object_name(pod)} has no address on its attached network: the network assigns none; write `addresses`"
    )


def server_name(pod: V1Pod, naming: Naming) -> str:
    """Return the name of a pod's server, from the name of its Job."""
    jobs = (each.name for each in object_metadata(pod).owner_references or [] if each.kind == "Job")
    return next(jobs, "").removeprefix(naming.prefix).removeprefix("-") or CLIENT


def _credentials(addresses: list[str]) -> dict[str, str]:
    """Create credentials for these addresses, and return their texts by file name."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "credentials"
        credentials.create_credentials(made, addresses, (os.getuid(), os.getgid()))
        return {str(path.relative_to(made)): path.read_text() for path in made.rglob("*") if path.is_file()}
