# SPDX-License-Identifier: Apache-2.0
"""Network for measuring a kernel's TCP: two hosts behind two routers, connected by the project's path."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpcsweep.common import signals
from tpcsweep.common.processes import Commands
from tpcsweep.deploying.linux.namespaces import MAKER, call_in_namespace, listening
from tpcsweep.deploying.linux.sockets import Connection, SocketDiagnostics
from tpcsweep.deploying.paths.link import connect
from tpcsweep.deploying.paths.network_path import INTERFACE, NetworkPath
from tpcsweep.deploying.paths.udp_looks import verify_link
from tpcsweep.deploying.paths.verification import FoundPath
from tpcsweep.deploying.xrootd.server_config import Server
from tpcsweep.measuring.tools.iperf3 import FIRST_PORT, PROGRAM
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.testbeds.netns import ownership, topology

SIDES = topology.sides(Path(), origins=1)
[SENDER], [RECEIVER] = (each.origins for each in SIDES.values())
SECOND = "10.88.2.2"  # second address of the receiver, for a flow with its own route
BUFFER = 1 << 26  # most bytes of a socket's buffers, more than any window of these cases
SMALLEST_DATA = 500  # bytes: packets of this size and larger carry data
LISTEN = 5.0  # most seconds for a server to start


class NetworkError(RuntimeError):
    """A program that sends or receives did not start, or ended too early."""


@dataclass
class Network:
    """Running network, with its processes."""

    prefix: str
    commands: Commands
    measured: FoundPath
    described: dict[str, Any]
    children: list[subprocess.Popen[bytes]]
    _ports: Iterator[int] = field(default_factory=lambda: itertools.count(FIRST_PORT))

    @contextlib.contextmanager
    def connections(self, node: Server) -> Iterator[Callable[[], list[Connection]]]:
        """Yield a function that lists the connections of a host."""
        diagnostics = call_in_namespace(f"{self.prefix}-{node.name}", SocketDiagnostics)
        with contextlib.closing(diagnostics):
            yield diagnostics.connections

    @contextlib.contextmanager
    def flows(self, address: str = RECEIVER.address, count: int = 1) -> Iterator[None]:
        """Let iperf3 send on `count` connections to an address of the receiver, for a `with`.

        Raises:
            NetworkError: If the server does not start, or the client ended before the `with`.
        """
        port = next(self._ports)
        server = self._start(RECEIVER, ["--server", "--bind", address, "--port", str(port)])
        give_up = time.monotonic() + LISTEN
        while port not in listening(f"{self.prefix}-{RECEIVER.name}"):
            if server.poll() is not None or time.monotonic() > give_up:
                raise NetworkError(f"iperf3 does not listen at port {port}: see {self._log}")
            time.sleep(0.01)
        to = ["--client", address, "--port", str(port), "--time", "0", "--parallel", str(count)]
        client = self._start(SENDER, to)
        yield
        if client.poll() is not None:
            raise NetworkError(f"iperf3 ended before its time: see {self._log}")
        for process in (client, server):
            process.kill()
            process.wait()

    def _start(self, node: Server, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        argv = ["ip", "netns", "exec", f"{self.prefix}-{node.name}", PROGRAM, *arguments]
        self.commands.note(f"{shlex.join(argv)} &")
        with self._log.open("ab") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.children.append(process)
        return process

    @property
    def _log(self) -> Path:
        return self.commands.log.with_name("iperf3.log")

    def drop_one(self) -> None:
        """Let the far router drop the next packet with data, and no other."""
        # With a burst of one and the slowest possible rate, a limit matches once.
        data = f"-i {INTERFACE} -p tcp -m length --length {SMALLEST_DATA}:65535"
        once = "-m limit --limit 1/day --limit-burst 1 -j DROP"
        rules = ["*filter", "-F FORWARD", f"-A FORWARD {data} {once}", "COMMIT", ""]
        router = f"{self.prefix}-{topology.ROUTER['dst']}"
        restore = ["ip", "netns", "exec", router, "iptables-restore", "--wait", "--noflush"]
        self.commands.run(restore, input="\n".join(rules))


@contextlib.contextmanager
def network(
    path: NetworkPath, name: str, control: str, logs: Path, small_mtu: int | None = None
) -> Iterator[Network]:
    """Create the network for a `with`, with a verified path. The caller holds the machine's lock.

    Args:
        path: The path.
        name: Name of the deployment.
        control: Congestion control.
        logs: Folder of logs.
        small_mtu: Bytes; MTU of the route to the receiver's second address.

    Raises:
        PathError: If the path is not as requested.
        CommandError: If a command fails.
        TeardownError: If a part of the network cannot be removed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as undo:
        folder = ownership.create_deployment(ownership.Owner("terena2005", name, os.getpid(), str(logs)))
        children: list[subprocess.Popen[bytes]] = []
        undo.callback(ownership.teardown, folder, children)
        undo.callback(signals.ignore_signals)
        prefix, commands = ownership.prefix(folder.name), Commands(logs / "commands.log")
        wanted = DeploymentParameters(congestion_control=control, tcp_buffer=BUFFER)
        commands.batch(MAKER, [f"netns add {namespace}" for namespace in topology.namespaces(prefix, SIDES)])
        for namespace, lines in topology.lan_commands(prefix, SIDES, path.mtu):
            commands.batch(["ip", "-n", namespace], lines)
        for node in (SENDER, RECEIVER):
            values = [f"{key}={value}" for key, value in topology.tcp_sysctls(wanted).items()]
            _inside(commands, prefix, node.name, ["sysctl", "--quiet", "--write", *values])
            # Losses and queues count packets, so packets must not be merged.
            offloads = ["tso", "off", "gso", "off"]
            _inside(commands, prefix, node.name, ["ethtool", "-K", topology.INTERFACE, *offloads])
        for router in topology.ROUTER.values():
            _inside(commands, prefix, router, ["sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1"])
        ends = [(f"{prefix}-{topology.ROUTER[side]}", f"{topology.LINK[side]}/30") for side in topology.SIDES]
        link = connect(path, ends[0], ends[1], commands, folder)
        undo.callback(link.close)
        for namespace, lines in topology.route_commands(prefix, SIDES, wanted):
            commands.batch(["ip", "-n", namespace], lines)
        if small_mtu is not None:
            gateway = topology.GATEWAY["src"]
            for name_of, line in (
                (RECEIVER.name, f"addr add {SECOND}/32 dev {topology.INTERFACE}"),
                (SENDER.name, f"route add {SECOND}/32 via {gateway} mtu lock {small_mtu} congctl {control}"),
            ):
                commands.batch(["ip", "-n", f"{prefix}-{name_of}"], [line])
        yield Network(prefix, commands, verify_link(path, link), link.describe(), children)


def _inside(commands: Commands, prefix: str, name: str, command: Sequence[str]) -> None:
    commands.run(["ip", "netns", "exec", f"{prefix}-{name}", *command])
