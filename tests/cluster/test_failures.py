# SPDX-License-Identifier: Apache-2.0
"""How soon a failure is said, in the cluster's own words: each test prints the seconds that it saw."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import local
from tests.cluster.sweeps import LONGEST, ONE, ClusterSweep, Space, local_testbed, space
from tests.support.testbeds import selecting
from tests.support.workflow import wait_until

AT_ONCE = 60.0  # s on a busy machine, far less than the five minutes for which pods may wait; idle: a few
NOWHERE = "127.0.0.1:1/nowhere:1"


@pytest.fixture
def own(cluster: local.Cluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace for each test: quotas are not to meet."""
    with space(cluster.kubeconfig, f"tpcsweep-failures-{request.node.name.replace('_', '-')[-30:]}") as made:
        yield made


def seconds_until(words: str, own: Space, sweep: ClusterSweep, run: subprocess.Popen[bytes]) -> float:
    """Seconds from the first Job of a server to words in a run's output."""

    def wait_for(what: str, happened: Callable[[], object]) -> None:
        wait_until(lambda: happened() or run.poll() is not None, what, LONGEST)
        assert happened(), sweep.output()

    wait_for("a server's Job", lambda: [job for job in own.left().get("jobs", []) if job.endswith("src1")])
    began = time.monotonic()
    wait_for(words, lambda: re.search(words, sweep.output()))
    return time.monotonic() - began


def test_an_unschedulable_pod_shows_the_schedulers_reason_and_ends_by_sigint(
    own: Space, tmp_path: Path
) -> None:
    pair = {"rtt": "0 ms", "source": selecting({"rack": "none"}), "destination": selecting({"rack": "none"})}
    settings = local_testbed(own.name, paths={"kind": "nodes", "pairs": [pair]})
    sweep = own.sweep(tmp_path, settings, parameters=ONE)
    run = sweep.start("cells")
    took = seconds_until("Unschedulable: 0/3 nodes are available: .*selector", own, sweep, run)
    print(f"the scheduler's reason: {took:.1f} s")  # noqa: T201
    assert took < AT_ONCE
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(LONGEST) != 0
    wait_until(lambda: not own.left(), "nothing is left", LONGEST)
    assert "Traceback" not in sweep.output()


def test_an_image_that_cannot_be_pulled_shows_the_registrys_answer(own: Space) -> None:
    began = time.monotonic()
    refusal = own.refusal(local_testbed(own.name, image=NOWHERE, pull_policy="Always"))
    took = time.monotonic() - began
    print(f"the registry's answer: {took:.1f} s")  # noqa: T201
    assert took < AT_ONCE
    assert re.search(rf"image {NOWHERE}, pull policy Always: .*connection refused", refusal), refusal


def test_pods_over_quota_end_a_sweep_at_once(own: Space, tmp_path: Path) -> None:
    """Each pod alone is within the quota, so that no dry run is refused."""
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}}
    own.core.create_namespaced_resource_quota(own.name, quota)
    sweep = own.sweep(tmp_path, local_testbed(own.name), parameters={**ONE, "streams": [1, 2]})
    run = sweep.start("cells")
    took = seconds_until("FailedCreate: .*exceeded quota: pods", own, sweep, run)
    print(f"over quota: {took:.1f} s")  # noqa: T201
    assert took < AT_ONCE
    assert run.wait(LONGEST) != 0
    assert "replacing" not in sweep.output()
    assert "Traceback" not in sweep.output()
    own.check_empty()


def test_sigint_ends_the_trial_of_check_in_order(own: Space, tmp_path: Path) -> None:
    sweep = own.sweep(tmp_path, local_testbed(own.name), parameters=ONE)
    command, pipes = sweep.asking("check"), {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as run:
        wait_until(lambda: "jobs" in own.left() or run.poll() is not None, "the trial has begun", LONGEST)
        os.killpg(run.pid, signal.SIGINT)
        began = time.monotonic()
        said, _ = run.communicate(timeout=LONGEST)
    print(f"ended after SIGINT: {time.monotonic() - began:.1f} s")  # noqa: T201
    assert run.returncode == 128 + signal.SIGINT, said
    assert "Traceback" not in said
    own.check_empty()
