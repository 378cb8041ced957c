# SPDX-License-Identifier: Apache-2.0
"""Cgroups: the hierarchy of a machine, its groups, and quotas: what is set is what was asked for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.configuration.loading import wanted
from tpcsweep.linux import cgroups
from tpcsweep.linux.cgroups import (
    FEWEST_CORES,
    PERIOD,
    Cgroup,
    CgroupError,
    Hierarchy,
    Quota,
    hierarchy,
    parse_usage,
    quota,
)

from tests.support.projects import loaded, problems

V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
V1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
V1 += "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
V1_APART = "cgroup /c/cpu cgroup rw,cpu 0 0\ncgroup /c/cpuacct cgroup rw,cpuacct 0 0\n"
ROOT = Path("/sys/fs/cgroup")


def test_finds_the_hierarchy_that_has_the_cpu_controller() -> None:
    assert hierarchy(V2) == Hierarchy(2, ROOT, ROOT)
    assert hierarchy(V1) == Hierarchy(1, ROOT / "cpu,cpuacct", ROOT / "cpu,cpuacct")
    assert hierarchy(V1_APART) == Hierarchy(1, Path("/c/cpu"), Path("/c/cpuacct"))
    with pytest.raises(CgroupError, match="mount cgroup2"):
        hierarchy("proc /proc proc rw 0 0\n")


def test_usage_is_read_of_both_versions_and_a_group_in_two_hierarchies_is_entered_in_both() -> None:
    assert parse_usage(b"123456789\n") == 123456789
    assert parse_usage(b"usage_usec 42\nuser_usec 40\n") == 42
    group = Cgroup(hierarchy(V1_APART), "tpc-x-src1")
    assert group.folders == (Path("/c/cpu/tpc-x-src1"), Path("/c/cpuacct/tpc-x-src1"))
    assert group.entry()[-2:] == [f"{folder}/cgroup.procs" for folder in group.folders]


def test_version_2_without_the_cpu_controller_says_so(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    (tmp_path / "cgroup.controllers").write_text("memory pids\n")
    with pytest.raises(CgroupError, match="lacks cpu"):
        Cgroup(Hierarchy(2, tmp_path, tmp_path), "tpc-x").create(1.0)


def test_a_process_of_an_outer_pid_namespace_is_no_process_to_be_killed(tmp_path: Path) -> None:
    group = Cgroup(Hierarchy(2, tmp_path, tmp_path), "tpc-x-src1")
    (tmp_path / group.name).mkdir()
    (tmp_path / group.name / "cgroup.procs").write_text("0\n42\n")
    assert group.pids() == {42}


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


QUOTA_V1 = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}
QUOTA_V2 = {"cpu.max": "max 100000"}


@pytest.mark.parametrize(("version", "files"), [(1, QUOTA_V1), (2, QUOTA_V2)])
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
