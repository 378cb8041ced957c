"""A sweep on a real cluster: from nothing to the report, one cell again, and what is left when it goes wrong."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster.sweeps import ClusterSweep, Space, local_testbed, on, space
from tests.support.workflow import wait_until

PARAMETERS = {
    "cores": [0.5, 1],
    "origins": [1, 2],
    "rtt": ["0 ms", "20 ms"],
    "file_size": "8 MiB",
    "streams": [1, 2],
    "tool": "curl",
}
ONE = {"rtt": "0 ms", "file_size": "8 MiB", "streams": [1, 2, 3], "tool": "curl"}


@pytest.fixture(scope="module")
def namespace(kubeconfig: Path) -> Iterator[Space]:
    with space(kubeconfig, "tpcsweep-test") as made:
        yield made


@pytest.fixture(scope="module")
def measured(namespace: Space, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """A sweep that has run to its report."""
    folder = tmp_path_factory.mktemp("sweep")
    sweep = namespace.sweep(folder, local_testbed(namespace.name), parameters=PARAMETERS)
    done = sweep.run(timeout=1500)
    assert done.returncode == 0, done.stdout
    return sweep


def test_the_profile_takes_a_sweep_from_nothing_to_its_report(
    measured: ClusterSweep, namespace: Space
) -> None:
    cells = [json.loads(path.read_bytes()) for path in measured.cells()]
    assert len(cells) == 16
    for cell in cells:
        assert cell["status"] == "ok", cell["message"]
        assert 0 < cell["summary"]["throughput"] < 1.05
        assert abs(cell["summary"]["rtt_idle"] - cell["spec"]["parameters"]["rtt"]) < 0.5
        pods = cell["provenance"]["kubernetes"]["pods"]
        origins = cell["spec"]["parameters"]["origins"]
        assert len(pods) == 1 + 2 * (origins + (origins > 1))
        assert all(pod["image"].startswith("sha256:") or "@sha256:" in pod["image"] for pod in pods.values())
    assert (measured.results / "report.html").stat().st_size > 100_000
    assert namespace.left() == {}


def test_a_removed_cell_is_measured_again_and_no_other(measured: ClusterSweep, namespace: Space) -> None:
    gone, *kept = measured.cells()
    before = {path: path.read_bytes() for path in kept}
    old = gone.read_bytes()
    gone.unlink()
    done = measured.run("cells")
    assert done.returncode == 0, done.stdout
    assert gone.read_bytes() != old
    assert {path: path.read_bytes() for path in kept} == before
    assert namespace.left() == {}


def test_cells_have_the_fields_that_they_have_on_this_machine(measured: ClusterSweep, tmp_path: Path) -> None:
    from tests.support.workflow import Sweep  # the same sweep, on the netns testbed

    sweep = Sweep(tmp_path).define(
        parameters={**ONE, "rtt": "4 ms", "streams": [1]}, measurement={"min_time": "1 s", "max_time": "2 s"}
    )
    done = sweep.run("cells")
    assert done.returncode == 0, done.stdout
    here = json.loads(sweep.cells()[0].read_bytes())
    there = json.loads(measured.cells()[0].read_bytes())
    for part in ("spec", "summary", "samples", "transfers"):
        assert fields(here[part]) == fields(there[part])
    assert list(here) == list(there)
    # The netns testbed's own: the version of this machine's cgroups; the cluster's own: the cluster.
    assert set(here["provenance"]) - {"cgroup_version"} == set(there["provenance"]) - {"kubernetes"}


def fields(part: dict[str, Any]) -> list[str]:
    return list(part)


def test_deployments_run_side_by_side_on_nodes_of_their_own(namespace: Space, tmp_path: Path) -> None:
    settings = local_testbed(namespace.name)
    near, _ = settings["paths"]["pairs"]
    # Within a node nothing limits the rate: it is what the machine can do at the time.
    within = {"rtt": "0 ms", "source": on("n3"), "destination": on("n3")}
    settings |= {"bandwidth": "1000 Gbit/s", "paths": {"kind": "nodes", "pairs": [near, within]}}
    twenty = {"min_time": "20 s", "max_time": "20 s"}
    parameters = {**ONE, "streams": 1, "cores": [0.5, 1]}
    sweep = namespace.sweep(tmp_path, settings, measurement=twenty, parameters=parameters)
    run = sweep.start("cells", "--resources", "testbed=2")
    wait_until(lambda: len(namespace.pods(role="client")) == 2, "both are there at a time", 120)
    wait_until(lambda: run.poll() is not None, "snakemake ends", 180)
    assert run.returncode == 0, sweep.output()
    first, second = (json.loads(path.read_bytes())["provenance"] for path in sweep.cells())
    assert nodes(first).isdisjoint(nodes(second))
    assert namespace.left() == {}


def test_tools_of_one_process_transfer_from_the_client_pod(namespace: Space, tmp_path: Path) -> None:
    parameters = {**ONE, "streams": 4, "tool": ["native", "gfal2"]}
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name), parameters=parameters)
    done = sweep.run("cells")
    assert done.returncode == 0, done.stdout
    cells = [json.loads(path.read_bytes()) for path in sweep.cells()]
    assert {cell["spec"]["parameters"]["tool"] for cell in cells} == {"native", "gfal2"}
    for cell in cells:
        assert cell["status"] == "ok", cell["message"]
        assert "transfers_failed" not in cell["flags"]
        assert cell["summary"]["client_cpu"] > 0
    assert namespace.left() == {}


def nodes(provenance: dict[str, Any]) -> set[str]:
    """Those of a deployment's servers; clients may share one."""
    pods = provenance["kubernetes"]["pods"]
    return {pod["node"] for name, pod in pods.items() if name != "client"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_snakemake_leaves_nothing_behind(
    namespace: Space, tmp_path: Path, number: signal.Signals
) -> None:
    sweep, run = started(namespace, tmp_path)
    if number == signal.SIGINT:
        os.killpg(run.pid, number)
    else:
        run.send_signal(number)
    wait_until(lambda: run.poll() is not None, "snakemake ends", 60)
    wait_until(lambda: not namespace.left(), f"nothing is left: {sweep.output()}", 60)


def test_what_a_killed_job_has_left_is_reaped(namespace: Space, tmp_path: Path) -> None:
    sweep, run = started(namespace, tmp_path)
    job = next(
        p for p in psutil.Process(run.pid).children() if any("deployment.py" in w for w in p.cmdline())
    )
    job.kill()
    wait_until(lambda: run.poll() is not None, "snakemake ends", 60)
    assert namespace.left()  # or there is nothing to reap
    done = sweep.run("reap")
    assert done.returncode == 0, done.stdout
    assert namespace.left() == {}


def test_a_missing_image_is_named(namespace: Space, tmp_path: Path) -> None:
    settings = local_testbed(namespace.name, image="localhost/nowhere:1")
    sweep = namespace.sweep(tmp_path, settings, parameters=ONE)
    done = sweep.run("cells")
    assert done.returncode != 0
    assert "ErrImageNeverPull: image localhost/nowhere:1" in done.stdout
    assert namespace.left() == {}


def test_an_rtt_that_no_path_has_is_refused_with_those_that_exist(namespace: Space, tmp_path: Path) -> None:
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name), parameters={**ONE, "rtt": "50 ms"})
    done = sweep.run("cells")
    assert done.returncode != 0
    assert "one of 0 ms, 20 ms" in done.stdout


def started(namespace: Space, folder: Path) -> tuple[ClusterSweep, Any]:
    """A sweep of three cells whose first one is being measured."""
    sweep = namespace.sweep(folder, local_testbed(namespace.name), parameters=ONE)
    run = sweep.start("cells")

    def measuring() -> bool:
        return "cell 1/3" in sweep.output() or run.poll() is not None

    wait_until(measuring, f"the first cell has ended: {sweep.output()}", 90)
    assert run.poll() is None, sweep.output()
    return sweep, run
