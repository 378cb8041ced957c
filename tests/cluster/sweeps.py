# SPDX-License-Identifier: Apache-2.0
"""A sweep on a cluster: its testbed's file, its namespace, and what is left of it there."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, utils
from tpcsweep.testbeds.kubernetes import testbed
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError
from tpcsweep.testbeds.kubernetes.metadata import SELECTOR
from tpcsweep.testbeds.kubernetes.settings import Kubernetes

from tests.cluster import local
from tests.support.testbeds import selecting
from tests.support.workflow import ROOT, Sweep, wait_until

QUICK = {"until": "files", "files": 12, "max_time": "2 min"}
"""Two seconds of a cell. On one CPU with much else to do, a first byte may take ten."""
LASTING = {"min_time": "8 s", "max_time": "8 s"}  # time enough in a cell to break something
ONE = {"rtt": "0 ms", "file_size": "8 MiB", "tool": "curl"}
SOON = 240.0  # seconds on a busy machine, less than the five minutes for which pods may wait; idle: a few
LONGEST = 600.0  # seconds for anything on a machine that has much else to do
POLL = 0.3  # seconds between looks at a cluster, whose answers cost CPU time that the tests need
RIGHTS = ROOT / "config/kubernetes/rbac.yaml"
ACCOUNT = "tpcsweep"
DAY = 24 * 3600
RATE = local.RATE
FASTER = 1.25 * RATE  # what a testbed's file says of links that have a fifth less


def local_testbed(namespace: str, **changes: Any) -> dict[str, Any]:
    """The shipped settings for the local cluster: n1 to n2 is near, n1 to n3 is 20 ms."""
    shipped = yaml.safe_load((ROOT / "config/testbeds/local.yaml").read_text())
    usual = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()  # nodes are this machine
    return {**shipped, "namespace": namespace, "congestion_controls": [usual], **changes}


def recipe(name: str) -> dict[str, Any]:
    """A part of a testbed's file, as docs/kubernetes.md has it for clusters with rules of their own."""
    return yaml.safe_load((ROOT / f"config/kubernetes/recipes/{name}.yaml").read_text())


def wait_for(
    condition: Callable[[], object], what: str = "it has happened", seconds: float = LONGEST
) -> None:
    """Wait until a cluster says that something has happened."""
    wait_until(condition, what, seconds, POLL)


def restricted(image: str) -> dict[str, Any]:
    """The specification of a pod that the restricted standard allows."""
    contained = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "c", "image": image, "imagePullPolicy": "Never", "securityContext": contained}
    user = {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}}
    return {"containers": [container], "securityContext": user}


def on(node: str) -> dict[str, Any]:
    return selecting({"kubernetes.io/hostname": node})


