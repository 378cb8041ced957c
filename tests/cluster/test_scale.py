# SPDX-License-Identifier: Apache-2.0
"""More deployments at a time than nodes have room for: all of what is real without what is in the pods.

As in a sweep, every deployment has an API client of its own, with the rights of a user; that each is a thread rather
than a process is what it takes to have so many on one machine.
"""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.common import signals
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.testbeds.interface import Request
from tpcsweep.testbeds.kubernetes import api, testbed, watch
from tpcsweep.testbeds.kubernetes.metadata import DEPLOYMENT, SELECTOR, SIDE, node_name
from tpcsweep.testbeds.kubernetes.pod_templates import node_selector
from tpcsweep.testbeds.kubernetes.settings import Kubernetes
from tpcsweep.testbeds.kubernetes.watch import PodError

from tests.cluster import local, sweeps
from tests.cluster.local.settings import GROUP
from tests.cluster.sweeps import Space, account, wait_for
from tests.support.testbeds import kubernetes, pods, selecting
from tests.support.workflow import wait_until

LONGEST = 3 * sweeps.LONGEST
"""Seconds for dozens of deployments at a time, on a machine that has much else to do."""
NODES = int(os.environ.get("TPCSWEEP_NODES", "200"))
"""TPCSWEEP_NODES=1000 has a hundred deployments at a time, and takes minutes."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PAIRS = NODES // GROUP // 2
OWNERS = PAIRS + PAIRS // 10
FAILING = max(2, OWNERS // 20)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Cluster]:
    """Of its own, and gone before anybody measures: a thousand nodes need some CPU even to do nothing."""
    with local.control_plane(tmp_path_factory.mktemp("nodes")) as started:
        started.play_nodes(NODES)
        yield started


@pytest.fixture
def own(nodes: local.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Space]:
    """A namespace with a user in it: an API server makes everybody wait but admins."""
    for name in ("ignore_signals", "restore_signals"):  # only the first thread of a process may
        monkeypatch.setattr(signals, name, lambda: None)
    with account(nodes.kubeconfig, f"scale-{secrets.token_hex(3)}", tmp_path) as made:
        monkeypatch.setenv("TPCSWEEP_KUBECONFIG", str(made.kubeconfig))
        yield made


def settings(own: Space, **changes: Any) -> Kubernetes:
    """Every pair has two groups of nodes of its own."""
    on = [selecting({"group": f"g{group}"}) for group in range(2 * PAIRS)]
    pairs = [{"rtt": 20, "source": on[at], "destination": on[at + 1]} for at in range(0, 2 * PAIRS, 2)]
    return kubernetes(**{"namespace": own.name, "paths": {"kind": "nodes", "pairs": pairs}, **changes})


def requested(number: int, folder: Path, stages: list[str], origins: int = 1, **more: Any) -> Request:
    wanted = DeploymentParameters(rtt=20, bandwidth=1, mtu=1500, origins=origins)
    return Request("a sweep", f"n={number}", wanted, [], 60, folder, stages.append, **more)


@dataclass
class Deployment:
    """One deployment from its start to its end, and what was seen of it."""

    settings: Kubernetes
    number: int
    folder: Path
    stages: list[str] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    identifier: str = ""
    sides: dict[str, str] = field(default_factory=dict)
    """Labels of the nodes of both sides, where pairs are groups of nodes."""

    def run(self, up: Callable[[], None] = lambda: None) -> None:
        """Deploy, call `up`, and tear down, as a sweep does."""
        origins = 1 + (self.number % 10 == 0)
        request = requested(self.number, self.folder, self.stages, origins, preferred_place=self.number)
        began = time.monotonic()

        def saw(what: str) -> None:
            self.requests[what] = count() - sum(self.requests.values())
            self.seconds[what] = time.monotonic() - began - sum(self.seconds.values())

        cluster = api.connect_cluster(self.settings)
        count = sweeps.count_requests(cluster)
        with testbed.running_pods(cluster, self.settings, request) as pods:
            self.identifier = pods.naming.identifier
            if self.settings.paths.pairs != "all":
                ends = {"src": pods.pair.source, "dst": pods.pair.destination}
                self.sides = {side: node_selector(end.podTemplate)["group"] for side, end in ends.items()}
            saw("running")
            up()
            assert pods.watch.fault() is None
            saw("up")
        saw("torn down")


def test_more_at_a_time_than_there_is_room_for(own: Space, tmp_path: Path) -> None:
    usual, greedy = settings(own), settings(own, memory="512 GiB", start_time="40 s")
    alone = Deployment(usual, 0, tmp_path)
    alone.run()
    everybody = [Deployment(usual, number, tmp_path) for number in range(OWNERS)]
    failing = [Deployment(greedy, OWNERS + number, tmp_path) for number in range(FAILING)]
    up: list[Deployment] = []
    full = threading.Event()
    leave = threading.Event(), threading.Event()

    def stay(one: Deployment) -> None:
        up.append(one)
        if len(up) == PAIRS:
            full.set()
        assert leave[one.number % 2].wait(LONGEST)

    with ThreadPoolExecutor(OWNERS + FAILING) as pool, contextlib.ExitStack() as undo:
        for event in leave:
            undo.callback(event.set)
        failed = [pool.submit(one.run) for one in failing]
        # Otherwise they may wait for nodes until the others leave.
        wait_for(lambda: len(own.left().get("jobs", [])) >= FAILING, "they have nodes", LONGEST)
        even, odd = (
            [pool.submit(one.run, partial(stay, one)) for one in everybody[parity::2]] for parity in (0, 1)
        )
        # Those that cannot be scheduled say why, and nobody else is the worse for it.
        available = f"0/{NODES} nodes are available: .*Insufficient mem"
        words = rf"^not running after 40 s: pods? .*: Unschedulable: {available}"
        for one in failed:
            with pytest.raises(PodError, match=words):
                one.result(LONGEST)
        assert full.wait(LONGEST), raised([*even, *odd])
        first = check_pods(own, up[:PAIRS])
        assert len({group for one in up[:PAIRS] for group in one.sides.values()}) == 2 * PAIRS
        # Half of them go, and those who waited come.
        leave[0].set()
        wait(even, LONGEST)
        stayed = {one.identifier for one in up[:PAIRS] if one.number % 2}
        now = check_pods(own, up)
        assert {uid for uid, of in first.items() if of in stayed} <= set(now)
        leave[1].set()
    assert raised([*even, *odd]) == []
    own.check_empty()
    # Each has asked the API server for little more than one that is alone, and has said little.
    for each in everybody:
        for what in ("running", "up", "torn down"):
            looks = 3 * each.seconds[what]
            assert each.requests[what] < alone.requests[what] + looks + 10
        assert max(map(len, each.stages), default=0) < 300
        assert not any("what is left" in stage for stage in each.stages)


def test_all_nodes_make_pairs_and_each_deployment_gets_one_of_its_own(own: Space, tmp_path: Path) -> None:
    """As many deployments at a time as there is room for with PAIRS of explicit groups, on pairs of all nodes."""
    every = selecting({"type": "kwok"})
    each = {"rtt": 20, "source": every, "destination": every}
    found = settings(own, paths={"kind": "nodes", "pairs": "all", "each": each})
    own.allow_listing_nodes()
    everybody = [Deployment(found, number, tmp_path) for number in range(OWNERS)]
    full, leave = threading.Barrier(OWNERS + 1, timeout=LONGEST), threading.Event()

    def stay() -> None:
        full.wait()
        assert leave.wait(LONGEST)

    with ThreadPoolExecutor(OWNERS) as pool, contextlib.ExitStack() as undo:
        undo.callback(leave.set)
        all_up = [pool.submit(one.run, stay) for one in everybody]
        with contextlib.suppress(threading.BrokenBarrierError):
            full.wait()
        assert raised(all_up) == []
        on: dict[str, set[str]] = {}
        for pod in own.core.list_namespaced_pod(own.name, label_selector=SELECTOR).items:
            on.setdefault(node_name(pod), set()).add(pod.metadata.labels[DEPLOYMENT])
        assert [node for node, of in on.items() if len(of) > 1] == []
        assert len(on) == 2 * OWNERS  # with its client beside the source each has two
        leave.set()
    assert raised(all_up) == []
    own.check_empty()


def test_a_node_that_two_users_call_by_two_names_has_one_deployment_at_a_time(
    nodes: local.Cluster, own: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two namespaces; the source of one is the destination of the other: each may have what the other waits for."""
    monkeypatch.setattr(watch, "HOLD_SECONDS", 3.0)
    monkeypatch.setattr(testbed, "LET_GO_SECONDS", 1.0)
    named = [selecting({"kubernetes.io/hostname": node}) for node in ("k0", "k1")]
    names = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]} for node in ("k1", "k0")]
    terms = [{"nodeSelectorTerms": [{"matchExpressions": [name]}]} for name in names]
    chosen = [pods(affinity={"nodeAffinity": {REQUIRED: each}}) for each in terms]
    up: dict[str, set[str]] = {}
    overlaps: list[tuple[str, str]] = []
    stages: list[str] = []
    first = threading.Event()
    blocked = "waiting for nodes that other deployments use: "

    def deploy(user: Space, placements: list[dict[str, Any]]) -> None:
        pair = {"rtt": 20, "source": placements[0], "destination": placements[1]}
        paths = {"kind": "nodes", "pairs": [pair]}
        agreed = {"context": user.name, "exclusive_group": "dtn"}
        given = settings(user, paths=paths, client=placements[0], **agreed)
        for number in range(3):
            asked = requested(number, tmp_path, stages)
            with testbed.running_pods(api.connect_cluster(given), given, asked) as made:
                ours = {node_name(pod) for pod in made.by_name.values()}
                overlaps.extend((name, user.name) for name, theirs in list(up.items()) if theirs & ours)
                up[made.naming.identifier] = ours
                if not first.is_set():
                    first.set()
                    wait_until(lambda: any(blocked in stage for stage in stages), "one waits", LONGEST)
                time.sleep(1)
                del up[made.naming.identifier]

    with account(nodes.kubeconfig, f"scale-{secrets.token_hex(3)}", tmp_path) as another:
        monkeypatch.setenv("TPCSWEEP_KUBECONFIG", f"{own.kubeconfig}:{another.kubeconfig}")
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(deploy, own, named)]
            wait_until(lambda: first.is_set() or both[0].done(), "one is up", LONGEST)
            both.append(pool.submit(deploy, another, chosen))
            wait(both, LONGEST)
        assert raised(both) == []
        assert overlaps == []
        own.check_empty()
        another.check_empty()


