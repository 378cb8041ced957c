# SPDX-License-Identifier: Apache-2.0
"""Agents of pods in the namespaces of a real path: how they look at it, without a cluster. Needs root."""

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tpcsweep.common.processes import Commands
from tpcsweep.deploying.paths.link import Link, connect
from tpcsweep.deploying.paths.network_path import NetworkPath
from tpcsweep.deploying.xrootd.server_config import Server
from tpcsweep.sweeps.parameters import DeploymentParameters, sysctls
from tpcsweep.testbeds.kubernetes.tcp_looks import Ends

NamedEnds = tuple[tuple[str, str], tuple[str, str]]
TCP_BUFFER = 8 << 20  # bytes, of every end
AGENT = """
import asyncio, json, sys
from tpcsweep.deploying.xrootd.server_config import USUAL
from tpcsweep.deploying.paths.tcp_probes import Probes

async def main():
    verbs = Probes(USUAL.probe).verbs
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        print(json.dumps(await verbs[asked["verb"]](**asked["arguments"])), flush=True)

asyncio.run(main())
"""


class Played:
    """A session with agents in the namespaces of a link, without the hub between them: one clock."""

    def __init__(self, agents: dict[str, subprocess.Popen[str]]) -> None:
        self._agents = agents
        self._pool = ThreadPoolExecutor()

    def ask(self, verb: str) -> dict[str, float]:
        assert verb == "synchronise"
        return dict.fromkeys(self._agents, 0.0)

    def start(self, _: str, *, to: list[str], verb: str, arguments: dict[str, Any]) -> Callable[[], Any]:
        asked = {"verb": verb, "arguments": arguments}
        answers = {name: self._pool.submit(said, self._agents[name], asked) for name in to}
        return lambda: {name: answer.result() for name, answer in answers.items()}

    def tell(self, to: list[str], verb: str, **arguments: Any) -> dict[str, Any]:
        return self.start("tell", to=to, verb=verb, arguments=arguments)()


def said(agent: subprocess.Popen[str], asked: dict[str, Any]) -> Any:
    agent.stdin.write(json.dumps(asked) + "\n")
    agent.stdin.flush()
    return json.loads(agent.stdout.readline())


@contextlib.contextmanager
def two_namespaces(commands: Commands) -> Iterator[NamedEnds]:
    """Namespaces for the ends of a path, each with its address."""
    names = [f"tpc-t{uuid.uuid4().hex[:8]}-{end}" for end in "ab"]
    with contextlib.ExitStack() as undo:
        for name in names:
            commands.run(["ip", "netns", "add", name])
            undo.callback(commands.run, ["ip", "netns", "delete", name])
            commands.run(["ip", "-n", name, "link", "set", "lo", "up"])
        yield (names[0], "10.88.0.1/30"), (names[1], "10.88.0.2/30")


@contextlib.contextmanager
def played(
    path: NetworkPath, folder: Path, tcp_buffer: int = TCP_BUFFER
) -> Iterator[tuple[Played, list[Ends], Link]]:
    commands = Commands(folder / "commands.log")
    with contextlib.ExitStack() as undo:
        near, far = undo.enter_context(two_namespaces(commands))
        for name, _ in (near, far):
            sizes = [
                f"{key}={value}"
                for key, value in sysctls("netns", DeploymentParameters(tcp_buffer=tcp_buffer)).items()
            ]
            commands.run(["ip", "netns", "exec", name, "sysctl", "--quiet", "--write", *sizes])
        link = undo.enter_context(connect(path, near, far, commands, folder))
        agents = {}
        servers = []
        ends = ("src1", link.near, link.near_address), ("dst1", link.far, link.far_address)
        for server, name, address in ends:
            command = ["nsenter", f"--net=/run/netns/{name}", sys.executable, "-c", AGENT]
            agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            agents[server] = undo.enter_context(agent)
            undo.callback(agent.kill)
            servers.append(Server(server, address, "server", None, Path(), Path()))
        for agent in agents.values():
            assert agent.stdout and agent.stdout.readline()
        yield Played(agents), [(servers[0], servers[1])], link
