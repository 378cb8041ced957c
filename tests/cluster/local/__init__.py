# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes cluster on this machine, for tests, without a registry and without a trace afterwards.

    with local.cluster(folder) as cluster:
        cluster.kubectl("get", "nodes")

Nodes are network namespaces, each with its own containerd, kubelet and kube-proxy; their links have RTTs and rates of
their own. All of it is in one set of namespaces (world.py), kept by a process outside (keeper.py).
"""

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.local import build, groups, images
from tests.cluster.local.settings import CONTROL, Node, Settings

END = 180.0  # s
FAR = 20.0  # ms: the RTT between the last of several nodes and every other
RATE = 0.2  # Gbit/s of every node's link: what a machine with much else to do still fills


class ClusterError(RuntimeError):
    """A cluster could not be started, or did not do what it was asked."""


class Cluster:
    """A cluster that runs, whoever started it: all that is known of it is in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.kubeconfig = self.folder / "kubeconfig"
        self.logs = self.folder / "logs"
        state = self.folder / "state"
        try:
            self.settings = Settings.load((state / "settings.json").read_text())
            self.first = int((state / "first.pid").read_text())
            cgroup = Path(f"/proc/{self.first}/cgroup").read_text()
            running = self.settings.group in cgroup and not self.wait(0)
        except OSError:
            running = False
        if not running:
            raise ClusterError(f"no cluster runs in {self.folder}")
        self.nodes = self.settings.nodes
        self.program = f"{self.settings.programs}/kube"

    def kubectl(self, *arguments: str, input: str = "", timeout: float = 120) -> str:  # noqa: A002
        """Run kubectl as the admin and give its standard output. Raises ClusterError."""
        command = [self.program, "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        return _run(command, input, timeout)

    def enter(self, argv: Sequence[str], node: str | None = None) -> str:
        """Run a command inside, in a node's network or the control plane's; its standard output."""
        target = f"/proc/{self.first}"
        network = f"{target}/root/run/netns/{node}" if node else f"{target}/ns/net"
        spaces = [f"--target={self.first}", "--mount", "--pid", f"--net={network}"]
        return _run(["nsenter", *spaces, "--wd=/", "--", *argv], "", 120)

    def load(self, archive: Path, nodes: Sequence[str] = ()) -> None:
        """Import an image archive on these nodes, by default on all."""
        names = [*nodes] or [node.name for node in self.nodes]
        self._ask("load", archive=str(archive.absolute()), nodes=names)

    def requests(self, namespace: str) -> list[dict[str, Any]]:
        """What the service accounts of a namespace have asked the API server for: events of its audit log."""
        events = map(json.loads, (self.logs / "audit.log").read_text().splitlines())
        ours = f"system:serviceaccounts:{namespace}"
        return [event for event in events if ours in event["user"]["groups"]]

    def stop_kubelet(self, node: str, *, pods: bool = False) -> None:
        """Kill a node's kubelet and nothing else; `pods`: and containerd and all processes of the node's pods."""
        self._ask("stop_kubelet", node=node, pods=pods)

    def start_kubelet(self, node: str) -> None:
        self._ask("start_kubelet", node=node)

    def restart_api_server(self, down_for: float = 0.0) -> None:
        """Kill the API server, start it again after `down_for` seconds, and wait until it is ready."""
        self._ask("restart_api_server", down_for=down_for)

    def freeze_api_server(self, seconds: float) -> None:
        """Let the API server answer nobody for some seconds; after some 30 it takes its nodes for gone."""
        self._ask("freeze_api_server", seconds=seconds)

    def play_nodes(self, count: int) -> None:
        """Let kwok play so many nodes more, and wait until they are Ready; only without nodes of its own."""
        self._ask("play_nodes", count=count)

    def wait(self, longest: float | None = None) -> bool:
        """Wait until the cluster has ended, which it does not by itself; whether it has."""
        descriptor = os.pidfd_open(self.first)
        try:
            return bool(select.select([descriptor], [], [], longest)[0])
        finally:
            os.close(descriptor)

    def _ask(self, what: str, **how: object) -> None:
        folder = os.open(self.folder / "state", os.O_PATH | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                # By a descriptor, as the name of a socket must be short.
                connection.connect(f"/proc/self/fd/{folder}/{CONTROL}")
                with connection.makefile("rw") as stream:
                    stream.write(json.dumps({"do": what, **how}) + "\n")
                    stream.flush()
                    answer = json.loads(stream.readline() or '{"error": "the cluster has ended"}')
        finally:
            os.close(folder)
        if "error" in answer:
            raise ClusterError(f"{what} {how}: {answer['error']}")


@contextlib.contextmanager
def cluster(
    folder: Path,
    nodes: int = 3,
    *,
    rtt: Sequence[float] | None = None,
    bandwidth: Sequence[float] | None = None,
    networks: bool = False,
) -> Iterator[Cluster]:
    """A cluster for the length of a `with`, all nodes Ready. `folder` keeps its logs.

    networks: pods can be attached to those of `attached.definitions`, by Multus.

    rtt, in ms, and bandwidth, in Gbit/s, are those of each node's link to the hub: two nodes are the sum of theirs
    apart. By default the last node is far and the others are near.
    """
    usual = [0.0] * (nodes - 1) + [FAR if nodes > 1 else 0.0]
    links = zip(usual if rtt is None else rtt, bandwidth or [RATE] * nodes, strict=True)
    settled = Settings(
        group=_group(),
        nodes=[Node(f"n{index}", index, delay, rate) for index, (delay, rate) in enumerate(links, 1)],
        images=str(images.unpacked([build.pause_image(), build.site_image()])),
        programs=str(build.kubernetes()),
        multus=str(build.multus()) if networks else "",
    )
    with _kept(folder, settled) as kept:
        yield kept


@contextlib.contextmanager
def control_plane(folder: Path) -> Iterator[Cluster]:
    """A cluster without nodes, for what only the API is needed for; `play_nodes` gives it some that are played."""
    settled = Settings(group=_group(), programs=str(build.kubernetes()))
    with _kept(folder, settled) as kept:
        yield kept


def _group() -> str:
    return groups.PREFIX + os.urandom(4).hex()


@contextlib.contextmanager
def _kept(folder: Path, settled: Settings) -> Iterator[Cluster]:
    """Start a keeper and wait until the cluster is ready; afterwards end it and wait until all is gone."""
    folder = folder.absolute()
    try:
        there = Cluster(folder).kubeconfig
    except ClusterError:
        pass
    else:
        raise ClusterError(f"a cluster runs in {folder} already: its kubeconfig is {there}")
    state, logs = folder / "state", folder / "logs"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
    logs.mkdir(exist_ok=True)
    (state / "settings.json").write_text(settled.dump())
    with (logs / "keeper.log").open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.local.keeper", str(folder)],
            cwd=build.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the one that asked, which then closes the pipe
        )
    assert keeper.stdin and keeper.stdout
    try:
        line = keeper.stdout.readline()
        said = json.loads(line or "{}")
        if "ready" not in said:
            tail = (logs / "keeper.log").read_text()[-1000:]
            raise ClusterError(said.get("failed") or f"the cluster did not start; see {logs}. {tail}")
        yield Cluster(folder)
    finally:
        keeper.stdin.close()
        keeper.wait(END)
        keeper.stdout.close()
        # A keeper that was killed leaves them.
        groups.sweep(settled.group)
        (folder / "kubeconfig").unlink(missing_ok=True)
        shutil.rmtree(state, ignore_errors=True)


def _run(command: list[str], given: str, timeout: float) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        words = " ".join(command)
        raise ClusterError(f"{words}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