def test_a_quota_that_forbids_to_name_other_namespaces_is_named(own: Space, tmp_path: Path) -> None:
    across = {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
    spec = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [across]}}
    own.core.create_namespaced_resource_quota(own.name, {"metadata": {"name": "none"}, "spec": spec})
    read = partial(own.core.read_namespaced_resource_quota, "none", own.name)
    wait_for(lambda: read().status.hard, "it counts")
    given, agreed = settings(own), settings(own, exclusive_group="dtn")
    asked = requested(1, tmp_path, [])
    with (
        pytest.raises(PodError, match="exceeded quota: none"),
        testbed.running_pods(api.connect_cluster(agreed), agreed, asked),
    ):
        pass
    with testbed.running_pods(api.connect_cluster(given), given, asked):
        pass  # which names its own namespace alone
    own.check_empty()


def check_pods(own: Space, of: list[Deployment]) -> dict[str, str]:
    """All pods run, at addresses of their own, on nodes of the pair; whose each uid is."""
    groups = {node.metadata.name: node.metadata.labels["group"] for node in own.core.list_node().items}
    found = own.core.list_namespaced_pod(own.name, label_selector=SELECTOR).items
    known = {one.identifier: one for one in of}
    pods = [pod for pod in found if pod.metadata.labels[DEPLOYMENT] in known]
    assert {pod.status.phase for pod in pods} == {"Running"}
    assert len({pod.status.pod_ip for pod in pods}) == len(pods)
    for pod in pods:
        if side := pod.metadata.labels.get(SIDE):
            assert groups[pod.spec.node_name] == known[pod.metadata.labels[DEPLOYMENT]].sides[side]
    return {pod.metadata.uid: pod.metadata.labels[DEPLOYMENT] for pod in pods}


def raised(futures: list[Future[None]]) -> list[str]:
    return [repr(error) for one in futures if one.done() and (error := one.exception())]
