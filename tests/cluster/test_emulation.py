# SPDX-License-Identifier: Apache-2.0
"""Paths that are emulated in the pods, which takes a privilege that the restricted security standard forbids."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpcsweep.paths import netem_works

from tests.cluster.sweeps import ONE, ClusterSweep, Space, local_testbed, on, space


@pytest.fixture(scope="module")
def namespace(kubeconfig: Path) -> Iterator[Space]:
    with space(kubeconfig, "tpcsweep-emulation", security="privileged") as made:
        yield made


@pytest.fixture(scope="module")
def emulated(namespace: Space, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """A sweep that has run as far as this kernel can emulate."""
    paths = {"kind": "netem", "pairs": [{"source": on("n1"), "destination": on("n2")}]}
    axes = {"rtt": ["0 ms"], "origins": [2]}
    sweep = namespace.sweep(
        tmp_path_factory.mktemp("emulated"),
        local_testbed(namespace.name, paths=paths),
        parameters={**ONE, **axes, "streams": 2, "bandwidth": "100 Mbit/s"},
        include=[{"rtt": "20 ms", "origins": 1}],
    )
    done = sweep.run("--keep-going", "cells")
    (sweep.folder / "output.log").write_text(done.stdout)
    assert (done.returncode == 0) == netem_works(), done.stdout
    namespace.check_empty()
    return sweep


def test_bandwidth_is_limited_towards_the_other_side(emulated: ClusterSweep) -> None:
    [cell] = [cell for cell in emulated.records() if cell["spec"]["parameters"]["rtt"] == 0]
    assert cell["status"] == "ok", cell["message"]
    # A little more than the rate passes while a full bucket empties.
    assert 0.02 < cell["summary"]["throughput"] < 0.11
    assert cell["provenance"]["path"]["emulator"] == "netem"
    # Each of the two origins makes its share.
    assert "tbf rate 50000000bit" in json.dumps(cell["provenance"]["path"]["qdiscs"])


def test_a_delay_is_made_or_refused_with_what_the_kernel_lacks(emulated: ClusterSweep) -> None:
    found = [cell for cell in emulated.records() if cell["spec"]["parameters"]["rtt"] == 20]
    if netem_works():
        [cell] = found
        assert abs(cell["summary"]["rtt_idle"] - 20) < 2
    else:
        assert not [cell for cell in found if cell["status"] == "ok"]
        assert "sch_netem" in emulated.output()
