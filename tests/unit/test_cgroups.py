# SPDX-License-Identifier: Apache-2.0
"""Cgroups and their quotas, and what an ordinary user has instead: what keeps a user from measuring, in words."""

import errno
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.common.files import write_text
from tpcsweep.deploying.linux import cgroups, rootless
from tpcsweep.deploying.linux.cgroups import Cgroup, CgroupError, Hierarchy, Quota, hierarchy
from tpcsweep.deploying.linux.rootless import quota_refusal, refusal_text
from tpcsweep.sweeps.study import cell_spec
from tpcsweep.testbeds.netns import requirements
from tpcsweep.testbeds.netns import requirements as netns
from tpcsweep.testbeds.netns.requirements import MachineError

from tests.support.projects import cases, loaded, problems

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


def test_a_group_in_two_hierarchies_is_entered_in_both() -> None:
    group = Cgroup(hierarchy(V1_APART), "tpc-x-src1")
    assert group.folders == (Path("/c/cpu/tpc-x-src1"), Path("/c/cpuacct/tpc-x-src1"))
    assert group.entry()[-2:] == [f"{folder}/cgroup.procs" for folder in group.folders]


@pytest.fixture
def group(tmp_path: Path) -> Cgroup:
    """A group of version 2 whose files are those of a folder."""
    (tmp_path / "tpc-x-src1").mkdir()
    return Cgroup(Hierarchy(2, tmp_path, tmp_path), "tpc-x-src1")


def test_version_2_without_the_cpu_controller_says_so(group: Cgroup, tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    (tmp_path / "cgroup.controllers").write_text("memory pids\n")
    with pytest.raises(CgroupError, match="lacks cpu"):
        group.create(1.0)


def test_a_process_of_an_outer_pid_namespace_is_no_process_to_be_killed(group: Cgroup) -> None:
    (group.folders[0] / "cgroup.procs").write_text("0\n42\n")
    assert group.pids() == {42}


@given(st.floats(cgroups.FEWEST_CORES, 0.0099) | st.floats(0.01, 0.0999) | st.floats(0.1, 1024))
def test_a_quota_is_what_was_asked_for_with_the_shortest_period_that_gives_enough_time(cores: float) -> None:
    chosen = cgroups.quota(cores)
    assert chosen.cores == pytest.approx(cores, rel=0.000501)
    assert chosen.time >= cgroups.SHORTEST_QUOTA
    if cores >= 0.1:
        assert chosen.period == cgroups.PERIOD
    elif cores >= 0.01:
        assert chosen.time == pytest.approx(cgroups.RECOMMENDED_QUOTA, abs=1)
        assert cgroups.PERIOD < chosen.period <= cgroups.LONGEST_PERIOD
    else:
        assert chosen.period == cgroups.LONGEST_PERIOD


QUOTA_V1 = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}
QUOTA_V2 = {"cpu.max": "max 100000"}


@pytest.mark.parametrize(("version", "files"), [(1, QUOTA_V1), (2, QUOTA_V2)])
def test_a_groups_quota_is_read_as_it_was_set(group: Cgroup, version: int, files: dict[str, str]) -> None:
    group = replace(group, tree=replace(group.tree, version=version))
    for name, text in files.items():
        (group.folders[0] / name).write_text(f"{text}\n")
    assert group.quota() is None
    for allowed in (Quota(5_000, 100_000), Quota(1_000, 250_000), None):
        group.limit(allowed)
        assert group.quota() == allowed


@pytest.mark.parametrize(
    ("fails", "code", "told"),
    [
        ("subtree_control", errno.EBUSY, "has processes.* docker run --cgroupns host"),
        ("subtree_control", errno.EINVAL, "real-time processes.* chrt --other"),
        ("subtree_control", errno.EROFS, "mount it writable"),
        ("subtree_control", errno.EACCES, "run as root"),
        ("src2", errno.ENOSPC, "too many groups"),
        ("src2", errno.EAGAIN, "too many groups"),
        ("src2", errno.EPERM, "run as root"),
        ("src2", errno.EEXIST, "tpcsweep reap"),
        ("src2", errno.EINVAL, None),
        ("src2", errno.ENOMEM, None),
    ],
)
def test_the_remedy_for_a_group_that_cannot_be_made_is_that_of_the_error(
    group: Cgroup, monkeypatch: pytest.MonkeyPatch, fails: str, code: int, told: str | None
) -> None:
    """Its message names the file; an error without a known remedy has none."""
    group = replace(group, name="tpc-x-src2")
    (group.tree.cpu / "cgroup.subtree_control").write_text("")
    (group.tree.cpu / "cgroup.controllers").write_text("cpu\n")

    def refuse(path: Path, *_: object) -> None:
        if path.name.endswith(fails):
            raise OSError(code, os.strerror(code), str(path))

    for change in ("write_text", "mkdir"):
        monkeypatch.setattr(Path, change, refuse)
    remedy = f": .*{told}" if told else "$"
    with pytest.raises(CgroupError, match=f"{fails}: {os.strerror(code)}{remedy}"):
        group.create()


