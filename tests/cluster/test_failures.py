# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while pods of a deployment or of a trial wait; the scheduler's reason is shown before."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from tests.cluster.sweeps import LONGEST, ONE, SOON, Space, local_testbed, wait_for
from tests.support.testbeds import selecting

UNSCHEDULABLE = "Unschedulable: 0/3 nodes are available: .*selector"


def test_an_unschedulable_pod_shows_the_reason_and_ends_by_sigint(namespace: Space, tmp_path: Path) -> None:
    def servers() -> list[str]:
        return [job for job in namespace.left().get("jobs", []) if job.endswith("src1")]

    pair = {"rtt": "0 ms", "source": selecting({"rack": "none"}), "destination": selecting({"rack": "none"})}
    settings = local_testbed(namespace.name, paths={"kind": "nodes", "pairs": [pair]})
    sweep = namespace.sweep(tmp_path, settings, parameters=ONE)
    run = sweep.start("cells")
    sweep.wait_during(run, servers, "a server's Job")
    began = time.monotonic()
    sweep.wait_during(run, lambda: re.search(UNSCHEDULABLE, sweep.output()), "the scheduler's reason")
    assert time.monotonic() - began < SOON
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(LONGEST) != 0
    namespace.check_empty(LONGEST)
    assert "Traceback" not in sweep.output()


def test_sigint_ends_the_trial_of_check_in_order(namespace: Space, tmp_path: Path) -> None:
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name), parameters=ONE)
    command, pipes = sweep.asking("check"), {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as run:
        wait_for(lambda: "jobs" in namespace.left() or run.poll() is not None, "the trial has begun")
        os.killpg(run.pid, signal.SIGINT)
        said, _ = run.communicate(timeout=LONGEST)
    assert run.returncode == 128 + signal.SIGINT, said
    assert "Traceback" not in said
    namespace.check_empty()
