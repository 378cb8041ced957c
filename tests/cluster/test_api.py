# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes testbed's use of the API, against a real API server without nodes."""

import datetime
import json
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from tpcsweep.deploying.xrootd import credentials
from tpcsweep.testbeds.kubernetes import api, deployments
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError
from tpcsweep.testbeds.kubernetes.metadata import Naming, selector
from tpcsweep.testbeds.kubernetes.watch import PodError, PodWatch
from urllib3.exceptions import ProtocolError

from tests.cluster import local
from tests.cluster.sweeps import Space, count_requests, rights, shipped_rights, space, wait_for
from tests.support.testbeds import kubernetes

LONG = 60.0  # seconds for what takes a moment, on a machine that has much else to do


CERTIFICATE = {"client-certificate": "user.pem", "client-key": "user.key"}


def connected(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> Cluster:
    monkeypatch.setenv("TPCSWEEP_KUBECONFIG", str(kubeconfig))
    return api.connect_cluster(kubernetes(**given))


@pytest.fixture
def cluster(control_plane: local.Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    found = connected(control_plane.kubeconfig, monkeypatch, namespace=f"test-{secrets.token_hex(3)}")
    with space(control_plane.kubeconfig, found.namespace, security="privileged"):
        yield found


def naming(identifier: str) -> Naming:
    return Naming(identifier, "a sweep", "rtt=20")


def meta(identifier: str, name: str, role: str = "origin") -> client.V1ObjectMeta:
    return naming(identifier).meta(f"tpc-{identifier}{name}", role=role, side="src")


def pod(identifier: str, name: str = "-src1", **spec: Any) -> client.V1Pod:
    needs = client.V1ResourceRequirements(requests={"cpu": "2", "memory": "1Gi"})
    xrootd = client.V1Container(name="xrootd", image="registry.example/tpcsweep:1", resources=needs)
    content = client.V1PodSpec(containers=[xrootd], restart_policy="Never", **spec)
    return client.V1Pod(metadata=meta(identifier, name), spec=content)


def job(identifier: str) -> client.V1Job:
    about = naming(identifier).meta("", role="client")
    template = client.V1PodTemplateSpec(metadata=about, spec=pod(identifier).spec)
    spec = client.V1JobSpec(backoff_limit=0, template=template)
    return client.V1Job(metadata=meta(identifier, "", "client"), spec=spec)


def deploy(cluster: Cluster, identifier: str) -> None:
    """One object of each kind; the Job owns the others, but for a pod."""
    owner = api.create_object(cluster, job(identifier))
    api.create_object(cluster, pod(identifier))
    owned = naming(identifier).meta(f"tpc-{identifier}", owner)
    api.create_object(cluster, client.V1ConfigMap(metadata=owned, data={"key": "value"}))
    policy = client.V1NetworkPolicySpec(pod_selector=client.V1LabelSelector(), policy_types=["Ingress"])
    api.create_object(cluster, client.V1NetworkPolicy(metadata=owned, spec=policy))


def remains(cluster: Cluster, identifier: str) -> list[str]:
    """What is there of a deployment."""
    found = Space(cluster.namespace, Path(), cluster.core, cluster.http).objects(selector(identifier))
    return [f"{what}: {item.metadata.name}" for what, items in found.items() for item in items]


# Finding a cluster


@pytest.mark.parametrize("text", ["", "words", "apiVersion: v1\nkind: Config\n", "a: [", "contexts: [{}]"])
def test_a_file_that_is_no_kubeconfig(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    with pytest.raises(ClusterError, match="is no usable kubeconfig") as raised:
        connected(tmp_path / "kubeconfig", monkeypatch)
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates that have expired: of an authority, and of a user with his key."""
    folder = tmp_path_factory.mktemp("credentials") / "expired"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credentials, "VALID", -datetime.timedelta(minutes=1))
        credentials.create_credentials(folder, (), (0, 0))
    return folder


@pytest.mark.parametrize(
    ("authority", "user", "message"),
    [
        ("ca.pem", {}, "certificate is not trusted"),
        ("", {"token": "nonsense"}, r"does not accept the credentials \(401\)[^;]*$"),
        ("", CERTIFICATE, r"does not accept the credentials \(401\)"),
    ],
    ids=["not trusted", "token", "expired certificate"],
)
def test_a_kubeconfig_that_leads_nowhere_is_explained(
    control_plane: local.Cluster,
    expired: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    authority: str,
    user: dict[str, Any],
    message: str,
) -> None:
    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    if authority:
        server = content["clusters"][0]["cluster"]["server"]
        content["clusters"][0]["cluster"] = {"server": server, "certificate-authority": authority}
    content["users"][0]["user"] = user or content["users"][0]["user"]
    (expired / "kubeconfig").write_text(yaml.safe_dump(content))
    began = time.monotonic()
    with pytest.raises(ClusterError, match=message):
        connected(expired / "kubeconfig", monkeypatch)
    assert time.monotonic() - began < api.PATIENCE
    assert capfd.readouterr().err == ""


# Calling it


def test_the_shipped_rights_are_within_the_built_in_role_edit(control_plane: local.Cluster) -> None:
    assert shipped_rights()

    def within() -> bool:
        edit = json.loads(control_plane.kubectl("get", "clusterrole", "edit", "-o", "json"))
        return shipped_rights() <= rights(edit["rules"])

    wait_for(within)  # a controller puts it together from others


def test_a_missing_namespace_is_named(control_plane: local.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = connected(control_plane.kubeconfig, monkeypatch, namespace="nowhere")
    with pytest.raises(RefusedError, match='namespaces "nowhere" not found'):
        api.create_object(nowhere, pod("aaaaaa"))


def test_creation_whose_answer_is_lost(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_answer(cluster, monkeypatch)
    api.create_object(cluster, client.V1ConfigMap(metadata=meta("aaaaaa", ""), data={}))
    assert remains(cluster, "aaaaaa") == ["config maps: tpc-aaaaaa"]
    lose_answer(cluster, monkeypatch)
    made = api.create_object(cluster, job("aaaaaa"))
    assert made.metadata and made.metadata.uid


# Teardown


def test_teardown_removes_everything_of_one_deployment(cluster: Cluster) -> None:
    for identifier in ("aaaaaa", "bbbbbb"):
        deploy(cluster, identifier)
    wait_for(lambda: len(remains(cluster, "aaaaaa")) == 5)  # the Job's pod
    count = count_requests(cluster)
    assert deployments.teardown(cluster, "aaaaaa") == []
    assert count() < 40
    wait_for(lambda: remains(cluster, "aaaaaa") == [])
    assert len(remains(cluster, "bbbbbb")) == 5
    cluster.batch.delete_namespaced_job("tpc-bbbbbb", cluster.namespace, propagation_policy="Background")
    deployments.teardown(cluster, "bbbbbb")  # half of which was gone
    wait_for(lambda: remains(cluster, "bbbbbb") == [])
    assert deployments.teardown(cluster, "cccccc") == []


def test_what_remains_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "GONE_SECONDS", 5.0)
    stays = pod("aaaaaa")
    stays.metadata.finalizers = ["example.com/stay"]
    api.create_object(cluster, stays)
    api.create_object(cluster, pod("aaaaaa", "-src2"))
    words = "aaaaaa is not gone: pod tpc-aaaaaa-src1 .* is still there, kept by finalizers example.com/stay"
    with pytest.raises(deployments.TeardownError, match=words):
        deployments.teardown(cluster, "aaaaaa")
    assert remains(cluster, "aaaaaa") == ["pods: tpc-aaaaaa-src1"]
    free: dict[str, Any] = {"metadata": {"finalizers": None}}
    cluster.core.patch_namespaced_pod("tpc-aaaaaa-src1", cluster.namespace, free)


# Faults


@pytest.fixture
def watch(cluster: Cluster) -> Iterator[PodWatch]:
    found = PodWatch(cluster, naming("aaaaaa"))
    yield found
    began = time.monotonic()
    found.close()
    assert time.monotonic() - began < LONG / 2  # a watch lasts twice as long


def test_a_deleted_pod_is_noticed(cluster: Cluster, watch: PodWatch) -> None:
    api.create_object(cluster, pod("aaaaaa"))
    api.create_object(cluster, pod("bbbbbb"))
    assert watch.wait_for(lambda pods: set(pods) == {"tpc-aaaaaa-src1"}, LONG)
    time.sleep(1)
    assert watch.fault() is None  # that it cannot be scheduled is none yet
    count = count_requests(cluster)
    cluster.core.delete_namespaced_pod("tpc-aaaaaa-src1", cluster.namespace)
    assert watch.wait_for(lambda pods: not pods, LONG)
    assert (watch.fault() or "").startswith("pod tpc-aaaaaa-src1: Deleted: by another process or user; it ")
    assert count() <= 4


def test_a_suspended_job_is_named_while_its_pod_is_waited_for(cluster: Cluster) -> None:
    """As Kueue suspends Jobs that it has not admitted, and Jobs without a queue for good."""
    stages: list[str] = []
    suspended = job("aaaaaa")
    suspended.spec.suspend = True
    api.create_object(cluster, suspended)
    watch = PodWatch(cluster, naming("aaaaaa"), tell=stages.append)
    try:
        with pytest.raises(PodError, match=r"^Job tpc-aaaaaa is suspended: it names no queue"):
            watch.wait_until_ready(1, 12)
    finally:
        watch.close()
    assert [stage.startswith("waiting: Job tpc-aaaaaa is suspended") for stage in stages] == [True]


def test_unschedulable_pods_are_explained_when_the_time_is_over(cluster: Cluster, watch: PodWatch) -> None:
    for name in ("-src1", "-src2"):
        api.create_object(cluster, pod("aaaaaa", name, node_selector={"site": "nowhere"}))
    words = (
        r"not running after 3 s: pods tpc-aaaaaa-src1, tpc-aaaaaa-src2: Unschedulable: .*; "
        r"1 of 3 pods do not exist"
    )
    with pytest.raises(PodError, match=words):
        watch.wait_until_ready(3, 3)


def test_pods_that_run_and_then_fail(cluster: Cluster, watch: PodWatch) -> None:
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
    running = {"phase": "Running", "conditions": conditions, "containerStatuses": [container(running={})]}
    for name in ("-src1", "-dst1"):
        api.create_object(cluster, pod("aaaaaa", name, node_name="nowhere"))
        report(cluster, name, running)
    assert set(watch.wait_until_ready(2, LONG)) == {"tpc-aaaaaa-src1", "tpc-aaaaaa-dst1"}
    assert watch.fault() is None
    ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": None, "finishedAt": None}
    report(cluster, "-dst1", {"phase": "Failed", "containerStatuses": [container(terminated=ended)]})
    wait_for(watch.fault)
    report(cluster, "-src1", {"phase": "Failed", "reason": "Evicted", "message": "too late to be the first"})
    assert watch.fault() == (
        "pod tpc-aaaaaa-dst1: OOMKilled: container xrootd ended with exit code 137, its memory limit is none "
        "(node nowhere)"
    )


# Restarts of the API server, last: its controllers are slow to come back


def test_calls_survive_a_restart(cluster: Cluster, control_plane: local.Cluster, capfd: Any) -> None:
    with ThreadPoolExecutor(9) as pool:
        restart = pool.submit(control_plane.restart_api_server, 2.0)

        def make(thread: int) -> int:
            number = 0
            while not restart.done():
                api.create_object(
                    cluster, client.V1ConfigMap(metadata=meta("aaaaaa", f"-{thread}-{number}"), data={})
                )
                number += 1
                time.sleep(0.05)
            return number

        made = sum(pool.map(make, range(8)))
    found = api.call(lambda: cluster.core.list_namespaced_config_map(cluster.namespace))
    assert sum(item.metadata.name.startswith("tpc-") for item in found.items) == made
    assert capfd.readouterr().err == ""


def test_the_watch_survives_a_restart(
    cluster: Cluster, watch: PodWatch, control_plane: local.Cluster
) -> None:
    api.create_object(cluster, pod("aaaaaa"))
    assert watch.wait_for(lambda pods: len(pods) == 1, LONG)
    control_plane.restart_api_server()
    api.create_object(cluster, pod("aaaaaa", "-dst1"))
    assert watch.wait_for(lambda pods: len(pods) == 2, LONG)
    assert watch.fault() is None
    cluster.core.delete_namespaced_pod("tpc-aaaaaa-src1", cluster.namespace)
    assert watch.wait_for(lambda pods: set(pods) == {"tpc-aaaaaa-dst1"}, LONG)
    assert "Deleted" in (watch.fault() or "")


# What the tests above need


def container(**status: Any) -> dict[str, Any]:
    common = {"name": "xrootd", "image": "", "imageID": "", "restartCount": 0}
    return {**common, "ready": "running" in status, "state": status}


def report(cluster: Cluster, name: str, status: dict[str, Any]) -> None:
    """What a kubelet would say of a pod."""
    cluster.core.patch_namespaced_pod_status(f"tpc-aaaaaa{name}", cluster.namespace, {"status": status})


def lose_answer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the connection drop after the next request has arrived."""

    def call_api(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        type(cluster.http).call_api(cluster.http, *args, **kwargs).read()
        raise ProtocolError("Connection aborted.")

    monkeypatch.setattr(cluster.http, "call_api", call_api)
