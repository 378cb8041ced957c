# SPDX-License-Identifier: Apache-2.0
"""XRootD servers that tpcsweep has not started: own configuration, own processes, loopback addresses."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tpcsweep import testbeds
from tpcsweep.configuration.endpoints import Endpoints
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.testbeds.endpoints import ledger, site
from tpcsweep.xrootd.credentials import USER, create_credentials

from tests.support.sites import handlers_kept
from tests.support.workflow import wait_until


def free_port() -> int:
    """A port that nobody uses now: servers of other tests may run beside these."""
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


Measured = Callable[[Measurement], dict[str, Any]]
TESTBED = testbeds.of("endpoints")
ADDRESSES = {"source": "127.0.8.1", "destination": "127.0.8.2"}
PORTS = {role: free_port() for role in ADDRESSES}
"""XRootD listens at all addresses: its port tells a server."""
ANYBODY = """
http.exthandler xrdtpc libXrdHttpTPC.so
"""
MACAROONS = """
http.exthandler xrdtpc libXrdHttpTPC.so
http.exthandler xrdmacaroons libXrdMacaroons.so
http.gridmap {pki}/gridmap
macaroons.secretkey {pki}/macaroon.key
macaroons.maxduration 99999999
http.header2cgi Authorization authz
"""
ASKS = """
ofs.authorize 1
xrootd.chksum max 2 adler32
ofs.authlib libXrdMacaroons.so
acc.authdb {place}/authdb
"""


@dataclass
class Storage:
    """Two servers, started beside tpcsweep."""

    folder: Path
    pki: Path
    asks: bool
    processes: dict[str, subprocess.Popen[bytes]]

    def files(self, role: str) -> list[str]:
        """Everything below the folder of an end."""
        root = self.folder / role / "data" / "test"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*"))

    def url(self, role: str) -> str:
        return f"https://{ADDRESSES[role]}:{PORTS[role]}/data/test"

    def restart(self, role: str, rights: str = "a", also: str = "") -> None:
        self.processes[role].kill()
        self.processes[role].wait()
        self.processes[role] = start(self.folder, self.pki, role, self.asks, rights, also)
        wait_until(lambda: answers(role), "the server answers")

    def settings(self, **changes: Any) -> Endpoints:
        ends = {role: {"urls": [f"davs://{ADDRESSES[role]}:{PORTS[role]}/data/test"]} for role in ADDRESSES}
        content = {
            "kind": "endpoints",
            "budget": {"bytes": 64 << 30, "time": 600},
            "max_streams": 8,
            "ca": str(self.pki / "ca"),
            "pairs": [{"name": "loopback", **ends}],
            "credentials": {"proxy": str(self.pki / "user.key")} if self.asks else {},
        }
        return Endpoints.model_validate({**content, **changes})


def start(
    folder: Path, pki: Path, role: str, asks: bool, rights: str = "a", also: str = ""
) -> subprocess.Popen[bytes]:
    """Start a server; `rights` are the user's, as XRootD's authdb has them, and `also` further lines."""
    user = pwd.getpwnam("xrootd")
    place = folder / role
    for path in (place, place / "data", place / "data" / "test"):
        path.mkdir(exist_ok=True)
        os.chown(path, user.pw_uid, user.pw_gid)
    lines = [
        "all.export /data",
        f"oss.localroot {place}",
        f"all.adminpath {place}",
        f"all.pidpath {place}",
        f"all.sitename {role}",
        "xrd.network nodnr",
        f"xrd.port {PORTS[role]}",
        f"xrd.tls {pki}/host.pem {pki}/host.key",
        f"xrd.tlsca certdir {pki}/ca",
        f"xrd.protocol http:{PORTS[role]} libXrdHttp.so",
        "http.desthttps yes",
        *((MACAROONS + ASKS) if asks else ANYBODY).format(pki=pki, place=place).splitlines(),
        also,
    ]
    (place / "authdb").write_text(f"u {USER} /data {rights}\n")
    (place / "server.cfg").write_text("\n".join(lines) + "\n")
    become = ["setpriv", "--reuid=xrootd", "--regid=xrootd", "--clear-groups", "--pdeathsig", "KILL"]
    command = [*become, "xrootd", "-c", str(place / "server.cfg"), "-l", str(place / "log"), "-n", role]
    # The proxy that tests set for tpcsweep would be the server's, too.
    return subprocess.Popen(command, cwd=place, env={"PATH": os.environ["PATH"]})


@contextlib.contextmanager
def storage_of(asks: bool) -> Iterator[Storage]:
    """Two servers for the length of a `with`; `asks`: only who shows a certificate or a macaroon may use them."""
    folder = Path(tempfile.mkdtemp(prefix="storage-"))  # those of pytest are root's alone
    folder.chmod(0o755)
    user = pwd.getpwnam("xrootd")
    pki = folder / "pki"
    create_credentials(pki, ADDRESSES.values(), (user.pw_uid, user.pw_gid))
    running = {role: start(folder, pki, role, asks) for role in ADDRESSES}
    found = Storage(folder, pki, asks, running)
    try:
        wait_until(lambda: all(map(answers, ADDRESSES)), "the servers answer")
        yield found
    finally:
        for process in found.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(folder)


@contextlib.contextmanager
def deployed(settings: Endpoints, folder: Path, **parameters: Any) -> Iterator[Measured]:
    """A deployment on endpoints, as the function that measures a cell in it."""
    asked = Parameters(**{"pair": "loopback", "source_content": "random", "file_size": 1 << 20, **parameters})
    request = testbeds.Request(
        "test", "pair=loopback", asked, [asked.tool], 60.0, folder, print, testbed="here"
    )
    with handlers_kept(), TESTBED.deployed(settings, request) as made:
        yield lambda how: TESTBED.measure(made, asked, how, "c0", lambda *_: None)


def lingering(patched: pytest.MonkeyPatch, seconds: float) -> None:
    """Wait so long for servers that finish a copy after its client is gone: small files are whole sooner."""
    for module in (ledger, site):
        patched.setattr(module, "LINGER", seconds)


def answers(role: str) -> bool:
    with socket.socket() as plain:
        return plain.connect_ex((ADDRESSES[role], PORTS[role])) == 0
