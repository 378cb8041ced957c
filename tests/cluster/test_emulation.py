"""Paths that are emulated in the pods, which takes a privilege that the restricted security standard forbids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpcsweep.paths import netem_works

from tests.cluster.sweeps import Space, local_testbed, on, space

PATHS = {"kind": "netem", "pairs": [{"source": on("n1"), "destination": on("n2")}]}
CELLS = {"file_size": "8 MiB", "streams": 2, "tool": "curl", "bandwidth": "300 Mbit/s"}


@pytest.fixture(scope="module")
def namespace(kubeconfig: Path) -> Iterator[Space]:
    with space(kubeconfig, "tpcsweep-emulation", security="privileged") as made:
        yield made


def test_bandwidth_is_limited_towards_the_other_side(namespace: Space, tmp_path: Path) -> None:
    settings = local_testbed(namespace.name, paths=PATHS)
    sweep = namespace.sweep(tmp_path, settings, parameters={**CELLS, "rtt": "0 ms", "origins": [1, 2]})
    done = sweep.run("cells")
    assert done.returncode == 0, done.stdout
    for path in sweep.cells():
        cell = json.loads(path.read_bytes())
        assert cell["status"] == "ok", cell["message"]
        assert 0.1 < cell["summary"]["throughput"] < 0.3
        assert cell["provenance"]["path"]["emulator"] == "netem"
        share = 300_000_000 // cell["spec"]["parameters"]["origins"]
        assert f"tbf rate {share}bit" in json.dumps(cell["provenance"]["path"]["qdiscs"])
    assert namespace.left() == {}


def test_a_delay_is_made_or_refused_with_what_the_kernel_lacks(namespace: Space, tmp_path: Path) -> None:
    settings = local_testbed(namespace.name, paths=PATHS)
    sweep = namespace.sweep(tmp_path, settings, parameters={**CELLS, "rtt": "20 ms"})
    done = sweep.run("cells")
    if netem_works():
        [cell] = [json.loads(path.read_bytes()) for path in sweep.cells()]
        assert abs(cell["summary"]["rtt_idle"] - 20) < 0.5
    else:
        assert done.returncode != 0
        assert "sch_netem" in done.stdout
    assert namespace.left() == {}


def test_a_namespace_that_forbids_it_says_so(kubeconfig: Path, tmp_path: Path) -> None:
    with space(kubeconfig, "tpcsweep-restricted") as restricted:
        settings = local_testbed(restricted.name, paths=PATHS)
        done = restricted.sweep(tmp_path, settings, parameters={**CELLS, "rtt": "0 ms"}).run("cells")
        assert done.returncode != 0
        assert 'violates PodSecurity "restricted' in done.stdout
        assert "NET_ADMIN" in done.stdout
        assert restricted.left() == {}
