# SPDX-License-Identifier: Apache-2.0
"""The image with the whole workflow: by podman as docs/running.md has it, and as the Job of config/kubernetes."""

import json
import re
import resource
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import xarray as xr
import yaml
from kubernetes import client, utils
from tpcsweep.data import folding
from tpcsweep.data.labels import STATUS
from tpcsweep.measuring import provenance
from tpcsweep.sweeps.parameters import Value

from tests.cluster import local
from tests.cluster.reports import check_results
from tests.cluster.sweeps import LASTING, LONGEST, ONE, Space, local_testbed, space, wait_for
from tests.support import synthetic
from tests.support.private import WORK, in_private
from tests.support.workflow import ROOT

FILES = ROOT / "config/kubernetes"
NAME = "tpcsweep"
FOLDER = "/var/lib/tpcsweep-results"  # the folder of the volume on its node
POD_NAME = "authentication.kubernetes.io/pod-name"  # where the API server says which pod a token is bound to
ANALYSIS, MEASURING = re.findall(
    r"^```sh\n(.*?)^```$", (ROOT / "docs/running.md").read_text(), re.MULTILINE | re.DOTALL
)
"""Two shell scripts; the second uses the variables that the first one sets."""
LOAD = """
set -x
echo "$ENGINE" >"$CONTAINERS_CONF"
echo "$STORAGE" >"$CONTAINERS_STORAGE_CONF"
podman load --quiet --input "$ARCHIVE"
cd "$FOLDER"
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("image") / "workflow.tar"
    local.build.workflow_image(made)
    yield made
    made.unlink()


# docs/running.md: its commands, as they stand there


def typed(script: str, folder: Path, archive: Path) -> str:
    """Run a script in a folder, where podman has an image and no network, and return its output.

    Its images and containers are in memory, in namespaces of their own, and gone with them.
    """
    # No more than there is here, which may be a container itself.
    limits = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    most = {key: resource.getrlimit(which)[1] for key, which in limits.items()}
    known = [f"{key}={limit}:{limit}" for key, limit in most.items() if limit != resource.RLIM_INFINITY]
    own = {
        "ENGINE": f"[containers]\ndefault_ulimits = {known}\nnetns = 'none'\n"
        "[engine]\ncgroup_manager = 'cgroupfs'\nevents_logger = 'file'\n",
        "STORAGE": f"[storage]\ndriver = 'overlay'\ngraphroot = '{WORK}/images'\nrunroot = '{WORK}/run'\n",
        "CONTAINERS_CONF": f"{WORK}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{WORK}/storage.conf",
    }
    return in_private(LOAD + script, {**own, "ARCHIVE": str(archive), "FOLDER": str(folder)})


def up_to_dataset(script: str, study: str) -> str:
    """A script whose sweep ends with its dataset, for time: the Job below goes on to the page of one."""
    return script.replace("snakemake --config sweep", f"snakemake results/{study}/dataset.nc --config sweep")


def test_the_image_analyses_for_anybody_and_measures_for_root(archive: Path, tmp_path: Path) -> None:
    # As somebody whom the image does not know, such as docker's users; of a smaller dataset, for time.
    anybody = ANALYSIS.replace("--user 0", "--user 1234:1234").replace(
        "examples/surface.nc", "results/few.nc"
    )
    root = "".join(line for line in ANALYSIS.splitlines(keepends=True) if line.startswith(("run=", "image=")))
    axes: dict[str, Sequence[Value]] = {"rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1]}
    found = folding.fold(synthetic.write_sweep(tmp_path / "cells", axes), axes)
    folding.write(found, tmp_path / "results/few.nc")
    studies = "smoke@simulation", "smoke"
    scripts = up_to_dataset(anybody, studies[0]), root, up_to_dataset(MEASURING, studies[1])
    said = typed("install --directory --owner=1234 results\n" + "".join(scripts), tmp_path, archive)
    assert (tmp_path / "results/few").stat().st_uid == 1234
    assert (tmp_path / "results/few/index.html").exists(), said
    for study in studies:
        with xr.open_dataset(tmp_path / "results" / study / "dataset.nc") as data:
            assert (data["status"] == STATUS.index("ok")).all() and (data["throughput"] > 0).all(), said
    # It was the release in the image: there is no network to get another by.
    assert "unpacking XRootD" not in said


# docs/kubernetes.md: a sweep inside the cluster, under the ServiceAccount of config/kubernetes/rbac.yaml alone


@pytest.fixture(scope="module")
def namespace(kubeconfig: Path) -> Iterator[Space]:
    """A namespace of the Job's own, with the shipped Role and its account."""
    with space(kubeconfig, "tpcsweep-job") as made:
        utils.create_from_yaml(made.api, str(FILES / "rbac.yaml"), namespace=made.name)
        yield made


@pytest.fixture(scope="module")
def node(here: local.Cluster, namespace: Space) -> Iterator[str]:
    """The node with a volume that the shipped claim can have: there is no provisioner."""
    node = "n2"
    here.enter(["mkdir", FOLDER])
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": FOLDER},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        "claimRef": {"namespace": namespace.name, "name": NAME},
    }
    namespace.core.create_persistent_volume({"metadata": {"name": namespace.name}, "spec": spec})
    yield node
    namespace.core.delete_persistent_volume(namespace.name)
    here.enter(["rm", "-r", FOLDER])


