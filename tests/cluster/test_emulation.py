# SPDX-License-Identifier: Apache-2.0
"""Paths that are emulated in the pods, which takes a privilege that the restricted security standard forbids."""

import json
from pathlib import Path

from tpcsweep.deploying.paths.link import netem_works

from tests.cluster.sweeps import ONE, local_testbed, on, space


def test_bandwidth_is_limited_and_a_delay_is_made_or_refused(kubeconfig: Path, tmp_path: Path) -> None:
    """As far as this kernel can emulate; a refusal says what it lacks."""
    paths = {"kind": "netem", "pairs": [{"source": on("n1"), "destination": on("n2")}]}
    with space(kubeconfig, "tpcsweep-emulation", security="privileged") as namespace:
        sweep = namespace.sweep(
            tmp_path,
            local_testbed(namespace.name, paths=paths),
            parameters={**ONE, "rtt": ["0 ms"], "origins": [2], "streams": 2, "bandwidth": "100 Mbit/s"},
            include=[{"rtt": "20 ms", "origins": 1}],
        )
        done = sweep.run("--keep-going", "cells")
        assert (done.returncode == 0) == netem_works(), done.stdout
        namespace.check_empty()
    cells = {cell["spec"]["parameters"]["rtt"]: cell for cell in sweep.records() if cell["status"] == "ok"}
    assert sorted(cells) == ([0, 20] if netem_works() else [0]), done.stdout
    # A little more than the rate passes while a full bucket empties.
    assert 0.02 < cells[0]["summary"]["throughput"] < 0.11
    assert cells[0]["provenance"]["path"]["emulator"] == "netem"
    # Each of the two origins makes its share.
    assert "tbf rate 50000000bit" in json.dumps(cells[0]["provenance"]["path"]["qdiscs"])
    if netem_works():
        assert abs(cells[20]["summary"]["rtt_idle"] - 20) < 2
    else:
        assert "sch_netem" in done.stdout
