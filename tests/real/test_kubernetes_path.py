# SPDX-License-Identifier: Apache-2.0
"""How agents in pods look at a path, on a real one between namespaces. Needs root."""

import subprocess
from pathlib import Path as File
from typing import Any

import pytest
from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.paths import Path, PathError
from tpcsweep.testbeds.kubernetes import verify as module
from tpcsweep.testbeds.kubernetes.verify import FoundPath, verify_pods
from tpcsweep.xrootd.servers import USUAL

from tests.support.agents import TCP_BUFFER, played


def look(asked: Path, real: Path, folder: File, *, strict: bool = False) -> FoundPath:
    shape: dict[str, Any] = {"rtt": asked.rtt, "bandwidth": asked.bandwidth, "mtu": asked.mtu}
    wanted = DeploymentParameters(**shape, tcp_buffer=TCP_BUFFER)
    with played(real, folder) as (session, ends, _):
        return verify_pods(session, wanted, ends, strict=strict)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "rtt", "mtu"),
    [(0.2, 0, 1500), (0.2, 20, 1500), (0.2, 0, 9000), (0.2, 20, 9000), (0.25, 0, 1500), (0.25, 20, 1500)],
)
def test_a_path_is_found_as_it_is_or_not_known(asked: float, rtt: float, mtu: int, tmp_path: File) -> None:
    found = look(Path(rtt, asked, mtu=mtu), Path(rtt, 0.2, mtu=mtu), tmp_path)
    for rate in found.rates:
        # Less than was asked may be this machine, busy with other things: then nobody saw all of it.
        assert abs(rate.found / 0.2 - 1) < 0.05 if rate.known else asked > 0.2
    assert found.slow == (asked > 0.2 and any(rate.known for rate in found.rates))


def test_a_path_of_another_rtt_is_refused_with_its_own_however_often_it_is_looked_at(tmp_path: File) -> None:
    said = r"measured (?!1 )\d+ times, .*rtt asked 5 ms, found 0\.[0-2]\d* ms"
    with pytest.raises(PathError, match=said):
        look(Path(5, 0.2), Path(0, 0.2), tmp_path)


def test_what_windows_are_too_small_for_is_not_held_against_the_path(tmp_path: File) -> None:
    """Four windows of some KiB bring less than 0.2 Gbit/s over 20 ms, and no queue forms."""
    path = Path(20, 0.2)
    wanted = DeploymentParameters(rtt=20, bandwidth=0.2, mtu=path.mtu)
    with played(path, tmp_path) as (session, ends, link):
        # The session does not know of it, and opens no more connections.
        for name in (link.near, link.far):
            inside = ["nsenter", f"--net=/run/netns/{name}", "sysctl", "--quiet", "--write"]
            sizes = [f"net.ipv4.tcp_{kind}=4096 32768 65536" for kind in ("rmem", "wmem")]
            subprocess.run([*inside, *sizes], check=True)
        found = verify_pods(session, wanted, ends, strict=True)  # type: ignore[arg-type]
    assert not found.slow
    assert found.bandwidth is None
    assert all(0 < rate.found < 0.19 for rate in found.rates)


def test_a_path_is_left_empty(tmp_path: File) -> None:
    path = Path(20, 0.05)
    wanted = DeploymentParameters(rtt=20, bandwidth=0.05)
    with played(path, tmp_path) as (session, ends, _), module.probed(session, ends):  # type: ignore[arg-type]
        module._rate(session, wanted, ends, 20.0)  # type: ignore[arg-type]
        there = {"address": ends[0][1].address, "port": USUAL.probe}
        [(found, _mtu)] = session.tell(["src1"], "round_trips", **there, count=5).values()
        assert min(found) < 21
