# SPDX-License-Identifier: Apache-2.0
"""Real clusters for tests: one with nodes, one without, each started at its first use and ended with the session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import local
from tests.cluster.sweeps import ClusterSweep
from tests.support.logs import told

HERE = Path(__file__).parent
BASE = pytest.StashKey[Path]()

_folders: list[Path] = []  # of the clusters that were started, for failures to name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed and item.path.is_relative_to(HERE) and BASE in item.session.stash:
        if lines := [*where_to_look(item)]:
            report.sections.append(("Where to look", "\n".join(lines)))
        if logs := told(item.session.stash[BASE]):
            report.sections.append(("logs of deployments", logs))
    return report


def where_to_look(item: pytest.Item) -> Iterator[str]:
    """The folders of a test, with what sweeps, servers and clusters said; pytest keeps them for three sessions."""
    for folder in _folders:
        yield f"{folder / 'logs'}: what every program of the cluster says; sweeps' pods in nodes' kubelet.log"
    for value in getattr(item, "funcargs", {}).values():
        folder = value.folder if isinstance(value, ClusterSweep) else value
        if not isinstance(folder, Path) or not folder.is_dir():
            continue
        yield f"{folder}: output.log of a started sweep"
        for logs in sorted(folder.glob("results/*/logs")):
            yield f"{logs}: a folder for each deployment, with what its servers, client and commands said"


@pytest.fixture(scope="session", autouse=True)
def clean(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What killed sessions have left is gone before anything begins, and it is known where this one writes."""
    local.down()
    request.session.stash[BASE] = tmp_path_factory.getbasetemp()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Cluster]:
    """Three nodes on this machine: n1 and n2 near each other, n3 20 ms away."""
    _folders.append(tmp_path_factory.mktemp("cluster"))
    with local.cluster(_folders[-1]) as started:
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


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Cluster]:
    """An API without nodes."""
    _folders.append(tmp_path_factory.mktemp("control-plane"))
    with local.control_plane(_folders[-1]) as started:
        yield started
