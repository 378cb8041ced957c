# SPDX-License-Identifier: Apache-2.0
"""Recipes of docs/kubernetes.md that no other test uses: tainted nodes, and an image of a private registry."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client
from tpcsweep.testbeds.kubernetes.pod_templates import merged

from tests.cluster import local
from tests.cluster.sweeps import ONE, Space, local_testbed, recipe, space

TAINTED = ("n1", "n3")
PRIORITY = "measuring"
TAINT = {"key": "dedicated", "value": "dtn", "effect": "NoSchedule"}


@pytest.fixture
def tainted(here: local.Cluster) -> Iterator[Space]:
    """A namespace in a cluster whose nodes n1 and n3 are for servers alone."""
    with space(here.kubeconfig, "tainted") as made:
        classes = client.SchedulingV1Api(made.api)
        classes.create_priority_class({"metadata": {"name": PRIORITY}, "value": 100})
        for node in TAINTED:
            labelled = {"metadata": {"labels": {"dedicated": "dtn"}}, "spec": {"taints": [TAINT]}}
            made.core.patch_node(node, labelled)
        try:
            yield made
        finally:
            classes.delete_priority_class(PRIORITY)
            for node in TAINTED:
                bare = {"metadata": {"labels": {"dedicated": None}}, "spec": {"taints": None}}
                made.core.patch_node(node, bare)


def test_servers_run_on_tainted_nodes_with_a_pull_secret(tainted: Space, tmp_path: Path) -> None:
    settings = local_testbed(tainted.name, **merged(recipe("tainted"), recipe("registry")))
    sweep = tainted.sweep(tmp_path, settings, parameters={**ONE, "rtt": "20 ms"})
    [cell] = sweep.measure()
    assert cell["provenance"]["nodes"] == {"source": "n1", "destination": "n3"}
    templates = cell["provenance"]["kubernetes"]["templates"]
    assert set(templates) == {"client", "src", "dst"}
    for name, template in templates.items():
        assert template["spec"]["imagePullSecrets"] == [{"name": "registry-login"}]
        assert template["spec"].get("priorityClassName") == (None if name == "client" else PRIORITY)
    tainted.check_empty()
