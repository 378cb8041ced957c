# SPDX-License-Identifier: Apache-2.0
"""Netem, and a whole deployment with cgroup v2, in a user-mode-linux kernel, whatever this one has."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import uml
from tpcsweep.deploying.paths.link import DIRECTIONS

from tests.support.readable import readable
from tests.support.workflow import HANGS, ROOT

INSIDE = Path(__file__).parent / "uml"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    script = (
        f"{sys.executable} {uml.MODULES} sch_netem sch_tbf veth && "
        f"{sys.executable} {INSIDE / 'netem.py'} || {{ cat /run/commands.log; exit 1; }}\n"
    )
    result: dict[str, Any] = json.loads(uml.run(script, tmp_path_factory.mktemp("uml"), HANGS))
    return result


@pytest.mark.parametrize(
    ("path", "rtt", "emulator"), [("plain", 20, "netem"), ("lossy", 20, "netem"), ("none", 0, "none")]
)
def test_netem_is_chosen_and_makes_the_rtt_and_tbf_the_rate(
    found: dict[str, Any], path: str, rtt: float, emulator: str
) -> None:
    measured = found[path]["measured"]
    assert found[path]["described"]["emulator"] == emulator
    assert measured["rtt"]["median"] == pytest.approx(rtt, abs=0.4)
    assert [measured[name]["found"] for name in DIRECTIONS] == pytest.approx([0.02, 0.02], rel=0.05)


def test_the_kernel_shows_the_explicit_limit_with_tbf_as_child(found: dict[str, Any]) -> None:
    described = found["plain"]["described"]
    for netem, tbf in described["qdiscs"].values():
        assert (netem["kind"], tbf["kind"], tbf["parent"]) == ("netem", "tbf", "1:1")
        assert netem["options"]["limit"] == described["netem_limit_packets"] != 1000
        assert netem["options"]["delay"]["delay"] == pytest.approx(0.010)
        assert tbf["options"]["rate"] == 2_500_000  # bytes per second


def test_netem_loses_the_asked_fraction_at_random(found: dict[str, Any]) -> None:
    lossy = found["lossy"]
    expected, deviation = 0.05 * lossy["sent"], (0.05 * 0.95 * lossy["sent"]) ** 0.5
    assert abs(lossy["lost"] - expected) < 5 * deviation
    assert lossy["segmenting"] == ["ethtool", "-K", "eth0", "tso", "off", "gso", "off"]
    assert (found["plain"]["lost"], found["plain"]["segmenting"]) == (0, [])


def test_a_limit_that_is_asked_for_caps_the_rate(found: dict[str, Any]) -> None:
    limited = found["limited"]
    assert limited["measured"]["rtt"]["median"] == pytest.approx(40, abs=0.8)
    assert [netem["options"]["limit"] for netem, _ in limited["described"]["qdiscs"].values()] == [20, 20]
    cap = limited["described"]["queue_cap_gbit_per_s"]["packets_of_the_mtu"]
    assert cap == pytest.approx(0.012)
    # What is offered comes in packets of the MTU; the kernel counts the Ethernet header too. How near it comes to
    # the cap is a matter of when its sender wakes up.
    assert 0 < limited["measured"]["near_to_far"]["found"] < 1.2 * cap
    assert limited["queue"] > 0


PROGRAM = f"{sys.executable} {INSIDE / 'deployment.py'}"
MODULES = f"{sys.executable} {uml.MODULES} sch_netem sch_tbf veth bridge overlay || exit 1"
AS_ROOT = f"""
mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/all && mount -t cgroup2 none /sys/fs/cgroup/all
{MODULES}
{PROGRAM} /run/logs 2>/run/error || {{ cat /run/error /run/logs/*; exit 1; }}
"""
ANY_USER = f"""
mount -t tmpfs tmpfs /mnt || exit 1
{readable(ROOT, Path(sys.base_prefix))}
mkdir --mode=777 /run/home
"""
# The cgroup and the files by which it is divided are the user's, and the process is alone in it.
AS_USER = f"""
mount -t cgroup2 none /sys/fs/cgroup && cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir user || exit 1
chown nobody user user/cgroup.procs user/cgroup.subtree_control
{MODULES}
{ANY_USER}
cd / && sh -c 'echo 0 >/sys/fs/cgroup/user/cgroup.procs && HOME=/run/home exec "$@"' sh \\
  setpriv --reuid=nobody --regid=nogroup --clear-groups \\
  {PROGRAM} /run/home/logs 2>/run/error || {{ cat /run/error /run/home/logs/*; exit 1; }}
"""
# A service of a user's with a systemd of his own: from there it is in no cgroup of the user's, as after a login by ssh.
# Nothing is written to the machine's /etc and /var.
BY_SYSTEMD = f"""
mount -t cgroup2 none /sys/fs/cgroup || exit 1
{MODULES}
for folder in etc var; do
  mkdir -p /run/new/$folder /run/aside/$folder
  mount -t overlay overlay -o lowerdir=/$folder,upperdir=/run/new/$folder,workdir=/run/aside/$folder /$folder || exit 1
done
{ANY_USER}
mkdir /mnt/checkout && mount --bind {ROOT} /mnt/checkout || exit 1
mount -t tmpfs -o mode=1777 tmpfs /tmp || exit 1
# It may be below /tmp.
mkdir -p {ROOT} && mount --bind /mnt/checkout {ROOT} || exit 1
useradd --uid 4242 --no-create-home --home-dir /run/home tester || exit 1
mkdir -p /run/systemd/system && cd /run/systemd/system || exit 1
cat >test.service <<END
[Unit]
DefaultDependencies=no
Requires=dbus.service user@4242.service
After=dbus.service user@4242.service
[Service]
Type=oneshot
User=tester
Environment=HOME=/run/home
ExecStart={PROGRAM} /run/home/logs
StandardOutput=file:/run/home/found
StandardError=file:/run/home/error
ExecStopPost=+/bin/systemctl --no-block exit
END
for unit in local-fs.target swap.target \\
    systemd-journald.service systemd-journald.socket systemd-journald-audit.socket \\
    systemd-journald-dev-log.socket systemd-journal-flush.service systemd-remount-fs.service systemd-sysctl.service \\
    systemd-modules-load.service systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service \\
    systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service \\
    systemd-update-utmp.service systemd-binfmt.service kmod-static-nodes.service; do
  ln -s /dev/null $unit
done
container=uml unshare --pid --fork --mount-proc --kill-child \\
  /lib/systemd/systemd --system --unit=test.service --log-target=console </dev/null >/run/systemd.log 2>&1
[ -s /run/home/found ] || {{ tail -50 /run/systemd.log; cat /run/home/error /run/home/logs/*; exit 1; }}
cat /run/home/found
"""


@pytest.mark.parametrize("script", [AS_ROOT, AS_USER, BY_SYSTEMD], ids=["root", "user", "systemd"])
def test_a_cell_is_measured_over_netem_under_quotas_of_cgroup_2(script: str, tmp_path: Path) -> None:
    found = json.loads(uml.run(script, tmp_path, HANGS))
    assert found["status"] == "ok", found["message"]
    provenance, summary = found["provenance"], found["summary"]
    assert (provenance["path"]["emulator"], provenance["cgroup_version"]) == ("netem", 2)
    assert provenance["quotas"]["dst"] == {"cores": 0.2, "period": 100.0}
    assert summary["transfers"] > 0 and summary["destination_cpu"] > 0
    assert summary["throughput"] < 0.01
    assert found["left"] == []
