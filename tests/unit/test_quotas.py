# SPDX-License-Identifier: Apache-2.0
"""Quotas: what is set is what was asked for, and what cells say that they were measured under."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.configuration.loading import wanted
from tpcsweep.linux import cgroups
from tpcsweep.linux.cgroups import FEWEST_CORES, PERIOD, Cgroup, CgroupError, Hierarchy, Quota, quota

from tests.support.projects import loaded, problems


@given(st.floats(FEWEST_CORES, 0.0099) | st.floats(0.01, 0.0999) | st.floats(0.1, 1024))
def test_a_quota_is_what_was_asked_for_with_the_shortest_period_that_gives_enough_time(cores: float) -> None:
    chosen = quota(cores)
    assert chosen.cores == pytest.approx(cores, rel=0.000501)
    assert chosen.time >= cgroups.SHORTEST_QUOTA
    if cores >= 0.1:
        assert chosen.period == PERIOD
    elif cores >= 0.01:
        assert chosen.time == pytest.approx(cgroups.ENOUGH, abs=1)
        assert PERIOD < chosen.period <= cgroups.LONGEST_PERIOD
    else:
        assert chosen.period == cgroups.LONGEST_PERIOD


V1 = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}
V2 = {"cpu.max": "max 100000"}


@pytest.mark.parametrize(("version", "files"), [(1, V1), (2, V2)])
def test_a_groups_quota_is_read_as_it_was_set(tmp_path: Path, version: int, files: dict[str, str]) -> None:
    group = Cgroup(Hierarchy(version, tmp_path, tmp_path), "tpc-x-src1")
    (tmp_path / group.name).mkdir()
    for name, text in files.items():
        (tmp_path / group.name / name).write_text(f"{text}\n")
    assert group.quota() is None
    for allowed in (Quota(5_000, 100_000), Quota(1_000, 250_000), None):
        group.limit(allowed)
        assert group.quota() == allowed


def test_a_quota_that_the_kernel_refuses_is_named(tmp_path: Path) -> None:
    group = Cgroup(Hierarchy(2, tmp_path, tmp_path), "tpc-x-src1")
    (tmp_path / group.name / "cpu.max").mkdir(parents=True)  # no file
    with pytest.raises(CgroupError, match=r"tpc-x-src1/cpu\.max cannot be 5000 100000: Is a directory"):
        group.limit(Quota(5_000, 100_000))


def test_what_no_quota_can_be_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match=r"needs 0\.001 or more"):
        quota(0.0009)
    assert problems(root, "parameters: {cores: [0.003, 0.5], origins: [1, 3, 4]}") == [
        "config/sweeps/one.yaml: parameters.cores[0]: given 0.003 with origins 4, allowed: at least 0.004, as each "
        "origin gets an equal share, and the kernel has no quota of less than 1 ms in a second"
    ]


def test_cells_with_the_usual_period_are_what_they_were(root: Path) -> None:
    # The first cannot be measured, and may be looked at.
    few = loaded(root, "parameters: {cores: [0.001, 0.02, 0.2, 0.4, null], origins: 4}")
    conditions = [wanted(few, cell).get("conditions") for cell in few.grid.cells]
    assert conditions == [*({"cpu_period": period} for period in (10**6, 10**6, 200_000)), None, None]