def test_a_quota_that_the_kernel_refuses_is_named(group: Cgroup) -> None:
    (group.folders[0] / "cpu.max").mkdir()  # no file
    with pytest.raises(CgroupError, match=r"tpc-x-src1/cpu\.max cannot be 5000 100000: Is a directory"):
        group.limit(Quota(5_000, 100_000))


def test_impossible_quotas_are_refused(root: Path) -> None:
    assert problems(root, "parameters: {cores: [0.003, 0.5], origins: [1, 3, 4]}") == [
        "config/sweeps/one.yaml: parameters.cores[0]: given 0.003 with origins 4, allowed: at least 0.004, as each "
        "origin gets an equal share, and the kernel has no quota of less than 1 ms in a second"
    ]


def test_the_default_period_adds_no_condition(root: Path) -> None:
    # The first cannot be measured, and may be looked at.
    few = loaded(root, "parameters: {cores: [0.001, 0.02, 0.2, 0.4, null], origins: 4}")
    conditions = [cell_spec(few, cell).get("conditions") for cell in few.grid.cells]
    assert conditions == [*({"cpu_period": period} for period in (10**6, 10**6, 200_000)), None, None]


SAID = "unshare: unshare failed: Operation not permitted"
USERS, NETWORKS = "user.max_user_namespaces", "user.max_net_namespaces"
CLONE, APPARMOR = "kernel.unprivileged_userns_clone", "kernel.apparmor_restrict_unprivileged_userns"


@pytest.mark.parametrize(
    ("sysctls", "proc", "told"),
    [
        ({}, {}, ["the kernel has no user namespaces (CONFIG_USER_NS)"]),
        ({CLONE: 1, APPARMOR: 0, USERS: 9}, {"self/ns/user": ""}, ["no known setting"]),
        (
            {USERS: 0, NETWORKS: 0, CLONE: 0, APPARMOR: 1},
            {"self/ns/user": "", "self/status": "Seccomp:\t2\n"},
            [
                *(f"sysctl {USERS} is 0: as root, sysctl -w {USERS}=10000", f"{NETWORKS} is 0"),
                *(f"as root, sysctl -w {CLONE}=1", f"as root, sysctl -w {APPARMOR}=0"),
                "run --security-opt seccomp=unconfined",
            ],
        ),
    ],
)
def test_all_that_forbids_namespaces_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sysctls: Any, proc: Any, told: list[str]
) -> None:
    monkeypatch.setattr(rootless, "PROC", tmp_path)
    settings = {f"sys/{name.replace('.', '/')}": f"{value}\n" for name, value in sysctls.items()}
    for name, text in ({"self/status": "Seccomp:\t0\n"} | proc | settings).items():
        write_text(tmp_path / name, text)
    said = refusal_text(SAID)
    assert [text for text in told if text not in said] == []
    assert ("CONFIG_USER_NS" in said, "seccomp" in said) == (not proc, "self/status" in proc)
    assert said.endswith(f"({SAID})")


def test_a_limit_that_is_reached_is_not_taken_for_what_forbids_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rootless, "PROC", tmp_path)
    for name, text in {
        "self/ns/user": "",
        "self/status": "Seccomp:\t2\n",
        f"sys/{USERS.replace('.', '/')}": "9",
    }.items():
        write_text(tmp_path / name, text)
    said = refusal_text("unshare: unshare failed: No space left on device")
    assert f"as root, sysctl -w {USERS}=18" in said
    assert "seccomp" not in said


@pytest.mark.parametrize(
    ("lacking", "told"),
    [
        ("", ""),
        ("hierarchy", "boot with systemd.unified_cgroup_hierarchy=1"),
        ("program", "systemd-run is missing"),
        ("manager", "loginctl enable-linger"),
        ("controller", "Delegate=cpu pids memory"),
    ],
)
def test_what_keeps_quotas_away_is_named(tmp_path: Path, monkeypatch: Any, lacking: str, told: str) -> None:
    user = os.getuid()
    own = tmp_path / f"user.slice/user-{user}.slice/user@{user}.service"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("memory pids" if lacking == "controller" else "cpu memory")
    if lacking != "manager":
        (tmp_path / "systemd").mkdir()
        (tmp_path / "systemd/private").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(rootless, "mounted", lambda: None if lacking == "hierarchy" else tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None if lacking == "program" else f"/bin/{name}")
    assert (told in quota_refusal()) if told else not quota_refusal()


def test_missing_rights_of_a_root_are_named() -> None:
    ask = [
        sys.executable,
        "-c",
        "from tpcsweep.deploying.linux import rootless; print(rootless.namespace_refusal())",
    ]
    if os.geteuid() or rootless.lacking_rights(Path("/proc/self/status").read_text()):
        pytest.skip("needs all rights of root")
    command = ["setpriv", "--bounding-set=-chown,-net_raw", "--", *ask]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("this root has no CAP_CHOWN, CAP_NET_RAW: in a container")


