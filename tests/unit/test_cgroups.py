# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from tpcsweep.linux.cgroups import Cgroup, CgroupError, Hierarchy, hierarchy, parse_usage

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
