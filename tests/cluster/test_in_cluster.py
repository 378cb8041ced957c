"""Sweeps under the ServiceAccount of config/kubernetes/rbac.yaml alone: from outside, and as workflow.yaml's Job.

That one from outside runs to its report is what test_sweep.py begins with.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
import yaml
from kubernetes import utils
from psutil import Process

from tests.cluster import local
from tests.cluster.reports import check_results
from tests.cluster.sweeps import LONGEST, ONE, QUICK, ClusterSweep, Space, local_testbed, space
from tests.support.image import image
from tests.support.workflow import wait_until

FILES = Path(__file__).parents[2] / "config/kubernetes"
NAME = "tpcsweep"
"""What all objects of the shipped files are called."""
POD_NAME = "authentication.kubernetes.io/pod-name"
"""Where the API server says which pod a token is bound to."""


@pytest.fixture(scope="module")
def here(kubeconfig: Path) -> local.Cluster:
    """The cluster, which must be one on this machine: images, volumes and its audit log are reached from outside."""
    try:
        return local.Cluster(kubeconfig.parent)
    except local.ClusterError:
        pytest.skip("needs a cluster on this machine")


# From outside


@pytest.fixture(scope="module")
def silent(account: Space, here: local.Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """One that has ended under the account because a node has fallen silent; before, somebody touched its Leases."""
    testbed = local_testbed(account.name, start_time="20 s")
    sweep = probe(account, tmp_path_factory.mktemp("silent"), testbed, streams=list(range(1, 13)))
    try:
        run = measuring(sweep)
        here.kubectl("annotate", "leases", "--all", "touched=", f"--namespace={account.name}")
        here.stop_kubelet("n1")
        # Another deployment is tried first, in vain: the node is not there for it either.
        assert run.wait(LONGEST) != 0, sweep.output()
    finally:
        here.start_kubelet("n1")
        here.kubectl("wait", "node/n1", "--for=condition=Ready", "--timeout=300s", timeout=LONGEST)
    return sweep


@pytest.fixture(scope="module")
def reaped(account: Space, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """One whose job was killed, and whose remains have been removed by `snakemake reap` under the account."""
    folder = tmp_path_factory.mktemp("reaped")
    sweep = probe(account, folder, local_testbed(account.name), streams=list(range(1, 13)))
    run = measuring(sweep)
    (job,) = (each for each in Process(run.pid).children() if "deployment.py" in " ".join(each.cmdline()))
    job.kill()
    run.wait(LONGEST)
    assert account.left()  # or there is nothing to reap
    done = sweep.run("reap")
    assert done.returncode == 0, done.stdout
    return sweep


def probe(account: Space, folder: Path, testbed: dict[str, Any], **parameters: Any) -> ClusterSweep:
    return account.sweep(folder, testbed, parameters={**ONE, **parameters})


def measuring(sweep: ClusterSweep) -> subprocess.Popen[bytes]:
    """A sweep that has measured its first cell."""
    run = sweep.start("cells")
    sweep.wait_for_cell(1, run)
    assert run.poll() is None, sweep.output()
    return run


def test_a_fault_is_told_and_cleared_away_under_the_account(silent: ClusterSweep, account: Space) -> None:
    assert "NodeNotReady" in silent.output()
    assert "removed by force: node n1" in silent.output()
    assert account.left() == {}


@pytest.mark.usefixtures("reaped")
def test_what_a_killed_job_has_left_is_reaped_under_the_account(account: Space) -> None:
    assert account.left() == {}


@pytest.mark.usefixtures("measured", "silent", "reaped")
def test_the_role_has_no_right_that_is_not_used(here: local.Cluster, account: Space) -> None:
    granted = {
        (group, resource, verb)
        for document in yaml.safe_load_all((FILES / "rbac.yaml").read_text())
        for rule in document.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    events = here.requests(account.name)
    assert {event["user"]["username"] for event in events} == {f"system:serviceaccount:{account.name}:{NAME}"}
    used = {
        right(event) for event in events if "objectRef" in event and event["responseStatus"]["code"] != 403
    }
    later = {("", "pods/exec", "create")}  # asked for from Kubernetes 1.35 on
    assert granted - used == later
    assert used <= granted
    refused = {right(event) for event in events if event["responseStatus"]["code"] == 403}
    assert refused <= {("", "nodes", "list")}  # where a pod finds no node, to say more of it to who may know


def right(event: dict[str, Any]) -> tuple[str, str, str]:
    """The right that a request takes, as RBAC names it."""
    what = event["objectRef"]
    resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
    return what.get("apiGroup", ""), resource, event["verb"]


# As a Job


@pytest.fixture(scope="module")
def namespace(kubeconfig: Path) -> Iterator[Space]:
    """A namespace of the Job's own, with the shipped Role and its account."""
    with space(kubeconfig, "tpcsweep-job") as made:
        utils.create_from_yaml(made.api, str(FILES / "rbac.yaml"), namespace=made.name)
        yield made


@pytest.fixture(scope="module")
def node(here: local.Cluster, namespace: Space) -> Iterator[str]:
    """The node with a volume that the shipped claim can have: there is no provisioner."""
    node, folder = "n2", "/var/lib/tpcsweep-results"
    here.enter(["mkdir", folder])
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": folder},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        "claimRef": {"namespace": namespace.name, "name": NAME},
    }
    namespace.core.create_persistent_volume({"metadata": {"name": namespace.name}, "spec": spec})
    yield node
    namespace.core.delete_persistent_volume(namespace.name)
    here.enter(["rm", "-r", folder])


