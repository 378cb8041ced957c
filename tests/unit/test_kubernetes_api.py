# SPDX-License-Identifier: Apache-2.0
"""What is asked of an API server that is played: leases, nodes in use, refusals, rehearsals, teardowns."""

import contextlib
import datetime
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.client import V1Job, V1ObjectMeta, V1Pod, V1ResourceQuota
from kubernetes.client.exceptions import ApiException
from tpcsweep.configuration.loading import load
from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.testbeds import Request, TeardownError
from tpcsweep.testbeds.kubernetes import api, leases, objects, rehearsal, state, testbed
from tpcsweep.testbeds.kubernetes import session as module
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, explain_error
from tpcsweep.testbeds.kubernetes.faults import OCCUPIED, unscheduled
from tpcsweep.testbeds.kubernetes.metadata import MANAGED, Naming
from tpcsweep.testbeds.kubernetes.session import Session, SessionError
from tpcsweep.testbeds.kubernetes.watch import OccupiedError

from tests.support.played_api import PlayedApi
from tests.support.testbeds import kubernetes
from tests.support.workflow import ROOT, wait_until

OURS, THEIRS = "aaaaaa", "bbbbbb"
DAY = 86400.0
JOB = V1Job(metadata=V1ObjectMeta(name="tpc-aaaaaa", uid="uid-of-the-job"))


