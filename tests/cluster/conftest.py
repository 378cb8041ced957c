# SPDX-License-Identifier: Apache-2.0
"""Real clusters for tests: one with nodes, one without, each started at its first use and ended with the session."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import local
from tests.cluster.local import groups
from tests.cluster.sweeps import Space, space
from tests.support.logs import told

HERE = Path(__file__).parent
BASE = pytest.StashKey[Path]()
LOGS = """\
{0}/{{cluster,control-plane}}*/logs: every program of a cluster; sweeps' pods are in nodes' kubelet.log
{0}/*/output.log: started sweeps
{0}/*/results/*/logs: a folder for each deployment, with its servers, client and commands
"""


LONG_MODULES = ["workflow_image", "networks", "sweep", "faults", "rules", "page", "pairs", "paths"]
LONG_MODULES += ["scale", "emulation", "origins", "shared", "policy", "failures"]
"""Those that take minutes come first, the longest before: of two workers none is idle at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        name = item.path.stem.removeprefix("test_")
        if not item.path.is_relative_to(HERE):
            return -1
        return LONG_MODULES.index(name) if name in LONG_MODULES else len(LONG_MODULES)

    items.sort(key=place)
    for item in items:
        if place(item) >= 0:
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed and item.path.is_relative_to(HERE) and BASE in item.session.stash:
        report.sections.append(("Where to look", LOGS.format(item.session.stash[BASE])))
        if logs := told(item.session.stash[BASE]):
            report.sections.append(("logs of deployments", logs))
    return report


@pytest.fixture(scope="session", autouse=True)
def clean(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What killed sessions have left is gone before anything begins, and it is known where this one writes."""
    groups.sweep()
    request.session.stash[BASE] = tmp_path_factory.getbasetemp()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Cluster]:
    """Three nodes on this machine: n1 and n2 near each other, n3 20 ms away."""
    with local.cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of the cluster to test on: $TPCSWEEP_KUBECONFIG, else the local one's."""
    given = os.environ.get("TPCSWEEP_KUBECONFIG")
    return Path(given) if given else request.getfixturevalue("cluster").kubeconfig


@pytest.fixture(scope="session")
def here(kubeconfig: Path) -> local.Cluster:
    """The cluster, which must be one on this machine: images, volumes and its audit log are reached from outside."""
    try:
        return local.Cluster(kubeconfig.parent)
    except local.ClusterError:
        pytest.skip("needs a cluster on this machine")


@pytest.fixture(scope="module")
def namespace(cluster: local.Cluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of a module's own on the local cluster, whose links are known and which may be broken."""
    with space(cluster.kubeconfig, request.path.stem.replace("_", "-")) as made:
        yield made


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Cluster]:
    """An API without nodes."""
    with local.control_plane(tmp_path_factory.mktemp("control-plane")) as started:
        yield started