@dataclass(frozen=True)
class Space:
    """A namespace of a test's own."""

    name: str
    kubeconfig: Path  # what sweeps find the cluster by
    core: client.CoreV1Api
    api: client.ApiClient

    def objects(self, labels: str = "") -> dict[str, list[Any]]:
        """What is there of the kinds that deployments consist of."""
        listings = {
            "pods": self.core.list_namespaced_pod,
            "secrets": self.core.list_namespaced_secret,
            "config maps": self.core.list_namespaced_config_map,
            "jobs": client.BatchV1Api(self.api).list_namespaced_job,
            "network policies": client.NetworkingV1Api(self.api).list_namespaced_network_policy,
        }
        return {what: listing(self.name, label_selector=labels).items for what, listing in listings.items()}

    def left(self) -> dict[str, list[str]]:
        found = self.objects(SELECTOR).items()
        return {what: [item.metadata.name for item in items] for what, items in found if items}

    def check_empty(self, seconds: float = 60) -> None:
        """The cluster collects Secrets, ConfigMaps and NetworkPolicies a moment after their Job is gone."""
        wait_for(lambda: not self.left(), "nothing is left", seconds)

    def pods(self, **having: str) -> list[str]:
        """Names of the pods that run and have these labels of ours: role, side."""
        labels = ",".join([SELECTOR, *(f"tpcsweep/{label}={value}" for label, value in having.items())])
        found = self.core.list_namespaced_pod(self.name, label_selector=labels).items
        return [pod.metadata.name for pod in found if pod.status.phase == "Running"]

    def sweep(self, folder: Path, settings: dict[str, Any], **content: Any) -> ClusterSweep:
        (folder / "local.yaml").write_text(yaml.safe_dump(settings))
        sweep = ClusterSweep(folder, kubeconfig=self.kubeconfig)
        sweep.define(**{"measurement": QUICK, "retry_share": 0, **content})
        return sweep

    def refusal(self, settings: dict[str, Any]) -> str:
        """Return why a testbed with these settings is refused before the first deployment."""
        with pytest.MonkeyPatch.context() as patch, pytest.raises(ClusterError) as raised:
            patch.setenv("TPCSWEEP_KUBECONFIG", str(self.kubeconfig))
            testbed.require(Kubernetes.model_validate(settings))
        self.check_empty()
        return str(raised.value)

    def allow_listing_nodes(self) -> None:
        text = (ROOT / "config/kubernetes/nodes.yaml").read_text()
        for document in yaml.safe_load_all(text.replace("namespace: NAMESPACE", f"namespace: {self.name}")):
            utils.create_from_dict(self.api, document)


@dataclass(frozen=True, kw_only=True)
class ClusterSweep(Sweep):
    kubeconfig: Path

    def measuring(self) -> subprocess.Popen[bytes]:
        run = self.start("cells")
        self.wait_for_cell(run)
        return run

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in self.cells()]

    def good_records(self) -> list[dict[str, Any]]:
        """The records of all cells, each of which must be ok."""
        found = self.records()
        for cell in found:
            assert cell["status"] == "ok", cell["message"]
        return found

    def measure(self) -> list[dict[str, Any]]:
        """Measure all cells, each of which must be ok, and return their records."""
        done = self.run("cells")
        assert done.returncode == 0, done.stdout
        return self.good_records()

    def wait_for_cell(self, run: subprocess.Popen[bytes], count: int = 1) -> None:
        """Wait until a started run has measured that many cells. It must not have ended by then."""
        what = f"cell {count} has ended"
        wait_until(lambda: len(self.staged()) >= count or run.poll() is not None, what, LONGEST)
        assert run.poll() is None, self.output()

    def wait_during(self, run: subprocess.Popen[bytes], condition: Callable[[], object], what: str) -> None:
        """Wait until a cluster or a run's output says something, which it must before the run has ended."""
        wait_for(lambda: condition() or run.poll() is not None, what)
        assert run.poll() is None or condition(), self.output()

    def run(self, *arguments: str, timeout: float = LONGEST) -> subprocess.CompletedProcess[str]:
        return super().run(*arguments, timeout=timeout)

    @property
    def results(self) -> Path:
        return self.folder / "results" / f"{self.name}@local"

    def command(self, *arguments: str) -> list[str]:
        found = super().command("--profile", "k8s", *arguments)
        return [*self._environment, *found, f"testbed={self.folder / 'local.yaml'}"]

    def asking(self, *arguments: str) -> list[str]:
        testbed = ("--testbed", str(self.folder / "local.yaml"))
        return [*self._environment, *super().asking(*arguments, *testbed)]

    @property
    def _environment(self) -> list[str]:
        # As in a terminal: a program that is started in the background ignores Ctrl-C.
        return ["env", "--default-signal=INT", f"TPCSWEEP_KUBECONFIG={self.kubeconfig}"]


