# SPDX-License-Identifier: Apache-2.0
"""XRootD servers that tpcsweep has not started: own configuration, own processes, loopback addresses."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.deploying.xrootd.credentials import USER, create_credentials
from tpcsweep.deploying.xrootd.obtaining import obtain
from tpcsweep.deploying.xrootd.releases import SYSTEM
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.endpoints import ledger, site
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.endpoints.site import EndpointsSite
from tpcsweep.testbeds.interface import Finding, Request

from tests.support.issuer import Issuer, issuer_at
from tests.support.sites import MIB, handlers_kept
from tests.support.workflow import free_port, wait_until

ADDRESSES = {"source": "127.0.8.1", "destination": "127.0.8.2"}
PORTS = {f"{role}{door}": free_port() for role in ADDRESSES for door in ("", "-2")}
"""XRootD listens at all addresses: its port tells a door."""
ASKS = """
http.header2cgi Authorization authz
ofs.authorize 1
xrootd.chksum max 2 adler32
"""
MACAROONS = """
http.exthandler xrdmacaroons libXrdMacaroons.so
http.gridmap {pki}/gridmap
macaroons.secretkey {pki}/macaroon.key
macaroons.maxduration 99999999
macaroons.trace debug
ofs.authlib libXrdMacaroons.so
acc.authdb {place}/authdb
xrootd.seclib libXrdSec.so
sec.protocol unix
"""
TOKENS = """
xrootd.tls capable login
xrootd.seclib libXrdSec.so
sec.protocol ztn
ofs.authlib libXrdAccSciTokens.so config={place}/scitokens.cfg
"""
SCITOKENS = """
[Global]
audience = {audience}
[Issuer test]
issuer = {issuer}
base_path = /data/test
"""
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
"""The CAs of the system, which alone the library of XRootD's plugin for tokens trusts."""


LINGER = ledger.LINGER
"""Seconds that deployments wait for servers that continue a copy without its client."""


@dataclass
class Storage:
    """Servers of a source and a destination, started next to tpcsweep."""

    folder: Path
    pki: Path
    asks: bool
    processes: dict[str, subprocess.Popen[bytes]]
    """By door."""
    doors: Sequence[str] = tuple(ADDRESSES)
    """Doors of an end have the same files, and names that begin with its role."""
    releases: Mapping[str, str] = field(default_factory=dict)
    """By role; others run the system's."""
    issuer: Issuer | None = None
    """Whose tokens the servers accept, instead of certificates and macaroons."""
    changed: set[str] = field(default_factory=set)
    """Doors whose servers have not the usual configuration, or may hang: they are started again before a test."""

    def files(self, role: str) -> list[str]:
        """Everything below the folder of an end."""
        root = self.folder / role / "data" / "test"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*"))

    def url(self, door: str) -> str:
        return f"https://{where(door)}/data/test"

    def audience(self, role: str) -> str:
        """The audience of tokens for the servers of an end."""
        return f"https://{role}.test"

    def log(self, door: str) -> str:
        return "".join(path.read_text() for path in (self.folder / door).rglob("log"))

    def start(self, door: str, rights: str = "a", also: str = "") -> None:
        """Start a server; `rights` are the user's, as XRootD's authdb has them, and `also` further lines."""
        role, user = role_of(door), pwd.getpwnam("xrootd")
        place, root = self.folder / door, self.folder / role
        for path in (place, root, root / "data", root / "data" / "test"):
            path.mkdir(exist_ok=True)
            os.chown(path, user.pw_uid, user.pw_gid)
        # By the root protocol clients declare that they are the user who runs the tests.
        (place / "authdb").write_text(f"u {USER} /data {rights}\nu {getpass.getuser()} /data {rights}\n")
        authorization = f"{ASKS}{TOKENS if self.issuer else MACAROONS}" if self.asks else ""
        lines = [
            "all.export /data",
            f"oss.localroot {root}",
            f"all.adminpath {place}",
            f"all.pidpath {place}",
            f"all.sitename {role}",
            "xrd.network nodnr",
            f"xrd.port {PORTS[door]}",
            f"xrd.tls {self.pki}/host.pem {self.pki}/host.key",
            f"xrd.tlsca certdir {self.pki}/ca",
            f"xrd.protocol http:{PORTS[door]} libXrdHttp.so",
            "http.exthandler xrdtpc libXrdHttpTPC.so",
            "http.desthttps yes",
            "ofs.tpc pgm /usr/bin/xrdcp --server",
            "tpc.trace info error warning",
            *authorization.format(pki=self.pki, place=place).splitlines(),
            also,
        ]
        (place / "server.cfg").write_text("\n".join(lines) + "\n")
        become = ["setpriv", "--reuid=xrootd", "--regid=xrootd", "--clear-groups", "--pdeathsig", "KILL"]
        if self.issuer:
            known = SCITOKENS.format(audience=self.audience(role), issuer=self.issuer.url)
            (place / "scitokens.cfg").write_text(known)
            mount = f'mount --bind {self.pki}/ca.pem {BUNDLE.resolve()} && exec "$@"'
            become = ["unshare", "--mount", "sh", "-c", mount, "sh", *become]
        program = obtain(self.releases.get(role, SYSTEM), {}, print).command("xrootd")
        command = [*become, *program, "-c", str(place / "server.cfg"), "-l", str(place / "log"), "-n", door]
        # The proxy that tests set for tpcsweep would be the server's, too.
        environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(place)}
        self.processes[door] = subprocess.Popen(command, cwd=place, env=environment)

    def kill(self, door: str) -> None:
        self.processes[door].kill()
        self.processes[door].wait()

    def restart(self, door: str, rights: str = "a", also: str = "") -> None:
        self.kill(door)
        self.start(door, rights, also)
        (self.changed.discard if (rights, also) == ("a", "") else self.changed.add)(door)
        wait_until(lambda: answers(door), "the server answers")

    def heal(self) -> None:
        """Start servers again that hang or have another configuration than usual, and remove what they kept."""
        for door in self.doors:
            if door in self.changed or not answers(door):
                self.restart(door)
                for left in (self.folder / role_of(door) / "data/test").iterdir():
                    shutil.rmtree(left) if left.is_dir() else left.unlink()

    def settings_for(self, tool: str, **changes: Any) -> Endpoints:
        """Settings for a tool; one that runs at an end has the folder of that end's server as a local folder.

        For xrdcp at one address, as servers compare it with that of the third party.
        """
        root, place = TOOLS[tool].protocol == "root", TOOLS[tool].place
        if not root and place == "client":
            return self.settings(**changes)
        ends = {
            role: {"urls": [f"root://127.0.0.1:{PORTS[role]}//data/test" if root else self.url(role)]}
            for role in ADDRESSES
        }
        if place != "client":
            ends[place] = {"urls": [f"file://{self.folder}/{place}/data/test"]}
        return self.settings(pairs=[{"name": "loopback", **ends}], **changes)

    def settings(self, **changes: Any) -> Endpoints:
        ends: dict[str, dict[str, list[str]]] = {role: {"urls": []} for role in ADDRESSES}
        for door in self.doors:
            ends[role_of(door)]["urls"].append(f"davs://{where(door)}/data/test")
        content = {
            "kind": "endpoints",
            "budget": {"bytes": 64 << 30, "time": 600},
            "max_streams": 8,
            "ca": str(self.pki / "ca"),
            "pairs": [{"name": "loopback", **ends}],
            "credentials": {"proxy": str(self.pki / "user.key")} if self.asks else {},
        }
        return Endpoints.model_validate({**content, **changes})


