# SPDX-License-Identifier: Apache-2.0
"""The campaign on this machine: deployments in network namespaces, next to namespaces, groups and processes of others.

    make campaign [MINUTES=30 | ITERATIONS=60] [SEED=1]        as root, on a machine without other deployments

It prints each iteration and ends with a table by fault (docs/faults.md). It exits with 1 if it counted anything.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import yaml
from tpcsweep.common.files import state_folder
from tpcsweep.deploying.linux.cgroups import Cgroup, hierarchy
from tpcsweep.deploying.linux.namespaces import FOLDER
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.netns import ownership

from tests.support.campaign import Fault, Pace, Run, filled, lasting, main, signalled, stopped
from tests.support.leftovers import present
from tests.support.workflow import ROOT, Sweep, wait_until

OTHERS = ("tpc-mine", "tpc-abcdef-src1", "tpc", "other")
"""Namespaces and groups of others, whatever they are called: no folder is a deployment of theirs."""
HOST = OTHERS[0]  # the namespace whose loopback interface has another MTU while the setting is in force
USUAL, TUNED = 65536, 9000


@dataclass(frozen=True)
class TunedSweep(Sweep):
    """A sweep whose deployments change a host by a setting."""

    @property
    def testbed(self) -> Path:
        return self.folder / "hosts.yaml"

    def command(self, *arguments: str) -> list[str]:
        return [*super().command(*arguments), f"testbed={self.testbed}"]

    def asking(self, *arguments: str) -> list[str]:
        return [*super().asking(*arguments), "--testbed", str(self.testbed)]


class Machine:
    pace = Pace(deploying=4.0, cell=2.0, goes=60.0, hangs=300.0)  # a whole sweep takes half a minute

    def __init__(self) -> None:
        self.parameters = {"rtt": "2 ms", "file_size": "2 MiB", "tool": "curl", "tuning": "tuned"}
        self.changing = "bandwidth", "100 Mbit/s", "40 Mbit/s"
        self.faults = (
            Fault("a process of the deployment is killed", "kill", partial(_signalled, signal.SIGKILL)),
            Fault("a process of the deployment crashes", "kill", partial(_signalled, signal.SIGSEGV)),
            Fault("a process of the deployment is stopped", "stop", lambda run: stopped(run, _process(run))),
            Fault("all processes of the deployment are killed", "kill", _all_killed),
            Fault("the destination has no room", "fill", _destination_full),
            Fault("the path is cut for a moment", "cut", _cut_for_a_moment),
            Fault("the path is cut", "cut", lambda _: _blackhole()),
            Fault("a namespace is removed", "cut", _namespace_removed),
            Fault("the deployment's folder says nothing", "corrupt", _owner_forgotten),
            Fault("all are killed while a setting is in force", "kill", _killed_in_force),
        )

    def sweep(self, folder: Path) -> TunedSweep:
        sweep = TunedSweep(folder, "campaign")
        mtu = f"ip -n {HOST} link set dev lo mtu"
        how = {"values": {"tuned": f"{mtu} {TUNED}"}, "restore": f"{mtu} {USUAL}"}
        how["verify"] = f"ip -n {HOST} link show dev lo | grep -o 'mtu [0-9]*'"
        sweep.testbed.write_text(yaml.safe_dump({"kind": "netns", "settings": {"tuning": how}}))
        return sweep

    def configuration(self, sweep: Sweep) -> SweepStudy:
        files = {"sweep": f"{sweep.name}.yaml", "results": "results", "testbed": "hosts.yaml"}
        return load({key: str(sweep.folder / name) for key, name in files.items()}, ROOT)

    def up(self) -> bool:
        return bool(ownership.leftovers())

    def present(self) -> dict[str, set[str]]:
        shared = {f"{path} of {path.stat().st_mtime}" for path in Path("/tmp").glob("*.anon.env")}
        ledgers = {str(path) for path in (state_folder() / "settings").glob("*.json")}
        return {**present(), "shared": shared, "settings": {f"MTU {_mtu()}"} - {f"MTU {USUAL}"} | ledgers}

    @contextlib.contextmanager
    def bystanders(self) -> Iterator[Callable[[], list[str]]]:
        with contextlib.ExitStack() as kept:
            others: list[tuple[Cgroup, psutil.Process]] = []
            for name in OTHERS:
                group = Cgroup(hierarchy(), name).create()
                kept.callback(group.remove)
                subprocess.run(["ip", "netns", "add", name], check=True)
                kept.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
                command = [*group.entry(), "ip", "netns", "exec", name, "sleep", "infinity"]
                sleeping = kept.enter_context(subprocess.Popen(command, start_new_session=True))
                kept.callback(sleeping.kill)
                others.append((group, psutil.Process(sleeping.pid)))

            def gone() -> list[str]:
                found = []
                for group, process in others:
                    found += [f"namespace {group.name}"] * (not (FOLDER / group.name).exists())
                    found += [f"group {group.name}"] * (not all(map(Path.is_dir, group.folders)))
                    found += [f"process in {group.name}"] * (not _lives(process))
                return found

            yield gone


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED)
    return False


# What is done: where there is no deployment, or nothing of the kind, an exception says so to the campaign.


def _folder() -> Path:
    return ownership.leftovers()[0]


def _prefix() -> str:
    return ownership.prefix(_folder().name)


def _process(run: Run) -> psutil.Process:
    """Any process of the deployment: a server, the client or a tool of it, what makes the path."""
    process = psutil.Process(run.random.choice(sorted(ownership.processes(_prefix()))))
    run.done += f": {process.name()}"
    return process


def _signalled(number: signal.Signals, run: Run) -> None:
    signalled(_process(run), number)


def _all_killed(_: Run) -> None:
    for pid in ownership.processes(_prefix()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _destination_full(run: Run) -> None:
    destination = _folder() / "data" / "dst"
    if destination.is_mount():
        filled(run, destination)


def _blackhole(do: str = "add") -> None:
    rule = ["ip", "-n", f"{_prefix()}-far", "rule", do, "priority", "1", "blackhole"]
    subprocess.run(rule, check=False, capture_output=True)


def _cut_for_a_moment(run: Run) -> None:
    _blackhole()
    time.sleep(lasting(run, 0.3, 1.0, 3.0))
    _blackhole("delete")


def _namespace_removed(run: Run) -> None:
    prefix = _prefix()
    name = run.random.choice(sorted(path.name for path in FOLDER.glob(f"{prefix}-*")))
    run.done += f": {name.removeprefix(prefix)}"
    subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _owner_forgotten(run: Run) -> None:
    (_folder() / "owner.json").write_bytes(run.random.choice((b"", b"{", b"[]", b"\x00" * 9)))


def _mtu() -> int:
    shown = subprocess.run(
        ["ip", "-j", "-n", HOST, "link", "show", "dev", "lo"], check=True, capture_output=True
    ).stdout
    return int(json.loads(shown)[0]["mtu"])


def _killed_in_force(run: Run) -> None:
    wait_until(lambda: run.ended or _mtu() == TUNED, "the setting is in force")
    os.killpg(run.process.pid, signal.SIGKILL)


@contextlib.contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """This machine, which has no deployment yet."""
    if ownership.leftovers():
        raise SystemExit("a deployment is up, or one was killed: run `tpcsweep reap`")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    yield Machine()


if __name__ == "__main__":
    sys.exit(main(__doc__, machine))
