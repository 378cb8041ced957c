# SPDX-License-Identifier: Apache-2.0
"""A testbed that says of its paths, its namespace or its image what is not so: what a sweep makes of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from tpcsweep.configuration.kubernetes import Kubernetes
from tpcsweep.testbeds.kubernetes import api, testbed
from tpcsweep.testbeds.kubernetes.api import ClusterError

from tests.cluster import local
from tests.cluster.sweeps import ACCOUNT, LONGEST, ONE, RATE, Space, local_testbed, space, with_token
from tests.support.workflow import ROOT, wait_until

CELL = {**ONE, "streams": 2}
FASTER = 1.25 * RATE
"""What a testbed's file says of links that have a fifth less."""
LONG = 300.0
"""Seconds, `start_time` of tests that must not wait for it."""


@pytest.fixture(scope="module")
def namespace(cluster: local.Cluster) -> Iterator[Space]:
    """On the local cluster only, whose links are known."""
    with space(cluster.kubeconfig, "tpcsweep-paths") as made:
        yield made


def test_a_slower_path_is_measured_on_and_its_cells_say_so(namespace: Space, tmp_path: Path) -> None:
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name, bandwidth=FASTER), parameters=CELL)
    done = sweep.run("cells")
    assert done.returncode == 0, done.stdout
    [cell] = sweep.records()
    assert cell["status"] == "ok", cell["message"]
    assert "path_slow" in cell["flags"]
    assert cell["summary"]["bandwidth_found"] == pytest.approx(RATE, rel=0.05)
    assert namespace.left() == {}


def test_a_strict_testbed_refuses_a_slower_path(namespace: Space, tmp_path: Path) -> None:
    settings = local_testbed(namespace.name, bandwidth=FASTER, path="strict")
    done = namespace.sweep(tmp_path, settings, parameters=CELL).run("cells")
    assert done.returncode != 0
    assert re.search(rf"asked {FASTER:g} Gbit/s, found 0\.[12]\d* Gbit/s, allowed -5%", done.stdout), (
        done.stdout
    )
    assert namespace.left() == {}


# What is wrong with a whole testbed, before the first deployment


@pytest.fixture
def settings(namespace: Space, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Of a testbed that is as it should be, with all the time to start."""
    monkeypatch.setenv("TPCSWEEP_KUBECONFIG", str(namespace.kubeconfig))
    return local_testbed(namespace.name, start_time=LONG)


def tried(settings: dict[str, Any]) -> None:
    testbed.require(Kubernetes.model_validate(settings))


def test_a_trial_leaves_nothing(namespace: Space, settings: dict[str, Any]) -> None:
    tried(settings)
    assert namespace.left() == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": "localhost/nowhere:1"}, r"ErrImageNeverPull: image localhost/nowhere:1.*correct `image`"),
        (
            {"image": "127.0.0.1:1/nowhere:1", "pull_policy": "Always"},
            r"(ErrImagePull|ImagePullBackOff): image 127.0.0.1:1/nowhere:1.*correct `image`",
        ),
        ({"namespace": "nowhere"}, r"there is no namespace nowhere: kubectl create namespace nowhere"),
        ({"context": "nowhere"}, r"has no context nowhere; it has "),
    ],
    ids=["no such image", "no such registry", "no such namespace", "no such context"],
)
def test_what_no_deployment_could_do_without_is_named_at_once(
    changes: dict[str, Any], message: str, namespace: Space, settings: dict[str, Any]
) -> None:
    began = time.monotonic()
    with pytest.raises(ClusterError, match=message):
        tried({**settings, **changes})
    assert time.monotonic() - began < LONG / 2
    assert namespace.left() == {}


def test_a_right_that_is_lacking_is_named(
    namespace: Space, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods of Jobs are made by the cluster: the right to make one is asked for by itself."""
    connect = api.connect

    def impersonating(given: Kubernetes) -> Any:
        cluster = connect(given)
        cluster.http.set_default_header("Impersonate-User", "somebody")
        return cluster

    rules = [
        client.V1PolicyRule(api_groups=["coordination.k8s.io"], resources=["leases"], verbs=["*"]),
        client.V1PolicyRule(api_groups=["batch"], resources=["jobs"], verbs=["*"]),
    ]
    rights = client.RbacAuthorizationV1Api(namespace.api)
    meta = client.V1ObjectMeta(name="somebody")
    rights.create_namespaced_role(namespace.name, client.V1Role(metadata=meta, rules=rules))
    bound = client.V1RoleBinding(
        metadata=meta,
        role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="somebody"),
        subjects=[client.RbacV1Subject(kind="User", name="somebody")],
    )
    rights.create_namespaced_role_binding(namespace.name, bound)
    monkeypatch.setattr(api, "connect", impersonating)
    with pytest.raises(ClusterError, match=r"somebody lacks the right to create pods .*rbac.yaml"):
        tried(settings)
    assert namespace.left() == {}


@pytest.mark.parametrize(
    ("resource", "verb"),
    [
        ("pods/exec", "get"),
        ("pods", "patch"),
        ("secrets", "create"),
        ("configmaps", "create"),
        ("networkpolicies", "create"),
    ],
)
def test_a_right_that_only_deployments_use_is_named_before_the_first(
    cluster: local.Cluster,
    namespace: Space,
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    resource: str,
    verb: str,
) -> None:
    """The shipped Role has it; here it is taken away."""
    documents = list(yaml.safe_load_all((ROOT / "config/kubernetes/rbac.yaml").read_text()))
    [rules] = [document["rules"] for document in documents if "rules" in document]
    for rule in rules:
        if resource in rule["resources"]:
            rule["verbs"].remove(verb)
    rules[:] = [rule for rule in rules if rule["verbs"]]  # one without a verb is refused
    inside = f"--namespace={namespace.name}"
    cluster.kubectl("apply", inside, "--filename=-", input=yaml.safe_dump_all(documents))
    user = f"system:serviceaccount:{namespace.name}:{ACCOUNT}"
    name, _, part = resource.partition("/")
    of_part = [f"--subresource={part}"] if part else []

    def refused() -> bool:
        try:
            cluster.kubectl("auth", "can-i", inside, f"--as={user}", verb, name, *of_part)
        except local.ClusterError:
            return True
        return False

    wait_until(refused, "the Role is in force", LONGEST)
    token = cluster.kubectl("create", "token", inside, ACCOUNT).strip()
    kubeconfig = with_token(cluster.kubeconfig, token, tmp_path / "kubeconfig")
    monkeypatch.setenv("TPCSWEEP_KUBECONFIG", str(kubeconfig))
    lacks = (
        rf"{user} lacks the right to {verb} {resource}\S* in namespace {namespace.name} \(403\); .*rbac.yaml"
    )
    with pytest.raises(ClusterError, match=lacks) as raised:
        tried(settings)
    assert "\n" not in str(raised.value)
    assert namespace.left() == {}


def test_a_run_whose_cluster_does_not_answer_deploys_nothing(
    cluster: local.Cluster, namespace: Space, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    text = cluster.kubeconfig.read_text()
    kubeconfig.write_text(re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:1", text))
    away = Space(namespace.name, kubeconfig, namespace.core, namespace.api)
    sweep = away.sweep(tmp_path, local_testbed(namespace.name), parameters={**CELL, "cores": [0.5, 1]})
    done = sweep.run("cells")
    assert done.returncode != 0
    assert done.stdout.count("Is it up, and can it be reached from here?") == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert "Error in rule" not in done.stdout
