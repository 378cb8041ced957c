# SPDX-License-Identifier: Apache-2.0
"""Check a sweep against the limits of the netns testbed: its file and this machine."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from tpcsweep.deploying.linux import rootless
from tpcsweep.deploying.linux.cgroups import FEWEST_CORES
from tpcsweep.deploying.paths.network_path import LARGEST, LARGEST_BANDWIDTH, SMALLEST_RTT
from tpcsweep.deploying.xrootd.releases import (
    FIRST_MIRAGE,
    HTTP_CLIENT,
    ReleaseError,
    known_releases,
    release_in,
    version_number,
)
from tpcsweep.sweeps.problems import Problem, suggest
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.units import CORES, RATE, RTT, SIZE, show
from tpcsweep.testbeds.netns.requirements import emulator
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.rules import (
    Rule,
    at_most,
    broken,
    count_files,
    emulated_path_rules,
    enough_cores,
    everywhere,
    known_word,
    rounded,
    server_rules,
)

IN_MEMORY = ("tmpfs", "ramfs")
_CONGESTION_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True, slots=True)
class NetnsMachine:
    cpus: int
    memory: int  # available bytes
    smallest_rtt: float  # the smallest RTT above 0 of an emulated path, ms
    congestion_controls: Collection[str]
    disk: int  # free bytes on the testbed's disk
    disk_kind: str  # the file system of the testbed's disk
    largest_bandwidth: float = LARGEST  # the largest bandwidth of a path with an RTT or a loss, Gbit/s
    no_quotas: str = ""  # why this user's programs cannot have CPU quotas, and the fix; empty if they can
    disk_writable: bool = True


def this_machine(disk: str) -> NetnsMachine:
    """Return this machine's capacity for this process; the folder `disk` may not exist yet."""
    folder = next(path for path in (Path(disk), *Path(disk).parents) if path.is_dir()).resolve()
    made_by = emulator()
    kinds = {Path(mount.mountpoint): mount.fstype for mount in psutil.disk_partitions(all=True)}
    return NetnsMachine(
        cpus=len(os.sched_getaffinity(0)),
        memory=psutil.virtual_memory().available,
        smallest_rtt=SMALLEST_RTT[made_by],
        largest_bandwidth=LARGEST_BANDWIDTH[made_by],
        congestion_controls=tuple(_CONGESTION_CONTROLS.read_text().split()),
        disk=psutil.disk_usage(str(folder)).free,
        no_quotas=rootless.quota_refusal() if os.geteuid() else "",
        disk_writable=os.access(folder, os.W_OK | os.X_OK),
        disk_kind=next((kinds[mount] for mount in (folder, *folder.parents) if mount in kinds), ""),
    )


def check(study: SweepStudy, machine: NetnsMachine | None = None) -> list[Problem]:
    """List the problems of a sweep on a machine, by default this one."""
    testbed, file = study.testbed, study.testbed_file
    assert isinstance(testbed, Netns)
    machine = machine or this_machine(testbed.disk)
    memory = testbed.memory or machine.memory // 2
    memory_of = f"memory in {file}" if testbed.memory else "half of what this machine has available"
    problems = []
    if testbed.cpus is not None and testbed.cpus > machine.cpus:
        allowed = f"at most {machine.cpus}, the CPUs of this machine"
        problems.append(Problem("cpus", str(testbed.cpus), allowed, file))
    if testbed.memory is not None and testbed.memory > machine.memory:
        allowed = f"at most {rounded(machine.memory)}, what this machine has available"
        problems.append(Problem("memory", show(testbed.memory, SIZE), allowed, file))
    rules = [*_rules(testbed, file, machine), *everywhere(memory, memory_of)]
    return [*problems, *broken(rules, study)]


def _rules(testbed: Netns, file: str, machine: NetnsMachine) -> list[Rule]:
    cpus = testbed.cpus or machine.cpus
    cpus_of = f"cpus in {file}" if testbed.cpus else "the CPUs of this machine"

    def quota(cores: float | None) -> str | None:
        if cores is None or not machine.no_quotas:
            return None
        return f"null, or any as root: this user cannot set CPU quotas, as {machine.no_quotas}"

    def xrootd(name: str) -> str | None:
        names = known_releases(release.name for release in testbed.releases)
        if name not in names:
            return f"{suggest(name, names)} (or a name in releases of {file})"
        if folder := testbed.own_releases.get(name):
            try:
                release_in(name, folder)
            except ReleaseError as error:
                return f"an installed release (releases in {file}): {error}"
        return None

    def mirage(value: str, release: str) -> str | None:
        # A site's own release is known when its servers start.
        older = release not in testbed.own_releases and version_number(release) < FIRST_MIRAGE
        if value == "mirage" and older:
            return (
                f"others with xrootd {release}: mirage needs {HTTP_CLIENT}, or another release from 6.2.0 on"
            )
        return None

    def layer(value: str) -> str | None:
        disk = f"network or memory_to_memory: {testbed.disk} (disk in {file})"
        if "disk" in value and machine.disk_kind in IN_MEMORY:
            return f"{disk} is on {machine.disk_kind}, which is memory"
        if "disk" in value and not machine.disk_writable:
            return f"{disk} cannot be written to by this user: name another folder there, or be root"
        return None

    def files(size: int, streams: int, content: str, layer: str) -> str | None:
        count = count_files(layer, streams, content).disk
        if count * size <= machine.disk:
            return None
        where = f"{testbed.disk} (disk in {file})"
        return f"at most {rounded(machine.disk // count)}: {count} files in {rounded(machine.disk)}, free at {where}"

    return [
        at_most("cores", cpus / 2, CORES, f", half of {cpus} ({cpus_of})"),
        enough_cores(FEWEST_CORES, "the kernel has no quota of less than 1 ms in a second"),
        at_most("rtt", testbed.max_rtt, RTT, f" (max_rtt in {file})"),
        at_most("bandwidth", testbed.max_bandwidth, RATE, f" (max_bandwidth in {file})"),
        *emulated_path_rules(machine.smallest_rtt, machine.largest_bandwidth),
        *server_rules(),
        Rule(("cores",), quota),
        known_word("congestion_control", machine.congestion_controls),
        Rule(("xrootd",), xrootd),
        Rule(("layer",), layer),
        Rule(("layer", "xrootd"), mirage),
        Rule(("file_size", "streams", "source_content", "layer"), files),
    ]
