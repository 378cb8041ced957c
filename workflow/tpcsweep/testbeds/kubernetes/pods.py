"""The objects of a deployment on the cluster: made, running, filled with what their addresses decide, and read back."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes.client import V1Job, V1Pod

from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.configuration.testbeds import Kubernetes, Pair
from tpcsweep.testbeds.kubernetes import objects
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call, create
from tpcsweep.testbeds.kubernetes.objects import Naming
from tpcsweep.testbeds.kubernetes.pod import places
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT
from tpcsweep.testbeds.kubernetes.site import Side
from tpcsweep.testbeds.kubernetes.state import ROLE
from tpcsweep.testbeds.kubernetes.watch import PodWatch
from tpcsweep.xrootd import credentials
from tpcsweep.xrootd import servers as xrootd

PARALLEL = 16
"""Requests at a time."""
POKE_SECONDS = 1.0
POKED = "tpcsweep/filled"
SECRETS: Mapping[str, Callable[[str], bool]] = {
    CLIENT: lambda name: name.startswith(("ca", "user", places.COMPLETE)),
    "servers": lambda name: not name.startswith("user"),
}
"""Which credentials the client has, and which the servers."""


class Pods:
    """The pods of one deployment, by the names of their servers, and `client`."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Kubernetes,
        pair: Pair,
        wanted: DeploymentParameters,
        naming: Naming,
        deadline: float,
    ) -> None:
        """Make the Job, which ends after `deadline` seconds, and all that can be made before pods have addresses.

        Raises ClusterError.
        """
        self._cluster = cluster
        self._settings = settings
        self._wanted = wanted
        self._naming = naming
        self._placed = {"src": pair.source, "dst": pair.destination}
        self._owner: V1Job = create(cluster, objects.job(naming, settings, deadline))
        self.watch = PodWatch(cluster, naming.identifier)
        bodies: list[Any] = [objects.network_policy(naming, self._owner)]
        for side, placed in self._placed.items():
            for number, server in enumerate(self._blank(side).servers):
                pod = objects.server_pod(naming, settings, placed, server, number, wanted, self._owner)
                bodies.append(pod)
        self._create(bodies)
        self._by_name: dict[str, V1Pod] = {}
        self.sides: dict[str, Side] = {}

    def run(self) -> None:
        """Wait until all run, then give them what holds their addresses. Raises ClusterError with what is wrong."""
        count = 1 + sum(len(self._blank(side).servers) for side in self._placed)
        running = self.watch.running(count, self._settings.start_time).values()
        self._by_name = {_name(pod, self._naming): pod for pod in running}
        self.sides = {side: self._with(side, self._addresses(side)) for side in self._placed}
        self._fill()

    def __getitem__(self, name: str) -> V1Pod:
        """The pod of a server, or of the client."""
        return self._by_name[name]

    def items(self) -> Iterable[tuple[str, V1Pod]]:
        """Names and pods."""
        return self._by_name.items()

    @property
    def servers(self) -> list[xrootd.Server]:
        """All servers of both sides."""
        return [server for side in self.sides.values() for server in side.servers]

    @contextlib.contextmanager
    def poked(self) -> Iterator[None]:
        """Have kubelets look again at what their pods mount, until the end of the `with`.

        They do so when a pod's annotations change, and by themselves once a minute:
        https://kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap/
        """
        ended = threading.Event()
        names = [_full_name(pod) for pod in self._by_name.values()]

        def poke() -> None:
            with ThreadPoolExecutor(PARALLEL) as pool:
                for count in itertools.count(1):
                    list(pool.map(partial(_poke, self._cluster, {POKED: str(count)}), names))
                    if ended.wait(POKE_SECONDS):
                        return

        thread = threading.Thread(target=poke, name="poking", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def close(self, logs: Path) -> None:
        """Look no more, and save what the containers have said. They are still there."""
        pods = self.watch.pods().values()
        self.watch.close()
        containers = [(pod, each.name) for pod in pods if pod.spec for each in pod.spec.containers]
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda one: self._save_log(logs, *one), containers))

    def _create(self, bodies: list[Any]) -> None:
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda body: create(self._cluster, body), bodies))

    def _addresses(self, side: str) -> list[str]:
        """Those of an attached network, or those of the pods."""
        blank = self._blank(side).servers
        attached = [address.partition("/")[0] for address in self._placed[side].addresses]
        return (attached or [ip(self[server.name]) for server in blank])[: len(blank)]

    def _blank(self, side: str) -> Side:
        """A side's servers before they have addresses."""
        return self._with(side, [side] * (self._wanted.origins + (self._wanted.origins > 1)))

    def _with(self, side: str, addresses: list[str]) -> Side:
        """A side's servers at these addresses, the redirector's first, where there is one."""
        origins = addresses[-self._wanted.origins :]
        return Side(*xrootd.side(side, addresses[0], origins, places.STATE, places.FILES))

    def _fill(self) -> None:
        """Make Secrets and ConfigMap."""
        servers, naming, owner = self.servers, self._naming, self._owner
        addresses = {server.address for server in servers} | {ip(pod) for _, pod in self.items()}
        files = {places.COMPLETE: b"", **_credentials(sorted(addresses))}
        configurations = {
            f"{server.name}.cfg": xrootd.configuration(server, places.PRIVATE) for server in servers
        }
        secrets = [
            objects.secret(naming, of, {name: files[name] for name in files if theirs(name)}, owner)
            for of, theirs in SECRETS.items()
        ]
        self._create([*secrets, objects.config_map(naming, {places.COMPLETE: "", **configurations}, owner)])

    def _save_log(self, logs: Path, pod: V1Pod, container: str) -> None:
        """What a container has said, without the tokens that servers log."""
        name = _full_name(pod)
        read = self._cluster.core.read_namespaced_pod_log
        try:
            text = call(lambda: read(name, self._cluster.namespace, container=container), seconds=0)
        except ClusterError:
            return  # it has never run, or its node is gone
        if text:
            logs.mkdir(parents=True, exist_ok=True)
            path = logs / f"{container}.{_name(pod, self._naming)}.log"
            path.write_text(xrootd.without_secrets(text))


def ip(pod: V1Pod) -> str:
    """A pod's address."""
    assert pod.status
    return pod.status.pod_ip or ""


def node(pod: V1Pod) -> str:
    """The node that a pod is on."""
    return (pod.spec and pod.spec.node_name) or ""


def _full_name(pod: V1Pod) -> str:
    return (pod.metadata and pod.metadata.name) or ""


def _name(pod: V1Pod, naming: Naming) -> str:
    """The name of a pod's server; the Job makes up the name of the client's pod."""
    labels = (pod.metadata and pod.metadata.labels) or {}
    return CLIENT if labels.get(ROLE) == CLIENT else _full_name(pod).removeprefix(f"{naming.prefix}-")


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
