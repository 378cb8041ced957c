# SPDX-License-Identifier: Apache-2.0
"""A whole deployment on a kernel with netem and cgroup v2: both are used there, and a file gets across."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.linux import uml

pytestmark = pytest.mark.real

INSIDE = Path(__file__).parent / "uml"

SCRIPT = f"""
mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/all && mount -t cgroup2 none /sys/fs/cgroup/all
{sys.executable} {uml.MODULES} sch_netem sch_tbf veth bridge || exit 1
{sys.executable} {INSIDE / "deployment.py"} 2>/run/error || {{ cat /run/error /run/logs/*; exit 1; }}
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(uml.run(SCRIPT, tmp_path_factory.mktemp("uml")))
    return result


def test_a_cell_is_measured_over_netem(found: dict[str, Any]) -> None:
    assert found["provenance"]["path"]["emulator"] == "netem"
    assert found["status"] == "ok", found["message"]
    assert found["summary"]["transfers"] > 0
    assert found["summary"]["throughput"] < 0.01


def test_the_quota_is_that_of_cgroup_version_2(found: dict[str, Any]) -> None:
    assert found["provenance"]["cgroup_version"] == 2
    assert found["provenance"]["quotas"]["dst"] == {"cores": 0.2, "period": 100.0}
    assert found["summary"]["destination_cpu"] > 0


def test_nothing_is_left(found: dict[str, Any]) -> None:
    assert found["left"] == []