@pytest.fixture
def cluster(server: PlayedApi) -> Cluster:
    return server.cluster()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that are renewed all the time, by requests that nobody waits for long."""
    for name, value in {"RENEWAL": 0.02, "POLL": 0.02, "TIMEOUT": (5.0, 0.2)}.items():
        monkeypatch.setattr(leases, name, value)


def held_by(identifier: str, cluster: Cluster, *says: Any) -> Any:
    return leases.first_free(cluster, [["a"]], Naming(identifier, "a sweep", "rtt=20"), *says)


def lease_of(identifier: str, renewed: float, name: str = "a", **metadata: object) -> dict[str, Any]:
    """A Lease whose holder is dead, renewed for the last time at a time in seconds since 1970."""
    at = datetime.datetime.fromtimestamp(renewed, datetime.UTC).isoformat(timespec="microseconds")
    spec = {"holderIdentity": identifier, "leaseDurationSeconds": 30, "acquireTime": at, "renewTime": at}
    return {"metadata": {"name": name, "labels": MANAGED, **metadata}, "spec": spec}


def renewed_again(server: PlayedApi) -> None:
    """Wait for two renewals: the first may have been under way already."""
    version = server.version("leases", "a")
    wait_until(lambda: server.version("leases", "a") >= version + 2, "the Lease is renewed")


def lease(server: PlayedApi) -> dict[str, Any]:
    present = server.get("leases", "a")
    assert present is not None
    return present


def owners(server: PlayedApi) -> list[str]:
    return [owner["uid"] for owner in lease(server)["metadata"].get("ownerReferences") or []]


@pytest.mark.usefixtures("fast")
def test_a_renewal_whose_answer_is_lost_was_our_own(server: PlayedApi, cluster: Cluster) -> None:
    with held_by(OURS, cluster) as held:
        for _ in range(2):
            before = server.version("leases", "a")
            with server.without(server.answers):
                wait_until(lambda known=before: server.version("leases", "a") > known, "a renewal arrives")
                asked = len(server.asked)
                wait_until(lambda known=asked: len(server.asked) > known, "it was given up and comes again")
            renewed_again(server)
            assert held.lost() is None
    assert server.get("leases", "a") is None


@pytest.mark.usefixtures("fast")
def test_a_stall_takes_no_lease(server: PlayedApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(ahead=0.0)
    skipping = SimpleNamespace(monotonic=lambda: time.monotonic() + clock.ahead, sleep=time.sleep)
    monkeypatch.setattr(leases, "time", skipping)
    waits, taken = threading.Event(), threading.Event()

    def wait() -> None:
        with held_by(THEIRS, server.cluster(), lambda _: waits.set()):
            taken.set()

    with ThreadPoolExecutor(1) as pool:
        with held_by(OURS, cluster) as held:
            waiting = pool.submit(wait)
            assert waits.wait(60)
            with server.without(server.takes):
                clock.ahead += DAY  # longer than a Lease lasts
                assert held.lost() is None
            renewed_again(server)
            assert held.lost() is None
            assert not taken.is_set()
        waiting.result(60)
        assert taken.is_set()


def test_a_stale_lease_is_taken_at_first_sight(server: PlayedApi, cluster: Cluster) -> None:
    server.put("leases", lease_of(THEIRS, time.time() - leases.STALE + 60))
    with pytest.raises(leases.NodesInUseError, match=f"^the nodes are in use: {THEIRS}: "):
        held_by(OURS, cluster).__enter__()
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "tpc-bbbbbb", "uid": "uid-of-another"}
    server.put("leases", lease_of(THEIRS, time.time() - leases.STALE - 60, ownerReferences=[job]))
    with held_by(OURS, cluster):
        assert leases.holders(cluster) == {OURS}
        assert owners(server) == []  # it does not go with the Job of the dead
        renewed = datetime.datetime.fromisoformat(lease(server)["spec"]["renewTime"]).timestamp()
        assert abs(renewed - time.time()) < 60
    assert server.get("leases", "a") is None


def test_who_takes_a_lease_removes_stale_ones(server: PlayedApi, cluster: Cluster) -> None:
    """The Lease of a trial that was killed has a name of its own: nobody else would ever take it over."""
    for name, silent in (("b", leases.STALE + 60), ("c", leases.STALE - 60)):
        server.put("leases", lease_of(THEIRS, time.time() - silent, name))
    with held_by(OURS, cluster):
        assert [bool(server.get("leases", name)) for name in "abc"] == [True, False, True]


def test_a_stale_lease_is_reaped_at_first_sight(server: PlayedApi, cluster: Cluster) -> None:
    server.put("leases", lease_of(THEIRS, time.time() - leases.STALE - 60))
    assert [words.partition(":")[0] for words in leases.reap(cluster)] == [THEIRS]
    assert sum(verb == "GET" for verb, _ in server.asked) == 1
    assert server.get("leases", "a") is None


@pytest.mark.usefixtures("fast")
def test_who_has_taken_a_lease_is_said(server: PlayedApi, cluster: Cluster) -> None:
    with held_by(OURS, cluster) as held:
        server.put("leases", lease_of(THEIRS, time.time()))
        wait_until(held.lost, "it is noticed")
        assert held.lost() == "Lease a was deleted, or taken over by another deployment"
    assert leases.holders(cluster) == {THEIRS}  # what is not ours stays
    server.remove("leases", "a")
    with held_by(OURS, cluster) as held:
        server.remove("leases", "a")
        wait_until(held.lost, "it is noticed")
        assert held.lost()


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("touched", [False, True])
def test_a_lease_goes_with_the_job(server: PlayedApi, cluster: Cluster, touched: bool) -> None:
    with held_by(OURS, cluster) as held:
        assert owners(server) == []
        for job, expected in ((JOB, ["uid-of-the-job"]), (None, [])):
            if touched:
                server.put("leases", lease(server))
            held.go_with(job)
            assert owners(server) == expected
            renewed_again(server)
            assert owners(server) == expected
        assert held.lost() is None


NAMING = Naming("aaaaaa", "a sweep", "rtt=20")
SETTINGS = kubernetes()
SAID = (
    "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) didn't match Pod's node "
    "affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful.",
    "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
)
"""What the scheduler of Kubernetes 1.34 says of a node that others have: by a pod's own rule, by that of others."""


