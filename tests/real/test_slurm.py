# SPDX-License-Identifier: Apache-2.0
"""`snakemake --profile slurm` on a real Slurm: a simulated study, a job that is cancelled, and Ctrl-C.

Slurm has a node on this machine's loopback: Debian's daemons, with folder, ports and key of their own.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from tpcsweep.common.signals import end_with

from tests.support.workflow import HANGS, Sweep, background, free_port, wait_until

_APART = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Of a node: what its jobs start ends with it, and finds this Slurm's configuration where Slurm has it, as the plugin
takes the variable that names another place from what runs in a job."""
_CONFIGURATION = """\
ClusterName=tpcsweep
SlurmctldHost=localhost(127.0.0.1)
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/spool.%n
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=100000,bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=10
NodeName=here Port={node} NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=4 RealMemory=16000
PartitionName=short Nodes=ALL Default=YES MaxTime=120 State=UP
"""
"""The node has as many CPUs as a rule has threads, whatever the machine has."""


def ask(*command: str) -> list[str]:
    return subprocess.check_output(command, text=True).splitlines()


def queue() -> list[str]:
    return ask("squeue", "--noheader", "--format=%i")


def ended() -> dict[str, str]:
    """The states of jobs that have ended, by their number."""
    lines = ask("squeue", "--noheader", "--states=all", "--format=%i %T")
    return {job: state for job, state in map(str.split, lines) if job not in queue()}


def idle() -> bool:
    with contextlib.suppress(subprocess.CalledProcessError):
        return ask("sinfo", "--noheader", "--Node", "--format=%T") == ["idle"]
    return False


@pytest.fixture(scope="module", autouse=True)
def slurm() -> Iterator[None]:
    """A Slurm that takes jobs; after these tests, and with this process, all of it ends."""
    with contextlib.ExitStack() as stack:
        # Paths of sockets have at most 107 letters.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        folder.chmod(0o755)  # munged wants its socket to be within everybody's reach
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.touch(0o400)
        key.write_bytes(secrets.token_bytes(128))
        configuration = folder / "slurm.conf"
        ports = {"controller": free_port(), "node": free_port()}
        configuration.write_text(_CONFIGURATION.format(folder=folder, **ports))
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("SLURM_CONF", str(configuration))
        munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
        files = [f"--{what}-file={folder}/munge.{what}" for what in ("log", "pid", "seed")]
        stack.enter_context(_daemon([*munged, *files], folder))
        wait_until((folder / "munge.socket").exists, "munged")
        stack.enter_context(_daemon(["slurmctld", "-D", "-f", str(configuration)], folder))
        node = ["sh", "-c", f"mount --bind '{folder}' /etc/slurm && exec slurmd -D -N here"]
        stack.enter_context(_daemon([*_APART, *node], folder))
        wait_until(idle, "a node that takes jobs")
        yield


@contextlib.contextmanager
def _daemon(command: Sequence[str], folder: Path) -> Iterator[None]:
    """Run a daemon in the foreground; it is killed when this process is."""
    ends = partial(end_with, os.getpid(), signal.SIGKILL)
    with (folder / "daemons.log").open("ab") as said:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
        with background(command, **streams, start_new_session=True, preexec_fn=ends):
            yield


@dataclass(frozen=True)
class Queued(Sweep):
    @property
    def results(self) -> Path:
        return self.folder / "results" / f"{self.name}@simulation"

    def command(self, *arguments: str) -> list[str]:
        profile = ["--profile", "slurm", "--slurm-logdir", str(self.folder / "slurm_logs")]
        soon = ["--slurm-init-seconds-before-status-checks", "1"]
        return [*super().command(*profile, *soon, *arguments), "testbed=simulation"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Queued:
    parameters = {"rtt": ["5 ms", "20 ms"], "streams": [1, 2]}
    return Queued(tmp_path_factory.mktemp("queued")).define(parameters=parameters)


def computing(sweep: Queued, started: subprocess.Popen[bytes]) -> str:
    """Wait for the job to compute and for sbatch to end, and return the job's number.

    The job is in the queue before sbatch tells Snakemake its number. Ctrl-C between the two would leave the job there.
    """
    wait_until(queue, "a job")
    [job] = queue()

    def submitting() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(started.pid).children(recursive=True)
            return any(child.name() == "sbatch" for child in children)
        return True

    def has_begun() -> bool:
        logs = (sweep.folder / "slurm_logs").rglob(f"{job}.log")
        return any(log.stat().st_size for log in logs) and not submitting()

    wait_until(has_begun, "a job that computes")
    return job


def assert_cancelled(job: str) -> None:
    """Wait for the job's processes to end, until when Slurm keeps it in the queue, and check that it was cancelled."""
    wait_until(lambda: not queue(), "an empty queue")
    assert ended()[job] == "CANCELLED"


def test_ctrl_c_leaves_no_job_in_the_queue(sweep: Queued) -> None:
    started = sweep.start()
    job = computing(sweep, started)
    os.killpg(started.pid, signal.SIGINT)
    assert started.wait(HANGS) == 1, sweep.output()
    assert_cancelled(job)


def test_a_job_that_is_cancelled_fails_the_run_which_names_its_log(sweep: Queued) -> None:
    started = sweep.start()
    job = computing(sweep, started)
    ask("scancel", job)
    assert started.wait(HANGS) == 1, sweep.output()
    assert f"{job}.log" in sweep.output()
    assert_cancelled(job)


def test_the_next_run_ends_with_the_dataset_and_one_job_has_computed_it(sweep: Queued) -> None:
    dataset = sweep.results / "dataset.nc"  # the plugin asks for a job's state ever more rarely: a short one
    done = sweep.run(str(dataset))
    assert done.returncode == 0, done.stdout
    assert [*ended().values()].count("COMPLETED") == 1
    assert dataset.stat().st_size > 0
    assert "Nothing to be done" in sweep.run(str(dataset), "-n").stdout