@pytest.fixture(scope="module")
def job(node: str, here: local.Cluster, namespace: Space, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The shipped Job, which has run to its end although its pod was evicted on the way."""
    archive = tmp_path_factory.mktemp("image") / "workflow.tar"
    commit = image._commit()
    local.build.workflow_image(archive)
    here.load(archive, [node])
    archive.unlink()
    testbed = local_testbed(namespace.name)
    del testbed["namespace"]  # it is the pod's own
    sweep = {"parameters": {**ONE, "rtt": ["0 ms", "20 ms"], "streams": [1, 2, 3]}, "measurement": QUICK}
    texts = {"nodes.yaml": yaml.safe_dump(sweep), "kubernetes.yaml": yaml.safe_dump(testbed)}
    namespace.core.create_namespaced_config_map(namespace.name, {"metadata": {"name": NAME}, "data": texts})
    job = Job(here, namespace, commit)
    job.start()
    wait_until(lambda: " cell 1/6 " in job.log() or job.ended(), "a cell has ended", LONGEST)
    assert not job.ended(), job.log()
    (first,) = job.pods()
    namespace.core.create_namespaced_pod_eviction(first, namespace.name, {"metadata": {"name": first}})
    wait_until(lambda: first not in job.pods(), "the pod is gone", LONGEST)
    job.wait()
    return job


class Job:
    """The shipped Job and the pod for its results, as an operator has them: by kubectl."""

    def __init__(self, here: local.Cluster, namespace: Space, commit: str) -> None:
        self.namespace = namespace
        self.commit = commit
        self._kubectl = partial(here.kubectl, f"--namespace={namespace.name}")

    def start(self) -> None:
        self._apply("workflow.yaml")

    def pods(self) -> list[str]:
        names = self._kubectl("get", "pods", f"--selector=job-name={NAME}", "--output=name").split()
        return [name.removeprefix("pod/") for name in names]

    def log(self) -> str:
        try:
            return self._kubectl("logs", f"job/{NAME}")
        except local.ClusterError:
            return ""  # it has no pod yet

    def ended(self) -> set[str]:
        """How it has ended; empty while it has not."""
        conditions = "jsonpath={.status.conditions[*].type}"
        return {"Complete", "Failed"} & {*self._kubectl("get", f"job/{NAME}", "-o", conditions).split()}

    def wait(self) -> None:
        """Until it has completed."""
        wait_until(self.ended, "the Job has ended", 3 * LONGEST)
        assert self.ended() == {"Complete"}, self.log()

    def again(self) -> None:
        """Run it again."""
        self._kubectl("delete", f"job/{NAME}", "--cascade=foreground")
        self.start()
        self.wait()

    def fetch(self, folder: Path) -> Path:
        """Copy the results."""
        self._apply("results.yaml")
        self._kubectl(
            "wait", "pod/tpcsweep-results", "--for=condition=Ready", "--timeout=300s", timeout=LONGEST
        )
        self._kubectl("cp", "tpcsweep-results:/results", str(folder / "results"))
        self._kubectl("delete", "pod/tpcsweep-results")
        return folder / "results/nodes@kubernetes"

    def _apply(self, file: str) -> None:
        documents = list(yaml.safe_load_all((FILES / file).read_text()))
        self._kubectl("apply", "--filename=-", input=yaml.safe_dump_all(map(fitted, documents)))


def fitted(document: dict[str, Any]) -> dict[str, Any]:
    """A shipped object with what has to be another here: images, and a volume that nobody provisions."""
    spec, kind = document["spec"], document["kind"]
    if kind == "PersistentVolumeClaim":
        spec["storageClassName"] = ""
        return document
    (container,) = (spec["template"]["spec"] if kind == "Job" else spec)["containers"]
    container |= {
        "image": local.build.WORKFLOW if kind == "Job" else local.build.IMAGE,
        "imagePullPolicy": "Never",
    }
    return document


def test_the_job_goes_from_nothing_to_the_report_and_on_after_an_eviction(job: Job, tmp_path: Path) -> None:
    results = job.fetch(tmp_path)
    cells = [json.loads(path.read_bytes()) for path in (results / "cells").rglob("*.json")]
    assert [cell["status"] for cell in cells] == ["ok"] * 6
    deployments = {cell["provenance"]["deployment"] for cell in cells}
    assert len(deployments) == 3  # two, and the one of the evicted pod, whose cells were not measured again
    for cell in cells:
        assert cell["provenance"]["commit"] == job.commit
        assert cell["provenance"]["kubernetes"]["namespace"] == job.namespace.name
    assert xr.load_dataset(results / "dataset.nc").throughput.notnull().all()
    check_results(results, len(cells), tmp_path)
    assert job.namespace.left() == {}


def test_the_job_asks_as_its_account_and_no_other(job: Job, here: local.Cluster) -> None:
    events = here.requests(job.namespace.name)
    of_pods = [event["user"] for event in events if POD_NAME in event["user"].get("extra", {})]
    names = {name for user in of_pods for name in user["extra"][POD_NAME]}
    assert len(names) >= 2  # that before the eviction and that after it
    assert all(name.startswith(f"{NAME}-") for name in names)  # the pods of deployments ask nothing
    assert {user["username"] for user in of_pods} == {f"system:serviceaccount:{job.namespace.name}:{NAME}"}
    assert not [event for event in events if event["responseStatus"]["code"] == 403]


def test_another_job_goes_on_where_the_last_has_ended(job: Job) -> None:
    job.again()
    assert "Nothing to be done" in job.log()
