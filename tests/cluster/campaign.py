# SPDX-License-Identifier: Apache-2.0
"""The campaign on a cluster of this machine: deployments in pods, next to pods, Jobs and Secrets of others.

    make campaign-cluster [MINUTES=30 | ITERATIONS=60] [SEED=1]        as root, with Go

It prints each iteration and ends with a table by fault (docs/faults.md). It exits with 1 if it counted anything.
"""

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import psutil
import yaml
from kubernetes.client import ApiException, V1Pod
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.kubernetes.metadata import CELLS, DEPLOYMENT, OWNER, SELECTOR, SWEEP, object_name
from tpcsweep.testbeds.kubernetes.objects import FINISHED_SECONDS
from tpcsweep.testbeds.kubernetes.pod import pod_files
from tpcsweep.testbeds.loading import load

from tests.cluster import local
from tests.cluster.local import groups
from tests.cluster.others import THEIRS, others
from tests.cluster.relay import Relay
from tests.cluster.sweeps import ONE, RIGHTS, ClusterSweep, Space, account, local_testbed
from tests.support.campaign import Fault, Pace, Run, filled, lasting, main, signalled, stopped
from tests.support.workflow import ROOT

START = 60.0  # seconds that pods have to start
ORPHAN = 60.0  # seconds after which the cluster removes what nobody comes for any more
COLLECTED = 40.0  # seconds that its controllers take for that, after the time that an ended Job stays
POLL = 0.2  # seconds between looks: the API server has others to answer
OURS = f"{SELECTOR},{DEPLOYMENT}!={THEIRS}"  # the labels of what sweeps deploy here
NODES = "n1", "n2"
KINDS = "configmap", "networkpolicy"  # which a deployment has in addition to its Job and its pods


