# SPDX-License-Identifier: Apache-2.0
"""Sites of a mesh that tpcsweep has not started: XRootD servers, each in a network namespace with a path of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpcsweep.common.processes import Commands
from tpcsweep.deploying.linux.namespaces import socket_inside
from tpcsweep.deploying.paths.delayline import DEVICE_QUEUE, DelayLine
from tpcsweep.deploying.paths.network_path import INTERFACE, NetworkPath
from tpcsweep.deploying.xrootd.credentials import create_credentials

from tests.support.front import Front, front_of
from tests.support.workflow import wait_until

PORT = 1094
HUB = "10.123.0.254"
CONFIGURATION = """
all.export /data
oss.localroot {place}/files
all.adminpath {place}
all.pidpath {place}
all.sitename {name}
xrd.network nodnr
xrd.port {port}
xrd.tls {pki}/host.pem {pki}/host.key
xrd.tlsca certdir {trusted}/ca
xrd.protocol http:{port} libXrdHttp.so
http.exthandler xrdtpc libXrdHttpTPC.so
http.desthttps yes
xrootd.chksum max 2 adler32
"""


@dataclass(frozen=True)
class Uplink:
    """The connection of a site to the others, in both directions."""

    rate: str = "80mbit"
    rtt: float = 0.0
    """ms from the site to the hub and back."""
    slow_to: Mapping[str, str] = field(default_factory=dict)
    """Rates of single directions, by the sites that receive."""
    trusted: bool = True
    """Whether the CA of the site's certificate is the one of all others."""