class Job(NamedTuple):
    """The shipped Job and the pod for its results, as an operator has them: by kubectl."""

    kubectl: Callable[..., str]
    namespace: Space
    commit: str

    def pods(self) -> list[str]:
        of_job = partial(self.namespace.core.list_namespaced_pod, label_selector=f"job-name={NAME}")
        return [pod.metadata.name for pod in of_job(self.namespace.name).items]

    def log(self) -> str:
        return self.kubectl("logs", f"job/{NAME}")

    def ended(self) -> set[str]:
        found = client.BatchV1Api(self.namespace.api).read_namespaced_job(NAME, self.namespace.name)
        return {"Complete", "Failed"} & {each.type for each in found.status.conditions or []}

    def wait(self) -> None:
        wait_for(self.ended, "the Job has ended", 3 * LONGEST)
        assert self.ended() == {"Complete"}, self.log()

    def apply(self, file: str) -> None:
        documents = list(yaml.safe_load_all((FILES / file).read_text()))
        self.kubectl("apply", "--filename=-", input=yaml.safe_dump_all(map(fitted, documents)))


def fitted(document: dict[str, Any]) -> dict[str, Any]:
    """A shipped object with what has to be another here: images, and a volume that nobody provisions."""
    spec, kind = document["spec"], document["kind"]
    if kind == "PersistentVolumeClaim":
        spec["storageClassName"] = ""
        return document
    of_job = kind == "Job"
    (container,) = (spec["template"]["spec"] if of_job else spec)["containers"]
    image = local.build.WORKFLOW if of_job else local.build.IMAGE
    container |= {"image": image, "imagePullPolicy": "Never"}
    return document


@pytest.fixture(scope="module")
def job(node: str, archive: Path, here: local.Cluster, namespace: Space) -> Job:
    """The shipped Job, which has run to its end although its pod was evicted on the way."""
    commit = provenance.commit()
    here.load(archive, [node])
    testbed = local_testbed(namespace.name)
    del testbed["namespace"]  # it is the pod's own
    parameters = {**ONE, "rtt": ["0 ms", "20 ms"], "streams": [1, 2, 3]}
    sweep = {"parameters": parameters, "measurement": LASTING, "retry_share": 0}
    texts = {"nodes.yaml": yaml.safe_dump(sweep), "kubernetes.yaml": yaml.safe_dump(testbed)}
    namespace.core.create_namespaced_config_map(namespace.name, {"metadata": {"name": NAME}, "data": texts})
    job = Job(partial(here.kubectl, f"--namespace={namespace.name}"), namespace, commit)
    job.apply("volume.yaml")
    job.apply("workflow.yaml")
    staged = ["find", FOLDER, "-path", "*/staging/*.json"]
    wait_for(lambda: here.enter(staged) or job.ended(), "a cell has ended")
    assert not job.ended(), job.log()
    (first,) = job.pods()
    namespace.core.create_namespaced_pod_eviction(first, namespace.name, {"metadata": {"name": first}})
    wait_for(lambda: first not in job.pods(), "the pod is gone")
    job.wait()
    return job


def test_the_job_goes_from_nothing_to_the_page_and_on_after_an_eviction(job: Job, tmp_path: Path) -> None:
    job.apply("results.yaml")
    ready = ["--for=condition=Ready", "--timeout=300s"]
    job.kubectl("wait", "pod/tpcsweep-results", *ready, timeout=LONGEST)
    job.kubectl("cp", "tpcsweep-results:/results", str(tmp_path / "results"))
    job.kubectl("delete", "pod/tpcsweep-results")
    results = tmp_path / "results/nodes@kubernetes"
    cells = [json.loads(path.read_bytes()) for path in (results / "cells").rglob("*.json")]
    assert [cell["status"] for cell in cells] == ["ok"] * 6
    deployments = {cell["provenance"]["deployment"] for cell in cells}
    assert len(deployments) == 3  # two, and the one of the evicted pod, whose cells were not measured again
    for cell in cells:
        assert cell["provenance"]["commit"] == job.commit
        assert cell["provenance"]["kubernetes"]["namespace"] == job.namespace.name
    assert xr.load_dataset(results / "dataset.nc").throughput.notnull().all()
    check_results(results, len(cells))
    job.namespace.check_empty()


def test_the_job_asks_as_its_account_and_no_other(job: Job, here: local.Cluster) -> None:
    events = here.requests(job.namespace.name)
    of_pods = [event["user"] for event in events if POD_NAME in event["user"].get("extra", {})]
    names = {name for user in of_pods for name in user["extra"][POD_NAME]}
    assert len(names) >= 2  # that before the eviction and that after it
    assert all(name.startswith(f"{NAME}-") for name in names)  # the pods of deployments ask nothing
    assert {user["username"] for user in of_pods} == {f"system:serviceaccount:{job.namespace.name}:{NAME}"}
    assert not [event for event in events if event["responseStatus"]["code"] == 403]


def test_another_job_goes_on_where_the_last_has_ended(job: Job) -> None:
    job.kubectl("delete", f"job/{NAME}", "--cascade=foreground")
    job.apply("workflow.yaml")
    job.wait()
    assert "Nothing to be done" in job.log()