class Pods:
    # The trial of the image comes before deploying.
    pace = Pace(deploying=20.0, cell=4.0, goes=START + ORPHAN + FINISHED_SECONDS + COLLECTED, hangs=900.0)

    def __init__(self, cluster: local.Cluster, space: Space, relay: Relay) -> None:
        """`space` is where sweeps deploy, and `relay` their way to its server."""
        self._cluster = cluster
        self._space = space
        self._relay = relay
        self.parameters = ONE
        self.changing = "tcp_buffer", "1 MiB", "2 MiB"
        self.faults = (
            Fault("a process of a pod is killed", "kill", partial(self._signalled, signal.SIGKILL)),
            Fault("a process of a pod crashes", "kill", partial(self._signalled, signal.SIGSEGV)),
            Fault("a pod is deleted", "kill", self._pod_deleted),
            Fault("a pod is evicted", "kill", self._pod_evicted),
            Fault("all pods are deleted", "kill", self._pods_deleted),
            Fault("the Job is deleted", "kill", self._job_deleted),
            Fault("a node goes and comes back", "kill", self._node_away),
            Fault("the API server restarts", "kill", self._server_restarted),
            Fault("the API server is stopped", "stop", self._server_stopped),
            Fault("the API server does not answer the run", "stop", self._server_stalled),
            Fault("a container is stopped", "stop", self._container_stopped),
            Fault("the destination has no room", "fill", self._destination_full),
            Fault("the path is cut for a moment", "cut", self._cut_for_a_moment),
            Fault("the path is cut", "cut", self._cut),
            Fault("a node's link is cut", "cut", self._link_cut),
            Fault("rights are missing for a moment", "cut", self._without_rights),
            Fault("another object of the deployment is deleted", "corrupt", self._object_deleted),
            Fault("the deployment does not say whose it is", "corrupt", self._owner_forgotten),
        )

    def sweep(self, folder: Path) -> ClusterSweep:
        times = {"start_time": f"{START:g} s", "orphan_time": f"{ORPHAN:g} s"}
        settings = local_testbed(self._space.name, memory="256 MiB", **times)
        (folder / "local.yaml").write_text(yaml.safe_dump(settings))
        return ClusterSweep(folder, "campaign", kubeconfig=self._relay.kubeconfig)

    def configuration(self, sweep: ClusterSweep) -> SweepStudy:
        files = {"sweep": f"{sweep.name}.yaml", "results": "results", "testbed": "local.yaml"}
        return load({key: str(sweep.folder / name) for key, name in files.items()}, ROOT)

    def up(self) -> bool:
        time.sleep(POLL)
        return bool(self._pods())

    def present(self) -> dict[str, set[str]]:
        time.sleep(POLL)
        found = self._space.objects(OURS)
        names = {what: {item.metadata.name for item in items} for what, items in found.items()}
        of_nodes = {f"{node} {pod}" for node in NODES for pod in self._groups(node)}
        return {**names, "groups": of_nodes, "networks": self._networks()}

    def bystanders(self) -> AbstractContextManager[Callable[[], list[str]]]:
        return others(self._cluster.kubeconfig, self._space)

    def _groups(self, node: str) -> set[str]:
        """The control groups of pods on a node: of the others' pods none has this class of service."""
        roots = groups.hierarchies()
        return {path.name for root in roots for path in root.glob(f"{self._burstable(node)}/pod*")}

    def _burstable(self, node: str) -> str:
        return f"{self._cluster.settings.group}/{node}/kubepods/burstable"

    def _networks(self) -> set[str]:
        """The networks of pods beyond as many as there are pods, by their number: their names do not say whose."""
        made = [name for name in self._cluster.enter(["ls", "/run/netns"]).split() if name.startswith("cni-")]
        pods = self._space.core.list_pod_for_all_namespaces().items
        return {f"number {number + 1}" for number in range(len(pods), len(made))}

    # What is done to pods

    def _pods(self, labels: str = "") -> list[V1Pod]:
        listed = self._space.core.list_namespaced_pod(self._space.name, label_selector=f"{OURS}{labels}")
        return sorted(listed.items, key=object_name)

    def _pod(self, run: Run, labels: str = "") -> V1Pod:
        pods = self._pods(labels)
        if not pods:
            raise FileNotFoundError  # which a campaign takes for a fault that came too late
        pod = run.random.choice(pods)
        run.done += f": {object_name(pod)}"
        return pod

    def _processes(self, pod: V1Pod, container: str = "") -> list[psutil.Process]:
        """Those of a pod or of one of its containers: they are this machine's."""
        group = f"{self._burstable(pod.spec.node_name)}/pod{pod.metadata.uid}"
        found = []
        for pid in sorted(groups.pids(f"{group}/{container}")):
            with contextlib.suppress(psutil.Error):
                found.append(psutil.Process(pid))
        return found

    def _signalled(self, number: signal.Signals, run: Run) -> None:
        if processes := self._processes(self._pod(run)):
            process = run.random.choice(processes)
            run.done += f" {' '.join(process.cmdline()[:4])[-60:]}"
            signalled(process, number)

    def _container_stopped(self, run: Run) -> None:
        pod = self._pod(run)
        if statuses := pod.status.container_statuses:
            status = run.random.choice(statuses)
            run.done += f" {status.name}"
            stopped(run, *self._processes(pod, (status.container_id or "").rpartition("/")[2]))

    def _pod_deleted(self, run: Run) -> None:
        pod, how = self._pod(run), run.random.choice(([], ["--grace-period=0", "--force"]))
        run.done += " by force" if how else ""
        self._delete("pod", object_name(pod), *how)

    def _pods_deleted(self, _: Run) -> None:
        self._delete("pod", f"--selector={OURS}", "--grace-period=0", "--force")

    def _pod_evicted(self, run: Run) -> None:
        name = object_name(self._pod(run))
        with contextlib.suppress(ApiException):  # it has gone meanwhile
            body = {"metadata": {"name": name}}
            self._space.core.create_namespaced_pod_eviction(name, self._space.name, body)

    def _destination_full(self, run: Run) -> None:
        for process in self._processes(self._pod(run, ",tpcsweep/role=origin,tpcsweep/side=dst")):
            folder = Path(f"/proc/{process.pid}/root{pod_files.FILES}")
            if folder.is_mount():  # not so in the container that only keeps the pod's network
                filled(run, folder)
                return

    # What is done to other objects

    def _delete(self, *what: str) -> None:
        self._kubectl("delete", *what, "--wait=false", "--ignore-not-found")

    def _job_deleted(self, run: Run) -> None:
        how = run.random.choice(("background", "foreground", "orphan"))
        run.done += f": {how}"
        self._delete("job", f"--selector={OURS}", f"--cascade={how}")

    def _object_deleted(self, run: Run) -> None:
        kind = run.random.choice(KINDS)
        run.done += f": {kind}"
        self._delete(kind, f"--selector={OURS}")

    def _owner_forgotten(self, _: Run) -> None:
        notes = [f"{note}-" for note in (SWEEP, CELLS, OWNER)]
        self._kubectl("annotate", f"job,pod,{','.join(KINDS)}", f"--selector={OURS}", *notes)

    def _without_rights(self, run: Run) -> None:
        self._delete("rolebinding", "tpcsweep")
        try:
            time.sleep(lasting(run, 0.3, 3.0, 20.0))
        finally:
            self._kubectl("apply", f"--filename={RIGHTS}")

    def _kubectl(self, verb: str, *words: str) -> None:
        self._cluster.kubectl(verb, f"--namespace={self._space.name}", *words)

    # What is done to the cluster

    def _node_away(self, run: Run) -> None:
        node = run.random.choice(NODES)
        run.done += f": {node}"
        seconds = lasting(run, 1.0, 10.0, 25.0)
        self._cluster.stop_kubelet(node, pods=True)
        try:
            time.sleep(seconds)
        finally:
            self._cluster.start_kubelet(node)
            self._until_whole()

    def _until_whole(self) -> None:
        ready = "--for=condition=Ready", "--timeout=300s"
        self._cluster.kubectl("wait", "node", "--all", *ready, timeout=400.0)

    def _server_restarted(self, run: Run) -> None:
        self._cluster.restart_api_server(lasting(run, 0.0, 3.0, 10.0))
        self._until_whole()

    def _server_stopped(self, run: Run) -> None:
        """For everybody: its nodes may be taken for gone then."""
        programs = map(psutil.Process, groups.pids(f"{self._cluster.settings.group}/{groups.WORLD}"))
        stopped(run, *(each for each in programs if "kube-apiserver" in each.cmdline()[1:2]))
        self._until_whole()

    def _server_stalled(self, run: Run) -> None:
        with self._relay.stalled():
            time.sleep(lasting(run, 1.0, 10.0, 25.0, 45.0))

    @contextlib.contextmanager
    def _without(self, *packets: str) -> Iterator[None]:
        """Have some packets go nowhere where all go by, for the length of a `with`."""
        with contextlib.ExitStack() as undo:
            for each in packets:
                rule = ["priority", "1", *each.split(), "blackhole"]
                self._cluster.enter(["ip", "rule", "add", *rule])
                undo.callback(self._cluster.enter, ["ip", "rule", "delete", *rule])
            yield

    def _path_cut(self) -> AbstractContextManager[None]:
        source, destination = (node.pods for node in self._cluster.nodes[:2])
        return self._without(f"from {source} to {destination}", f"from {destination} to {source}")

    def _cut_for_a_moment(self, run: Run) -> None:
        with self._path_cut():
            time.sleep(lasting(run, 0.3, 1.0, 3.0))

    def _cut(self, run: Run) -> None:
        """As long as the run lasts, or so long that it must have noticed."""
        over = time.monotonic() + lasting(run, 60.0)
        with self._path_cut():
            while not run.ended and time.monotonic() < over:
                time.sleep(POLL)

    def _link_cut(self, run: Run) -> None:
        node = run.random.choice(self._cluster.nodes[:2])
        run.done += f": {node.name}"
        with self._without(f"from {node.pods}", f"to {node.pods}", f"to {node.address}"):
            time.sleep(lasting(run, 0.3, 3.0, 10.0, 25.0))
        self._until_whole()


@contextlib.contextmanager
def pods(folder: Path) -> Iterator[Pods]:
    groups.sweep()  # what a killed one has left
    with (
        local.cluster(folder / "cluster") as cluster,
        account(cluster.kubeconfig, "tpcsweep-campaign", folder) as space,
        Relay(space.kubeconfig, folder) as relay,
    ):
        yield Pods(cluster, space, relay)


if __name__ == "__main__":
    sys.exit(main(__doc__, pods))
