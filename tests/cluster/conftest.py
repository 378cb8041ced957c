"""Real clusters for tests: one with nodes, one without, each started at its first use and ended with the session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import local

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)


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
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Cluster]:
    """An API without nodes."""
    with local.control_plane(tmp_path_factory.mktemp("control-plane")) as started:
        yield started