@contextlib.contextmanager
def pod(
    cluster: local.Cluster, name: str, *command: str, namespace: str = "default"
) -> Iterator[Callable[..., str]]:
    """Run a command of the testbed's image on n1, for the length of a `with`; yields a way to run others beside it."""
    container = {
        "name": "c",
        "image": local.build.IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": {"readOnlyRootFilesystem": True},
    }
    spec = {"nodeName": "n1", "terminationGracePeriodSeconds": 1, "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    at = f"--namespace={namespace}"
    cluster.kubectl("create", at, "--filename=-", input=json.dumps(body))
    try:
        ready = ["--for=condition=Ready", "--timeout=300s"]
        cluster.kubectl("wait", at, f"pod/{name}", *ready, timeout=LONGEST)
        yield partial(cluster.kubectl, "exec", at, name, "--")
    finally:
        cluster.kubectl("delete", at, f"pod/{name}", "--wait=false")


@contextlib.contextmanager
def space(kubeconfig: Path, name: str, security: str = "restricted") -> Iterator[Space]:
    """A namespace for the length of a `with`, in which pods are held to a pod security standard."""
    api = config.new_client_from_config(str(kubeconfig))
    core = client.CoreV1Api(api)
    labels = {"pod-security.kubernetes.io/enforce": security}
    core.create_namespace({"metadata": {"name": name, "labels": labels}})
    account = "metadata.name=default"  # without it a namespace has no pods
    accounts = partial(core.list_namespaced_service_account, name, field_selector=account)
    try:
        wait_for(lambda: accounts().items, "pods may be made")
        yield Space(name, kubeconfig, core, api)
    finally:
        core.delete_namespace(name)


@contextlib.contextmanager
def account(
    kubeconfig: Path, name: str, folder: Path, built_in: str = "", without: tuple[str, str] = ("", "")
) -> Iterator[Space]:
    """A namespace with the shipped Role and its account; sweeps have a token of that and no other credentials.

    Instead of that Role the account may have one that is `built_in`. `without` is a resource and a verb that are taken
    out of the Role.
    """
    documents = list(yaml.safe_load_all(RIGHTS.read_text()))
    rules = documents[1]["rules"]
    for rule in rules:
        if without[0] in rule["resources"]:
            rule["verbs"].remove(without[1])
    rules[:] = [rule for rule in rules if rule["verbs"]]  # one without a verb is refused
    if built_in:
        documents[-1]["roleRef"] |= {"kind": "ClusterRole", "name": built_in}
    with space(kubeconfig, name) as made:
        for document in documents:
            utils.create_from_dict(made.api, document, namespace=name)
        asked: Any = {"spec": {"audiences": [], "expirationSeconds": DAY}}
        token = made.core.create_namespaced_service_account_token(ACCOUNT, name, asked)
        content = yaml.safe_load(kubeconfig.read_text())
        # Names of its own, so that kubeconfigs of several accounts can be merged.
        [context] = content["contexts"]
        context |= {"name": name, "context": {**context["context"], "user": name}}
        content["users"] = [{"name": name, "user": {"token": token.status.token}}]
        content["current-context"] = name
        file = folder / f"{name}.kubeconfig"
        file.write_text(yaml.safe_dump(content))
        reviews = client.AuthorizationV1Api(config.new_client_from_config(str(file)))

        def in_force() -> bool:
            asked = {"spec": {"namespace": name}}
            review = client.V1SelfSubjectRulesReview.model_validate(asked)
            rules = reviews.create_self_subject_rules_review(review).status.resource_rules
            return any("events" in (rule.resources or []) for rule in rules)

        wait_for(in_force, "the rights are in force")
        yield dataclasses.replace(made, kubeconfig=file)


def count_requests(cluster: Cluster) -> Callable[[], int]:
    """Count the requests to a cluster from now on."""
    made: list[None] = []
    send = cluster.http.call_api

    def call_api(*arguments: Any, **options: Any) -> Any:
        made.append(None)
        return send(*arguments, **options)

    cluster.http.call_api = call_api
    return lambda: len(made)


def shipped_rights() -> set[tuple[str, ...]]:
    return rights(list(yaml.safe_load_all(RIGHTS.read_text()))[1]["rules"])


def rights(rules: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """What rules of RBAC allow: API groups, resources and verbs."""
    parts = ("apiGroups", "resources", "verbs")
    return {right for rule in rules for right in itertools.product(*(rule.get(part, []) for part in parts))}
