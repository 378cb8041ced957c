# SPDX-License-Identifier: Apache-2.0
"""A whole deployment on a kernel with netem and cgroup v2: both are used there, and a file gets across."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.linux import uml

from tests.support.readable import readable
from tests.support.workflow import ROOT

pytestmark = pytest.mark.real

INSIDE = Path(__file__).parent / "uml"

BEGINNING = f"""
mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/all && mount -t cgroup2 none /sys/fs/cgroup/all
{sys.executable} {uml.MODULES} sch_netem sch_tbf veth bridge || exit 1
"""
AS_ROOT = f"""
{sys.executable} {INSIDE / "deployment.py"} /run/logs 2>/run/error || {{ cat /run/error /run/logs/*; exit 1; }}
"""
# As a systemd does it: the cgroup and the files by which it is divided are the user's.
AS_USER = f"""
mount -t tmpfs tmpfs /mnt || exit 1
{readable(ROOT, Path(sys.base_prefix))}
cd /sys/fs/cgroup/all && echo +cpu >cgroup.subtree_control && mkdir user || exit 1
chown nobody user user/cgroup.procs user/cgroup.subtree_control
mkdir --mode=777 /run/home && cd /run/home || exit 1
sh -c 'echo 0 >/sys/fs/cgroup/all/user/cgroup.procs && HOME=/run/home exec "$@"' sh \
  setpriv --reuid=nobody --regid=nogroup --clear-groups \
  {sys.executable} {INSIDE / "deployment.py"} /run/home/logs 2>/run/error ||
  {{ cat /run/error /run/home/logs/*; exit 1; }}
"""


@pytest.fixture(scope="module", params=[AS_ROOT, AS_USER], ids=["root", "user"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    output = uml.run(BEGINNING + request.param, tmp_path_factory.mktemp("uml"))
    result: dict[str, Any] = json.loads(output)
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