def waiting(message: str) -> V1Pod:
    """A pod that the scheduler has not placed."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    content = {
        "metadata": {"name": "tpc-aaaaaa-src1", "uid": "u"},
        "spec": {"containers": [{"name": "servers"}]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    return V1Pod.model_validate(content)


def test_nodes_that_others_use_are_told_by_the_scheduler_from_other_reasons() -> None:
    affinity = "didn't match Pod's node affinity/selector"
    others = f"1 Insufficient cpu, 2 node(s) {affinity}.", "3 node(s) didn't match pod affinity rules.", ""
    assert all(OCCUPIED in unscheduled(waiting(message)) for message in SAID)
    assert not any(OCCUPIED in unscheduled(waiting(message)) for message in others)
    assert unscheduled(V1Pod()) == ""


def test_waiting_for_nodes_in_use_holds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log, stages = list[str](), list[str]()
    in_use = [True, True, False]

    @contextlib.contextmanager
    def placed(_settings: object, _request: object, turn: int) -> Iterator[Any]:
        log.append(f"placed {turn}")
        try:
            yield SimpleNamespace(naming=NAMING)
        finally:
            log.append(f"given back {turn}")

    @contextlib.contextmanager
    def running(*_: object) -> Iterator[str]:
        if in_use.pop(0):
            raise OccupiedError("0/3 nodes are available")
        yield "pods"
        log.append("torn down")

    monkeypatch.setattr(testbed, "placed", placed)
    monkeypatch.setattr(testbed, "running", running)
    monkeypatch.setattr(testbed, "LET_GO_SECONDS", 0.0)
    monkeypatch.setattr(testbed.signals, "heed", lambda: log.append("heeded"))
    wanted = DeploymentParameters(rtt=20, bandwidth=1, mtu=1500)
    request = Request("a sweep", "rtt=20", wanted, [], 60, tmp_path, stages.append)
    with testbed.standing(SETTINGS, request) as (_, pods):
        assert pods == "pods"
        log.append("up")
    assert log == [
        *("placed 0", "given back 0", "heeded"),
        *("placed 1", "given back 1", "heeded"),
        *("placed 2", "up", "torn down", "given back 2"),
    ]
    said = "waiting for nodes that other deployments use: 0/3 nodes are available"
    assert stages == ["deploying rtt=20", said]


def test_no_pod_is_made_to_see_whether_nodes_can_be_kept_from_all_namespaces(server: PlayedApi) -> None:
    assert rehearsal.within_quota(server.cluster(), SETTINGS, NAMING).everywhere
    assert [verb for verb, _ in server.asked] == ["POST"]
    assert server.get("pods", "tpc-aaaaaa") is None
    # What keeps pods from being made at all is raised.
    for status in (403, 404):
        server.refuse = lambda *_, status=status: status
        with pytest.raises(RefusedError, match="refused"):
            rehearsal.within_quota(server.cluster(), SETTINGS, NAMING)


FORBIDDEN = (
    'pods "tpc-0a1b2c" is forbidden: User "jane" cannot get resource "pods/exec" in API group "" '
    'in the namespace "sweeps"'
)
LACKS = r"jane lacks the right to get pods/exec in namespace sweeps \(403\)"


def told(server: PlayedApi, *answers: int) -> str:
    """Why the hub cannot be asked anything of a server that gives these answers, and then refuses for ever."""
    server.words = FORBIDDEN
    rest = iter(answers)
    server.refuse = lambda *_: next(rest, 403)
    talk = Session(server.cluster(), "tpc-0a1b2c", 3600.0, lambda _: None)
    with pytest.raises(SessionError) as raised:
        talk.ask("clock")
    talk.close()
    return str(raised.value)


def test_a_right_that_is_lacking_ends_a_conversation_soon_and_is_told_in_one_line(
    server: PlayedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.1)
    assert re.fullmatch(rf"tpc-0a1b2c is out of reach for \d+ s: {LACKS}", told(server))
    assert server.asked[0][1].startswith("/api/v1/namespaces/default/pods/tpc-0a1b2c/exec?")


def test_a_server_that_is_starting_is_waited_for(server: PlayedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(module, "PAUSE", 0.01)
    assert re.search(LACKS, told(server, 403, 503, 503, 503))
    assert len(server.asked) == 6  # what is refused is asked once more


@pytest.mark.parametrize(
    "why",
    [
        "minimum memory usage per Container is 1Gi, but request is 32Mi",
        "maximum cpu usage per Pod is 500m, but limit is 2250m",
    ],
)
def test_what_a_limit_range_refuses_is_told_with_what_to_change(why: str) -> None:
    words = f'pods "tpc-1-src1" is forbidden: {why}'
    error = ApiException(
        status=403, reason="Forbidden", body=json.dumps({"reason": "Forbidden", "message": words})
    )
    told = f'pods "tpc-1-src1": {why} (a LimitRange of the namespace): change `resources`'
    assert explain_error(error).startswith(told)


def test_a_missing_kubeconfig_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPCSWEEP_KUBECONFIG", str(tmp_path / "nowhere"))
    names = r"\$TPCSWEEP_KUBECONFIG names .*nowhere, which does not exist: correct"
    with pytest.raises(ClusterError, match=names):
        api.connect_cluster(kubernetes())
    for name in ("TPCSWEEP_KUBECONFIG", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ClusterError, match=r"there is no ~/\.kube/config, and this is not a pod"):
        api.connect_cluster(kubernetes())


def test_the_rights_that_are_asked_for_are_those_of_the_shipped_role() -> None:
    rules = list(yaml.safe_load_all(Path(ROOT, "config/kubernetes/rbac.yaml").read_text()))[1]["rules"]
    parts = ("apiGroups", "resources", "verbs")
    granted = {right for rule in rules for right in itertools.product(*(rule[part] for part in parts))}
    asked = {(*of, verb) for of, verbs in rehearsal.RIGHTS.items() for verb in verbs.split()}
    assert granted - asked == {("", "pods/exec", "create")}  # from Kubernetes 1.35 on
    assert asked <= granted


def test_each_distinct_pod_is_rehearsed_once_and_quotas_are_held_to_the_largest_deployment() -> None:
    study = load({"sweep": "local", "testbed": "local"}, ROOT)
    pairs = study.testbed.pairs  # type: ignore[union-attr]
    names = [name for name, _ in rehearsal.distinct_jobs(study, pairs)]
    # One client; two values of cores on two pairs of nodes, whose sources are one.
    assert names.count("pod client") == 1
    assert len({name for name in names if name.startswith("pod src1")}) == 2
    asked = rehearsal.usage(job for _, job in rehearsal.distinct_jobs(study, pairs[:1]))
    assert asked["pods"] == 5
    quota = V1ResourceQuota.model_validate(
        {"status": {"hard": {"pods": "5", "limits.memory": "1Gi", "services": "0"}, "used": {"pods": "1"}}}
    )
    pods, memory = rehearsal.exceeded(quota, asked)
    assert pods == "pods: 5 asked, 1 of 5 used"
    assert memory.startswith("limits.memory: ")


def test_objects_that_are_printed_are_whole() -> None:
    made = testbed.manifests(load({"sweep": "local", "testbed": "local"}, ROOT))
    assert {each["kind"] for each in made} == {"Job"}
    assert all(each["spec"]["template"]["spec"]["containers"] for each in made)


@pytest.fixture
def secrets(server: PlayedApi) -> None:
    for of in objects.SECRETS:
        server.put("secrets", {"metadata": {"name": f"tpc-aaaaaa-{of}"}})


def asked_of_secrets(server: PlayedApi) -> list[tuple[str, str]]:
    return [(verb, address.partition("?")[2]) for verb, address in server.asked if "/secrets" in address]


@pytest.mark.usefixtures("secrets")
def test_secrets_are_waited_for_and_neither_seen_nor_deleted(server: PlayedApi) -> None:
    with ThreadPoolExecutor(1) as pool:
        torn_down = pool.submit(state.teardown, server.cluster(), "aaaaaa")
        wait_until(lambda: len(asked_of_secrets(server)) > 2, "Secrets are looked for more than once")
        assert not torn_down.done()
        for of in objects.SECRETS:
            server.remove("secrets", f"tpc-aaaaaa-{of}")
        assert torn_down.result(60) == []
    assert set(asked_of_secrets(server)) == {("POST", "dryRun=All")}


@pytest.mark.usefixtures("secrets")
def test_secrets_that_stay_are_named(server: PlayedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "GONE_SECONDS", 0.2)
    server.remove("secrets", "tpc-aaaaaa-servers")
    words = "aaaaaa is not gone: secret tpc-aaaaaa-client is still there: .* with its Job$"
    with pytest.raises(TeardownError, match=words):
        state.teardown(server.cluster(), "aaaaaa")


@pytest.mark.usefixtures("secrets")
def test_a_quota_that_keeps_it_from_being_known_keeps_no_teardown_from_ending(server: PlayedApi) -> None:
    server.refuse = lambda _, path, __: 403 if path.endswith("/secrets") else None
    assert state.teardown(server.cluster(), "aaaaaa") == []


def test_no_right_of_the_role_shows_a_secret() -> None:
    """Whoever may delete Secrets, one or many, is answered with what would be deleted in a dry run."""
    documents = yaml.safe_load_all((ROOT / "config/kubernetes/rbac.yaml").read_text())
    rules = [rule for document in documents for rule in document.get("rules", [])]
    assert [rule["verbs"] for rule in rules if {"secrets", "*"} & set(rule["resources"])] == [["create"]]
