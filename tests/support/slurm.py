# SPDX-License-Identifier: Apache-2.0
"""A Slurm of two nodes on this machine's loopback: Debian's daemons, with folder, ports and key of their own."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tpcsweep.linux.signals import end_with

from tests.support.workflow import wait_until

NODES = ("here", "there")
"""What the nodes are called; both are this machine, with a slurmd and a port for each."""
CPUS = 4
"""Of each node, as many as a rule has threads: what Slurm is told, whatever the machine has."""
_APART = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Of a node: what its jobs start ends with it, and finds this Slurm's configuration where Slurm has it, as the plugin
takes the variable that names another place from what runs in a job."""
_CONFIGURATION = """\
ClusterName=tpcsweep
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=100000,bf_interval=1
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
MinJobAge=300
KillWait=10
{nodes}
PartitionName=short Nodes={names} Default=YES MaxTime=120 State=UP
"""


@dataclass(frozen=True)
class Slurm:
    folder: Path

    @property
    def configuration(self) -> Path:
        """What $SLURM_CONF names for Slurm's commands to use this one."""
        return self.folder / "slurm.conf"

    def ask(self, *command: str) -> list[str]:
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        return subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout.splitlines()

    def queue(self) -> list[str]:
        return self.ask("squeue", "--noheader", "--format=%i")

    def ended(self) -> dict[str, str]:
        """The states of jobs that have ended, by their number."""
        lines = self.ask("squeue", "--noheader", "--states=all", "--format=%i %T")
        return {job: state for job, state in map(str.split, lines) if job not in self.queue()}


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    """Give a Slurm that takes jobs; when the `with` ends, and with this process, all of it ends.

    The folder's path must be short, as sockets in it have at most 107 letters.
    """
    folder.chmod(0o755)  # munged wants its socket to be within everybody's reach
    ports = _free_ports(1 + len(NODES))
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.touch(0o400)
    key.write_bytes(secrets.token_bytes(128))
    nodes = (
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} RealMemory=16000"
        for name, port in zip(NODES, ports[1:], strict=True)
    )
    slurm = Slurm(folder)
    slurm.configuration.write_text(
        _CONFIGURATION.format(
            user=getpass.getuser(),
            folder=folder,
            controller=ports[0],
            nodes="\n".join(nodes),
            names=",".join(NODES),
        )
    )
    munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
    files = [f"--{what}-file={folder}/munge.{what}" for what in ("log", "pid", "seed")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_daemon([*munged, *files], folder))
        wait_until((folder / "munge.socket").exists, "munged")
        stack.enter_context(_daemon(["slurmctld", "-D", "-f", str(slurm.configuration)], folder))
        for name in NODES:
            node = ["sh", "-c", f"mount --bind '{folder}' /etc/slurm && exec slurmd -D -N {name}"]
            stack.enter_context(_daemon([*_APART, *node], folder))
        wait_until(lambda: _idle(slurm) == len(NODES), "nodes that take jobs")
        yield slurm


def _idle(slurm: Slurm) -> int:
    with contextlib.suppress(subprocess.CalledProcessError):
        return sum(state == "idle" for state in slurm.ask("sinfo", "--noheader", "--Node", "--format=%T"))
    return 0


@contextlib.contextmanager
def _daemon(command: Sequence[str], folder: Path) -> Iterator[None]:
    """Run a daemon in the foreground; it is killed when this process is."""
    with (folder / "daemons.log").open("ab") as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            preexec_fn=partial(end_with, os.getpid(), signal.SIGKILL),
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