@dataclass
class Farm:
    """Servers around a router, in whose namespace the client runs."""

    folder: Path
    prefix: str
    uplinks: Mapping[str, Uplink]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    lines: dict[str, DelayLine] = field(default_factory=dict)

    @property
    def hub(self) -> str:
        return f"{self.prefix}-hub"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    def namespace(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def address(self, name: str) -> str:
        return f"10.123.0.{[*self.uplinks].index(name) + 1}"

    def url(self, name: str) -> str:
        return f"davs://{self.address(name)}:{PORT}/data/test"

    def inside(self, *command: str) -> list[str]:
        """The command line that runs a command where it reaches all sites, and nothing else."""
        return ["ip", "netns", "exec", self.hub, *command]

    def testbed(self, **changes: Any) -> dict[str, Any]:
        """Settings of a mesh of all sites, with anonymous access."""
        return {
            "kind": "endpoints",
            "sites": [{"name": name, "urls": [self.url(name)]} for name in self.uplinks],
            "pairs": "mesh",
            "budget": {"bytes": "1 TiB", "time": "10 h"},
            "max_streams": 4,
            "ca": str(self.pki / "ca"),
            **changes,
        }

    def connect(self, name: str) -> None:
        """Make the namespace of a site, and its path to the hub."""
        uplink, own, there = self.uplinks[name], self.namespace(name), f"to-{name}"
        here = INTERFACE if uplink.rtt else "eth0"
        run("ip", "netns", "add", own)
        if uplink.rtt:
            path, commands = NetworkPath(uplink.rtt, bandwidth=1.0), Commands(self.folder / "commands.log")
            ends = round(uplink.rtt * 500_000), own, self.hub
            self.lines[name] = DelayLine(path, *ends, commands, self.folder, [])
            run("ip", "-n", self.hub, "link", "set", INTERFACE, "name", there)
        else:
            run(*f"ip -n {self.hub} link add name {there} type veth peer name {here} netns {own}".split())
        run("ip", "-n", own, "link", "set", "lo", "up")
        for space, device, other in ((self.hub, there, self.address(name)), (own, here, HUB)):
            run(*f"ip -n {space} link set {device} txqueuelen {DEVICE_QUEUE} up".split())
            if space == own:
                run(*f"ip -n {space} address add {self.address(name)}/32 dev {device}".split())
            run(*f"ip -n {space} route add {other} dev {device}".split())
        run(*f"ip -n {own} route add default via {HUB} dev {here}".split())
        shape(self.hub, there, uplink.rate)
        shape(own, here, uplink.rate, {self.address(to): rate for to, rate in uplink.slow_to.items()})

    def start(self, name: str) -> None:
        user, place = pwd.getpwnam("xrootd"), self.folder / name
        for path in (place, place / "files", place / "files/data", place / "files/data/test"):
            path.mkdir(exist_ok=True)
            os.chown(path, user.pw_uid, user.pw_gid)
        pki = self.pki if self.uplinks[name].trusted else self.folder / "other"
        settings = {"place": place, "name": name, "port": PORT, "pki": pki, "trusted": self.pki}
        (place / "server.cfg").write_text(CONFIGURATION.format(**settings))
        become = ["setpriv", "--reuid=xrootd", "--regid=xrootd", "--clear-groups", "--pdeathsig", "KILL"]
        program = ["xrootd", "-c", str(place / "server.cfg"), "-l", str(place / "log"), "-n", name]
        command = ["ip", "netns", "exec", self.namespace(name), *become, *program]
        environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(place)}
        self.processes[name] = subprocess.Popen(command, cwd=place, env=environment)

    def stop(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    @contextlib.contextmanager
    def front(self, name: str) -> Iterator[Front]:
        """A server of a site that redirects to its door, or asks for pauses."""
        with socket_inside(self.namespace(name), socket.AF_INET, socket.SOCK_STREAM) as listener:
            door = self.url(name).removesuffix("/data/test").replace("davs", "https")
            with front_of(door, self.address(name), self.pki, listener) as front:
                yield front

    def answers(self, name: str) -> bool:
        return not subprocess.run(
            self.inside(
                "curl", "--silent", "--insecure", "--max-time", "5", self.url(name).replace("davs", "https")
            ),
            capture_output=True,
            check=False,
        ).returncode

    def files(self, name: str) -> list[str]:
        """Everything below the folder of a site."""
        root = self.folder / name / "files/data/test"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def shape(namespace: str, device: str, rate: str, slow_to: Mapping[str, str] | None = None) -> None:
    """Limit the rate of what leaves by a device, and that to single addresses further."""
    tc, bucket = ["tc", "-n", namespace], "tbf rate {} burst 128kb latency 50ms"

    def add(words: str) -> None:
        run(*tc, *words.split())

    if not slow_to:
        add(f"qdisc add dev {device} root {bucket.format(rate)}")
        return
    add(f"qdisc add dev {device} root handle 1: htb default 1")
    for number, (address, limit) in enumerate([("", rate), *slow_to.items()], 1):
        add(f"class add dev {device} parent 1: classid 1:{number} htb rate 1gbit quantum 60000")
        add(f"qdisc add dev {device} parent 1:{number} {bucket.format(limit)}")
        if address:
            where = f"match ip dst {address}/32 flowid 1:{number}"
            add(f"filter add dev {device} parent 1: protocol ip u32 {where}")


@contextlib.contextmanager
def farm_of(uplinks: Mapping[str, Uplink], prefix: str = "") -> Iterator[Farm]:
    """Run the servers of sites with short names for the length of a `with`."""
    farm = Farm(Path(tempfile.mkdtemp(prefix="farm-")), prefix or f"f{os.getpid()}", uplinks)
    farm.folder.chmod(0o755)
    user = pwd.getpwnam("xrootd")
    addresses = [farm.address(name) for name in uplinks]
    for name in ("pki", "other"):
        create_credentials(farm.folder / name, addresses, (user.pw_uid, user.pw_gid))
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, farm.folder)
        run("ip", "netns", "add", farm.hub)
        undo.callback(run, "ip", "netns", "delete", farm.hub)
        run("ip", "-n", farm.hub, "link", "set", "lo", "up")
        run("ip", "-n", farm.hub, "address", "add", f"{HUB}/32", "dev", "lo")
        run(*farm.inside("sysctl", "-qw", "net.ipv4.ip_forward=1"))
        for name in uplinks:
            undo.callback(run, "ip", "netns", "delete", farm.namespace(name))
            farm.connect(name)
            farm.start(name)
            undo.callback(farm.stop, name)
        for line in farm.lines.values():
            undo.callback(line.close)
        wait_until(lambda: all(map(farm.answers, uplinks)), "the sites answer", pause=0.5)
        yield farm