@contextlib.contextmanager
def storage_of(
    asks: bool,
    doors: Sequence[str] = tuple(ADDRESSES),
    releases: Mapping[str, str] | None = None,
    tokens: bool = False,
) -> Iterator[Storage]:
    """Servers for the length of a `with`; `asks`: only who shows a certificate, macaroon or token may use them."""
    folder = Path(tempfile.mkdtemp(prefix="storage-"))  # those of pytest are root's alone
    folder.chmod(0o755)
    user = pwd.getpwnam("xrootd")
    pki = folder / "pki"
    create_credentials(pki, [*ADDRESSES.values(), "127.0.0.1"], (user.pw_uid, user.pw_gid))
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder)
        issuer = undo.enter_context(issuer_at(ADDRESSES["source"], pki)) if tokens else None
        found = Storage(folder, pki, asks, {}, doors, releases or {}, issuer)
        for door in doors:
            found.start(door)
            undo.callback(found.kill, door)
        wait_until(lambda: all(map(answers, doors)), "the servers answer")
        yield found


@contextlib.contextmanager
def deployed(settings: Endpoints, folder: Path, **parameters: Any) -> Iterator[tuple[EndpointsSite, Any]]:
    """A deployment, and the function that measures a cell in it and returns what its file would contain."""
    testbed = kinds.load_testbed("endpoints")
    asked = Parameters(**{"pair": "loopback", "source_content": "random", "file_size": MIB, **parameters})
    request = Request("test", "pair=loopback", asked, [asked.tool], 60.0, folder, print, testbed="here")
    with handlers_kept(), testbed.deployed(settings, request) as made:
        yield made, lambda how: testbed.measure(made, asked, how, "c0", lambda *_: None).to_json()


@contextlib.contextmanager
def nothing_stays(storage: Storage, state: Path, patched: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep ledgers in a folder; neither they nor files on the servers may stay."""
    patched.setenv("XDG_STATE_HOME", str(state))
    linger(patched, 0.1)
    storage.heal()
    yield
    assert storage.files("source") == storage.files("destination") == []
    assert not list(ledger.place().glob("*.json"))


def linger(patched: pytest.MonkeyPatch, seconds: float = LINGER) -> None:
    """Have deployments wait so long for servers; tests in which no copy outlives its client need not wait."""
    for module in (ledger, site):
        patched.setattr(module, "LINGER", seconds)


def role_of(door: str) -> str:
    return door.partition("-")[0]


def where(door: str) -> str:
    """Host and port of a door."""
    return f"{ADDRESSES[role_of(door)]}:{PORTS[door]}"


def assert_no_failure(found: Iterable[Finding]) -> None:
    """The reasons of failed checks are whole in the report: a server that hangs is known by them."""
    reasons = [row.reason for row in found if row.status == "failed"]
    assert not reasons, "\n".join(reasons)


def answers(door: str) -> bool:
    host, port = where(door).split(":")
    return talks(host, int(port))


def talks(host: str, port: int) -> bool:
    """Return whether a server completes a TLS handshake."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), timeout=20) as plain, tls.wrap_socket(plain):
            return True
    except OSError:
        return False
