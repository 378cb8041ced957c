# SPDX-License-Identifier: Apache-2.0
"""A sweep as clusters of others want it: with the role `edit`, pods of Jobs, and servers of a site's own image."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.testbeds.kubernetes.metadata import SELECTOR

from tests.cluster import local
from tests.cluster.local import build
from tests.cluster.sweeps import LASTING, LONGEST, ONE, Space, account, local_testbed, recipe

OTHERS = "localhost/others/xrootd:1"
WITHOUT_TOOLS = """
RUN rm /usr/bin/curl /usr/bin/gfal-copy /usr/bin/davix-get /usr/bin/iperf3 /usr/sbin/tc \\
    && echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd
ENV LANG= PYTHONDONTWRITEBYTECODE=
"""


@pytest.fixture(scope="module")
def site_image(cluster: local.Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A site's image, without the client's tools, our user and our variables."""
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    build.changed_image(archive, OTHERS, WITHOUT_TOOLS)
    cluster.load(archive)
    archive.unlink()
    return OTHERS


@pytest.fixture(scope="module")
def namespace(cluster: local.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    folder = tmp_path_factory.mktemp("edit")
    with account(cluster.kubeconfig, "tpcsweep-edit", folder, built_in="edit") as made:
        yield made


def settings(namespace: Space, **changes: Any) -> dict[str, Any]:
    return local_testbed(namespace.name, **{**recipe("nrp"), **changes})


def test_the_role_edit_takes_a_sweep_to_its_end(namespace: Space, site_image: str, tmp_path: Path) -> None:
    """Data go in the clear. Each pod is a Job's, with limits within a fifth of requests, and servers run OTHERS."""
    parameters = {**ONE, "cores": 0.5, "encryption": "none", "streams": [1, 2]}
    asked = settings(namespace, server_image=site_image)
    sweep = namespace.sweep(tmp_path, asked, measurement=LASTING, parameters=parameters)
    run = sweep.measuring()
    pods = namespace.core.list_namespaced_pod(namespace.name, label_selector=SELECTOR).items
    assert run.wait(LONGEST) == 0, sweep.output()
    assert [cell["status"] for cell in sweep.records()] == ["ok", "ok"], sweep.records()
    namespace.check_empty()
    assert len(pods) == 3
    images: dict[str, set[str]] = {}
    for pod in pods:
        [owner] = pod.metadata.owner_references
        assert (owner.kind, owner.controller) == ("Job", True)
        assert pod.status.qos_class == "Burstable"
        for each in pod.spec.containers:
            assert each.resources.limits.keys() >= each.resources.requests.keys() >= {"cpu", "memory"}
            images.setdefault(each.image, set()).add(each.name)
    assert images == {OTHERS: {"servers", "agent"}, build.IMAGE: {"client", "hub"}}


@pytest.mark.usefixtures("site_image")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"server_image": OTHERS, "paths": {"kind": "netem", "pairs": [{}]}}, "1: the image lacks tc .*"),
        ({"server_image": build.PAUSE}, "128: .*/usr/bin/python3.*"),
    ],
    ids=["a program", "Python"],
)
def test_what_a_sites_image_lacks_is_named(changes: dict[str, Any], words: str, namespace: Space) -> None:
    refusal = namespace.refusal(settings(namespace, **changes))
    said = f"container image-2 ended with exit code {words}"
    assert re.search(said, refusal), refusal
