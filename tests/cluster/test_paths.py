# SPDX-License-Identifier: Apache-2.0
"""A testbed that says of its paths, its namespace or its image what is not so: what a sweep makes of it."""

import re
import time
from pathlib import Path

import pytest
from tpcsweep.running import staging

from tests.cluster import local
from tests.cluster.local.build import RELEASE
from tests.cluster.sweeps import FASTER, ONE, ClusterSweep, Space, account, local_testbed, on

LACKING = "5.9.9"  # a release that the testbed's file says the image has, and that it has not
LONG = 300.0  # seconds, `start_time` of tests that must not wait for it


@pytest.fixture(scope="module")
def refused(namespace: Space, tmp_path_factory: pytest.TempPathFactory) -> tuple[ClusterSweep, str]:
    pairs = [{"rtt": rtt, "source": on("n1"), "destination": on("n2")} for rtt in ("0 ms", "10 ms")]
    of = {"paths": {"kind": "nodes", "pairs": pairs}, "releases": [LACKING], "bandwidth": FASTER}
    sweep = namespace.sweep(
        tmp_path_factory.mktemp("refused"),
        local_testbed(namespace.name, path="strict", **of),
        parameters={**ONE, "rtt": ["0 ms", "10 ms"], "xrootd": ["system", LACKING]},
        exclude=[{"rtt": "10 ms", "xrootd": LACKING}, {"rtt": "0 ms", "xrootd": "system"}],
    )
    done = sweep.run("--keep-going", "cells")
    namespace.check_empty()
    return sweep, done.stdout


def test_a_path_that_is_not_what_the_testbed_says_is_refused(refused: tuple[ClusterSweep, str]) -> None:
    sweep, said = refused
    assert re.search(rf"asked {FASTER:g} Gbit/s, found 0\.[12]\d* Gbit/s, allowed -5%", said), said
    assert re.search(r"rtt asked 10 ms, found 0\.\d+ ms", said), said
    assert not [cell for cell in sweep.records() if cell["status"] == "ok"]


def test_a_release_that_the_image_lacks_is_refused(refused: tuple[ClusterSweep, str]) -> None:
    whys = [hole.why for hole in staging.holes(refused[0].results)]
    words = f"xrootd {LACKING}: the image has no /opt/xrootd/{LACKING}; it has system and of others {RELEASE}"
    assert any(words in why for why in whys), (whys, refused[1])
    assert not re.search(rf"replacing .*{LACKING}", refused[1]), refused[1]


# What is wrong with a whole testbed, before the first deployment


@pytest.mark.parametrize(
    ("image", "policy", "words"),
    [
        ("localhost/nowhere:1", "Never", "ErrImageNeverPull: {}"),
        ("127.0.0.1:1/nowhere:1", "Always", "(ErrImagePull|ImagePullBackOff): {}: .*connection refused"),
    ],
    ids=["no such image", "no such registry"],
)
def test_an_image_that_is_not_there_is_named(image: str, policy: str, words: str, namespace: Space) -> None:
    began = time.monotonic()
    settings = local_testbed(namespace.name, start_time=LONG, image=image, pull_policy=policy)
    refusal = namespace.refusal(settings)
    assert re.search(words.format(f"image {image}, pull policy {policy}"), refusal), refusal
    assert time.monotonic() - began < LONG / 2


@pytest.mark.parametrize(
    ("resource", "verb"),
    [
        ("pods/exec", "get"),
        ("jobs", "list"),
        # Without it, what a trial makes stays, and keeps others off its nodes.
        ("jobs", "deletecollection"),
        # Pods too, though the cluster makes those of Jobs.
        ("pods", "create"),
    ],
)
def test_a_lacking_right_is_named_before_anything_is_created(
    control_plane: local.Cluster, tmp_path: Path, resource: str, verb: str
) -> None:
    name = f"tpcsweep-{verb}-{resource.replace('/', '-')}"
    with account(control_plane.kubeconfig, name, tmp_path, without=(resource, verb)) as made:
        refusal = made.refusal(local_testbed(name, start_time=LONG))
        asked = control_plane.requests(name)
    assert re.search(rf": lacks {verb} {resource}: .*rbac.yaml", refusal), refusal
    assert "\n" not in refusal
    reviews = {event["objectRef"]["resource"] for event in asked if event["verb"] == "create"}
    assert reviews <= {"selfsubjectrulesreviews", "selfsubjectaccessreviews"}  # nothing else was created


def test_a_silent_cluster_is_named_once(cluster: local.Cluster, namespace: Space, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    text = cluster.kubeconfig.read_text()
    kubeconfig.write_text(re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:1", text))
    away = Space(namespace.name, kubeconfig, namespace.core, namespace.api)
    sweep = away.sweep(tmp_path, local_testbed(namespace.name), parameters={**ONE, "cores": [0.5, 1]})
    done = sweep.run("cells")
    assert done.returncode != 0
    words = r"https://127\.0\.0\.1:1\): .*refused.*\. Is it up, and can it be reached from here\?"
    assert len(re.findall(words, done.stdout)) == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert "Error in rule" not in done.stdout
