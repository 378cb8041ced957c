# SPDX-License-Identifier: Apache-2.0
"""A sweep in a namespace with rules, by a testbed file alone, and how soon it is told that a rule is broken."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.testbeds.kubernetes.pod_templates import merged

from tests.cluster import local
from tests.cluster.sweeps import ONE, SOON, Space, local_testbed, recipe, restricted, space, wait_for
from tests.support.testbeds import pods, selecting

RULES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ruled}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  validations:
    - {expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: label team is missing}
    - expression: "object.spec.securityContext.runAsUser >= 1000700000"
      message: runAsUser must be at least 1000700000
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ruled}
spec:
  policyName: ruled
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ruled}}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: sizes, namespace: ruled}
spec: {limits: [{type: Container, min: {cpu: 20m, memory: 64Mi}, max: {cpu: 2, memory: 4Gi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: share, namespace: ruled}
spec: {hard: {pods: 4, requests.cpu: 1, limits.memory: 8Gi}}
"""
RECIPE = recipe("rules")
DRY = "create", "--namespace=ruled", "--dry-run=server", "--filename=-"


@pytest.fixture(scope="module")
def ruled(here: local.Cluster) -> Iterator[Space]:
    with space(here.kubeconfig, "ruled") as made:
        here.kubectl("apply", "-f", "-", input=RULES)
        try:
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": restricted("i")}

            def in_force() -> bool:
                try:
                    here.kubectl(*DRY, input=json.dumps(pod))
                except local.ClusterError as error:
                    return "team" in str(error)
                return False

            wait_for(in_force, "the rules are in force")
            yield made
        finally:
            here.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "ruled")


def ruled_testbed(namespace: Space, **changes: Any) -> dict[str, Any]:
    return local_testbed(namespace.name, **{**RECIPE, **changes})


def test_a_testbed_file_takes_a_sweep_through_the_rules_of_a_namespace(ruled: Space, tmp_path: Path) -> None:
    sweep = ruled.sweep(tmp_path, ruled_testbed(ruled), parameters={**ONE, "cores": 0.5, "streams": [1, 2]})
    for cell in sweep.measure():
        templates = cell["provenance"]["kubernetes"]["templates"]
        assert set(templates) == {"client", "src", "dst"}
        for template in templates.values():
            assert template["metadata"]["labels"]["team"] == "storage"
            assert template["spec"]["securityContext"]["runAsUser"] == 1000700000
    ruled.check_empty()


def checked(ruled: Space, folder: Path, **changes: Any) -> tuple[int, dict[str, set[tuple[str, str]]]]:
    """The exit code of `tpcsweep check`, and the statuses and reasons of each check."""
    sweep = ruled.sweep(folder, ruled_testbed(ruled, **changes), parameters={**ONE, "cores": 0.5})
    done = subprocess.run(sweep.asking("check", "--json"), capture_output=True, text=True, check=False)
    found: dict[str, set[tuple[str, str]]] = {}
    for row in json.loads(done.stdout)["findings"]:
        found.setdefault(row["check"], set()).add((row["status"], row["reason"]))
    ruled.check_empty()
    return done.returncode, found


def test_a_check_asks_the_cluster_for_each_need_of_a_sweep(ruled: Space, tmp_path: Path) -> None:
    code, found = checked(ruled, tmp_path)
    statuses = {name: {status for status, _ in rows} for name, rows in found.items()}
    needs = ("cluster", "clock", "rights", "policies", "quota", "nodes", "image")
    assert statuses == {need: {"ok"} for need in needs}
    assert code == 0
    code, found = checked(
        ruled, tmp_path, source=selecting({"rack": "none"}), server=merged(RECIPE["server"], UNLABELLED)
    )
    assert ("failed", "no node has the labels kubernetes.io/hostname=n1,rack=none") in found["nodes"]
    assert all("label team is missing" in why for status, why in found["policies"] if status == "failed")
    assert {status for status, _ in found["policies"]} == {"ok", "failed"}
    assert code == 1


def test_a_cluster_accepts_what_check_prints(here: local.Cluster, ruled: Space, tmp_path: Path) -> None:
    sweep = ruled.sweep(tmp_path, ruled_testbed(ruled), parameters={**ONE, "cores": 0.5})
    printed = subprocess.run(sweep.asking("check", "--print"), capture_output=True, text=True, check=True)
    said = here.kubectl(*DRY, input=printed.stdout)
    assert len(re.findall(r"^job\.batch/tpc-\S+ created", said, re.MULTILINE)) == 3


UNLABELLED = {"podTemplate": {"metadata": {"labels": {"team": None}}}}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "limit range": ({"memory": "5 GiB"}, r"pod src1 .*maximum memory usage per Container is 4Gi"),
    "no node": (
        {"client": merged(RECIPE["client"], pods(nodeSelector={"rack": "none"}))},
        r"Unschedulable: 0/3 nodes are available: .*affinity",
    ),
    # Each pod alone is within the quota, so that no dry run is refused.
    "quota": (
        {"memory": "3 GiB"},
        r"; 2 not measured \(.*FailedCreate: .*exceeded quota: share, requested: .*limits\.memory",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_forbidden_pod_is_reported_at_once_and_once(name: str, ruled: Space, tmp_path: Path) -> None:
    changes, words = BROKEN[name]
    parameters = {**ONE, "cores": 0.5, "streams": [1, 2]}
    sweep = ruled.sweep(tmp_path, ruled_testbed(ruled, **changes), parameters=parameters)
    began = time.monotonic()
    done = sweep.run("cells")
    took = time.monotonic() - began
    assert done.returncode != 0
    assert len(re.findall(words, done.stdout)) == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert "replacing" not in done.stdout
    assert took < SOON, took
    ruled.check_empty()