REFUSED = """
cores: [0.5, null]
    cores[0]: given 0.5, allowed: null, or any as root: this user cannot set CPU quotas, as there is no hierarchy
layer: [memory_to_memory, memory_to_disk]
    layer[1]: given memory_to_disk, allowed: network or memory_to_memory: /var/lib/tpcsweep (disk in
        config/testbeds/one.yaml) cannot be written to by this user: name another folder there, or be root
"""


@pytest.mark.parametrize(("asked", "told"), cases(REFUSED))
def test_a_users_limits_are_refused(root: Path, asked: str, told: list[str]) -> None:
    sweep = f"parameters: {{{asked}}}"
    assert problems(root, sweep) == []
    found = problems(root, sweep, no_quotas="there is no hierarchy", disk_writable=False)
    assert found == [f"config/sweeps/one.yaml: parameters.{line}" for line in told]


def test_a_plain_group_has_a_process_with_its_children_and_counts_their_time(tmp_path: Path) -> None:
    group = Hierarchy(0, tmp_path, tmp_path).group("tpc-x-src1").create()
    script = "import os; os.fork(); os.write(1, b'%d\\n' % os.getpid()); sum(range(10**6)); input()"
    command = [*group.entry(), sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        pids = {int(started.stdout.readline()) for _ in range(2)}
        read, used = group.counters(ExitStack()), 0.0
        while used == 0:  # both have something to do
            used = read(["usage_usec"])["usage_usec"]
        assert started.pid in pids <= group.pids()
        assert (group.quota(), read(["nr_periods"])) == (None, {"nr_periods": 0})
        started.kill()
        for pid in pids - {started.pid}:
            os.kill(pid, 9)
    assert cgroups.cgroups_with_prefix(group.tree, "tpc-x-") == [group]
    group.remove()
    assert cgroups.cgroups_with_prefix(group.tree, "tpc-x-") == []


def test_plain_groups_have_no_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "PLAIN_GROUPS", tmp_path)
    assert hierarchy() == Hierarchy(0, tmp_path, tmp_path)
    with pytest.raises(CgroupError, match="without cgroups there are no quotas"):
        hierarchy().group("tpc-x-src1").create(0.5)


GRIDFTP = "globus-url-copy globus-gridftp-server"
WHOLE: dict[str, Any] = {"programs": "", "refused": "", "netem": True, "tun": "tun", "groups": ""}
WHOLE |= {"files": 1024, "user": "root"}


def machine(folder: Path, patch: pytest.MonkeyPatch, **lacking: Any) -> None:
    """Make this the machine of a root who lacks nothing but what is given."""
    its = SimpleNamespace(**WHOLE | lacking)
    missing, groups = its.programs.split(), Hierarchy(1, folder / its.groups, folder)
    patch.setattr("os.geteuid", lambda: 1000 if its.refused else 0)
    patch.setattr("shutil.which", lambda name, **_: None if name in missing else "/bin/x")
    patch.setattr(netns, "netem_works", lambda: its.netem)
    patch.setattr(netns, "TUN", folder / its.tun)
    patch.setattr(rootless, "namespace_refusal", lambda: its.refused)
    patch.setattr(cgroups, "hierarchy", lambda: groups)
    patch.setattr("resource.getrlimit", lambda _: (its.files, its.files))
    patch.setattr(netns, "USER", its.user)


@pytest.mark.parametrize(
    ("lacking", "told"),
    [
        ({"programs": "xrootd tc"}, "xrootd, tc; .* `make setup`, or apt-get install iproute2 xrootd-"),
        ({"refused": "sysctl -w this=1"}, "need root or user namespaces.*: sysctl -w this=1"),
        ({"netem": False, "tun": "none"}, "/none .*No such.* modprobe sch_netem, or modprobe tun .*666"),
        (
            {"netem": False, "tun": "tun"},
            r"/tun for .* cannot be used \(Inappropriate ioctl for device\).* rm .*/tun, modprobe tun",
        ),
        ({"groups": "tun"}, "/tun/tpc-trial-.*: Not a directory$"),
        ({"files": 64}, "open no more than 64 files: ulimit -n 1024"),
        ({"user": "no-such-user"}, "there is no user no-such-user, .* useradd"),
        ({"programs": GRIDFTP}, r"make setup EXTRAS=globus`$"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: Any, lacking: Any, told: str) -> None:
    (tmp_path / "tun").touch()
    machine(tmp_path, monkeypatch, programs=GRIDFTP)
    requirements.require_machine(["curl"])  # which needs none of them
    machine(tmp_path, monkeypatch, **lacking)
    with pytest.raises(MachineError, match=told):
        requirements.require_machine(["curl", "globus-url-copy"])
