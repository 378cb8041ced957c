# SPDX-License-Identifier: Apache-2.0
"""Sites of a mesh that tpcsweep has not started: XRootD servers, each in a network namespace with a link of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpcsweep.deploying.xrootd.credentials import create_credentials

from tests.support.workflow import wait_until

PORT = 1094
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
    trusted: bool = True
    """Whether the CA of the site's certificate is the one of all others."""


@dataclass
class Farm:
    """Servers around a switch, in whose namespace the client runs."""

    folder: Path
    prefix: str
    uplinks: Mapping[str, Uplink]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def hub(self) -> str:
        return f"{self.prefix}-hub"

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
            "ca": str(self.folder / "pki/ca"),
            **changes,
        }

    def connect(self, name: str) -> None:
        """Make the namespace of a site, and its connection to the switch with a rate in both directions."""
        uplink, own = self.uplinks[name], f"{self.prefix}-{name}"
        there = f"{self.prefix}{[*self.uplinks].index(name)}"
        shaped = ["root", "tbf", "rate", uplink.rate, "burst", "128kb", "latency", "50ms"]
        run("ip", "netns", "add", own)
        run("ip", "-n", self.hub, "link", "add", there, "type", "veth", "peer", "name", "eth0", "netns", own)
        run("ip", "-n", self.hub, "link", "set", there, "master", "switch", "up")
        run("ip", "-n", own, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", own, "link", "set", device, "up")
        run("tc", "-n", self.hub, "qdisc", "add", "dev", there, *shaped)
        run("tc", "-n", own, "qdisc", "add", "dev", "eth0", *shaped)

    def start(self, name: str) -> None:
        user, place = pwd.getpwnam("xrootd"), self.folder / name
        for path in (place, place / "files", place / "files/data", place / "files/data/test"):
            path.mkdir(exist_ok=True)
            os.chown(path, user.pw_uid, user.pw_gid)
        pki = self.folder / ("pki" if self.uplinks[name].trusted else "other")
        settings = {"place": place, "name": name, "port": PORT, "pki": pki, "trusted": self.folder / "pki"}
        (place / "server.cfg").write_text(CONFIGURATION.format(**settings))
        become = ["setpriv", "--reuid=xrootd", "--regid=xrootd", "--clear-groups", "--pdeathsig", "KILL"]
        program = ["xrootd", "-c", str(place / "server.cfg"), "-l", str(place / "log"), "-n", name]
        command = ["ip", "netns", "exec", f"{self.prefix}-{name}", *become, *program]
        environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(place)}
        self.processes[name] = subprocess.Popen(command, cwd=place, env=environment)

    def stop(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

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
        run("ip", "-n", farm.hub, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", farm.hub, "address", "add", "10.123.0.254/24", "dev", "switch")
        for device in ("lo", "switch"):
            run("ip", "-n", farm.hub, "link", "set", device, "up")
        for name in uplinks:
            undo.callback(run, "ip", "netns", "delete", f"{farm.prefix}-{name}")
            farm.connect(name)
            farm.start(name)
            undo.callback(farm.stop, name)
        wait_until(lambda: all(map(farm.answers, uplinks)), "the sites answer", pause=0.5)
        yield farm
