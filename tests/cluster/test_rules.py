# SPDX-License-Identifier: Apache-2.0
"""A sweep in a namespace with rules, by a testbed file alone, and how soon it is told that a rule is broken."""

import dataclasses
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tpcsweep.testbeds.kubernetes import testbed
from tpcsweep.testbeds.kubernetes.api import ClusterError
from tpcsweep.testbeds.kubernetes.metadata import DEPLOYMENT, MANAGED
from tpcsweep.testbeds.kubernetes.pod_templates import merged
from tpcsweep.testbeds.loading import load

from tests.cluster import local
from tests.cluster.local import build
from tests.cluster.sweeps import ONE, RIGHTS, SOON, Space, local_testbed, recipe, restricted, space, wait_for
from tests.cluster.test_page import BLOCKS
from tests.support.testbeds import pods
from tests.support.workflow import ROOT

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


Rows = dict[str, dict[str, tuple[str, str]]]


def checked(of: Space, folder: Path, settings: dict[str, Any], **content: Any) -> tuple[int, str, Rows]:
    """The exit code of `tpcsweep check`, its last line, and status and reason of each check by its subject."""
    sweep = of.sweep(folder, settings, **{"parameters": {**ONE, "cores": 0.5}, **content})
    done = subprocess.run(sweep.asking("check", "--json"), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found: Rows = {}
    for row in json.loads(done.stdout)["findings"]:
        found.setdefault(row["check"], {})[row["subject"]] = row["status"], row["reason"]
    of.check_empty()
    return done.returncode, done.stderr, found


def statuses(found: Rows) -> dict[str, set[str]]:
    return {check: {status for status, _ in rows.values()} for check, rows in found.items()}


CHECKS = ("configuration", "context", "clock", "rights", "quotas and limits", "policies")
CHECKS += ("images", "pods", "kernel settings", "servers")
CLIENT, SOURCE, DESTINATION = "pair 0 client", "pair 0 source, origin 1", "pair 0 destination, origin 1"


def test_a_check_looks_at_each_need_of_a_sweep_in_order(ruled: Space, tmp_path: Path) -> None:
    code, _, found = checked(ruled, tmp_path, ruled_testbed(ruled))
    assert statuses(found) == {check: {"ok"} for check in CHECKS}, found
    assert tuple(found) == CHECKS
    assert set(found["pods"]) == {CLIENT, SOURCE, DESTINATION}
    assert code == 0


def test_a_check_goes_on_after_a_refusal(ruled: Space, tmp_path: Path) -> None:
    changes = {"server": merged(RECIPE["server"], UNLABELLED), "image": "localhost/nothing:1"}
    code, _, found = checked(ruled, tmp_path, ruled_testbed(ruled, **changes))
    for server in (SOURCE, DESTINATION):
        status, why = found["policies"][server]
        assert status == "failed" and "label team is missing" in why
        assert found["images"][server][0] == found["servers"][server][0] == "skipped"
    assert found["policies"][CLIENT][0] == found["policies"]["ConfigMap"][0] == "ok"
    status, why = found["images"][CLIENT]
    assert status == "failed" and "ErrImageNeverPull: image localhost/nothing:1" in why
    assert found["pods"][CLIENT] == ("skipped", "images failed")
    assert code == 1


def test_a_node_in_use_is_not_looked_at_and_nothing_is_said_of_its_image(
    namespace: Space, tmp_path: Path
) -> None:
    labels = {**MANAGED, DEPLOYMENT: "0123456789"}
    spec = restricted(build.PAUSE) | {"nodeSelector": {"kubernetes.io/hostname": "n2"}}
    body = {"metadata": {"name": "held", "labels": labels}, "spec": spec}
    namespace.core.create_namespaced_pod(namespace.name, body)
    try:
        wait_for(lambda: "held" in namespace.pods(), "its node is in use")
        settings = local_testbed(namespace.name, image="localhost/nothing:1")
        sweep = namespace.sweep(tmp_path, settings, parameters={**ONE, "rtt": "20 ms"})
        done = subprocess.run(sweep.asking("check", "--json"), capture_output=True, text=True, check=False)
    finally:
        namespace.core.delete_namespaced_pod("held", namespace.name, grace_period_seconds=0)
    rows = json.loads(done.stdout)["findings"]
    [client] = [row for row in rows if "client" in row["subject"] and row["check"] == "images"]
    assert client["status"] == "skipped" and "other deployments use its nodes" in client["reason"]
    servers = [row for row in rows if "origin" in row["subject"] and row["check"] == "images"]
    assert {row["status"] for row in servers} == {"failed"}
    namespace.check_empty()


TEAM = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: team}
spec: {hard: {requests.cpu: "2", requests.memory: 2Gi, limits.cpu: "6", limits.memory: 8Gi, pods: "9", configmaps: "9"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: team, namespace: team}
spec: {limits: [{type: Container, max: {cpu: "2", memory: 2Gi}, min: {cpu: 10m, memory: 16Mi}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: default-deny, namespace: team}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
"""


@pytest.fixture
def team(here: local.Cluster, tmp_path: Path) -> Iterator[Space]:
    """A namespace as a team gets it: restricted, with quota, limits, a policy and a tainted node.

    Its account has the shipped Role, and its kubeconfig is made as the page says.
    """
    kubectl = tmp_path / "bin/kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(f'#!/bin/sh\nexec {here.program} kubectl "$@"\n')
    kubectl.chmod(0o755)
    (command,) = BLOCKS["The ServiceAccount's kubeconfig"]
    searched = {"PATH": f"{kubectl.parent}:{os.environ['PATH']}", "KUBECONFIG": str(here.kubeconfig)}
    with space(here.kubeconfig, "team") as made:
        here.kubectl("apply", "--namespace=team", "-f", "-", input=RIGHTS.read_text())
        here.kubectl("apply", "-f", "-", input=TEAM)
        typed = command.replace("NAMESPACE", "team")
        subprocess.run(["bash", "-euc", typed], env=os.environ | searched, cwd=tmp_path, check=True)
        file = tmp_path / "account.kubeconfig"
        assert list(yaml.safe_load(file.read_text())["users"][0]["user"]) == ["token"]  # the account's alone
        here.kubectl("taint", "node", "n3", "dedicated=dtn:NoSchedule")
        try:
            yield dataclasses.replace(made, kubeconfig=file)
        finally:
            here.kubectl("taint", "node", "n3", "dedicated-")


def test_a_first_sweep_in_a_namespace_with_rules_takes_one_check_and_one_edit(
    team: Space, tmp_path: Path
) -> None:
    sweep = {"parameters": {**ONE, "cores": 0.5, "rtt": "20 ms"}}
    wrong = local_testbed(team.name, qos="guaranteed", memory="4 GiB", congestion_controls=["illinois"])
    code, _, found = checked(team, tmp_path, wrong, **sweep)
    assert code == 1
    assert found["rights"]["team"] == ("ok", "")
    assert "requests.memory: " in found["quotas and limits"]["quota team"][1]
    assert "maximum memory usage per Container is 2Gi" in found["policies"]["pair 1 source, origin 1"][1]
    # The rest is seen with small resources.
    assert "untolerated taint" in found["pods"]["pair 1 destination, origin 1"][1]
    assert "name the nodes' own one first" in found["kernel settings"]["pair 1 source, origin 1"][1]
    tolerations = [{"key": "dedicated", "operator": "Equal", "value": "dtn", "effect": "NoSchedule"}]
    right = local_testbed(team.name, server=pods(tolerations=tolerations))  # which is small and burstable
    code, _, found = checked(team, tmp_path, right, **sweep)
    assert code == 0 and statuses(found) == {check: {"ok"} for check in CHECKS}, found
    team.sweep(tmp_path, right, **sweep).measure()
    team.check_empty()


LABELS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: labels}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}
      - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
      - {apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [networkpolicies]}
  validations:
    - expression: "has(object.metadata.labels) && 'team' in object.metadata.labels"
      message: every object needs the label team
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: labels}
spec:
  policyName: labels
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: labelled}}}
"""


@pytest.fixture
def labelled(control_plane: local.Cluster) -> Iterator[Space]:
    with space(control_plane.kubeconfig, "labelled") as made:
        yield made


def test_labels_of_the_testbed_satisfy_a_rule_for_every_object(
    control_plane: local.Cluster, labelled: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPCSWEEP_KUBECONFIG", str(labelled.kubeconfig))

    def rehearse(**changes: Any) -> None:
        sweep = labelled.sweep(tmp_path, local_testbed(labelled.name, **changes), parameters=ONE)
        files = {"sweep": f"{tmp_path}/{sweep.name}.yaml", "testbed": f"{tmp_path}/local.yaml"}
        testbed.rehearse(load(files, ROOT))

    rehearse()
    control_plane.kubectl("apply", "-f", "-", input=LABELS)
    try:

        def refused() -> str:
            try:
                rehearse()
            except ClusterError as error:
                return str(error)
            return ""

        wait_for(refused, "the rule is in force")
        why = refused()
        assert why.count("every object needs the label team") < 5  # once for objects of a kind
        for subject in ("ConfigMap", "NetworkPolicy", "pair 0 client", "pair 0 source, origin 1"):
            assert subject in why
        rehearse(metadata={"labels": {"team": "storage"}})
    finally:
        control_plane.kubectl(
            "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "labels"
        )


def test_a_cluster_accepts_what_check_prints(here: local.Cluster, ruled: Space, tmp_path: Path) -> None:
    sweep = ruled.sweep(tmp_path, ruled_testbed(ruled), parameters={**ONE, "cores": 0.5})
    printed = subprocess.run(sweep.asking("check", "--print"), capture_output=True, text=True, check=True)
    said = here.kubectl(*DRY, input=printed.stdout)
    assert len(re.findall(r"^job\.batch/tpc-\S+ created", said, re.MULTILINE)) == 3


UNLABELLED = {"podTemplate": {"metadata": {"labels": {"team": None}}}}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "limit range": (
        {"memory": "5 GiB"},
        r"pair 0 source, origin 1, pair 0 destination, origin 1: .*maximum memory usage per Container is 4Gi",
    ),
    "no node": (
        {"client": merged(RECIPE["client"], pods(nodeSelector={"rack": "none"}))},
        r"Unschedulable: 0/3 nodes are available: .*affinity",
    ),
    # Each pod alone is within the quota, so that no dry run is refused.
    "quota": ({"memory": "3 GiB"}, r"quota share: limits\.memory: \d+ asked, 0 of 8Gi used"),
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
