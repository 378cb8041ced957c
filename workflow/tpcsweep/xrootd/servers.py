# SPDX-License-Identifier: Apache-2.0
"""Configuration and start order of XRootD servers with HTTP-TPC, TLS, macaroons and X.509. Pure: text in, text out.

One port speaks xroot, http and https, because a redirector hands out `xrd.port`. HTTP-TPC needs TLS: without
`xrd.tls` the server skips its HTTP handlers without a word and answers COPY with 400. Sources: the XRootD
configuration references "Xrd/XRootd", "Cluster Management Service" and "HTTP/TPC", release 5.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from tpcsweep.xrootd.releases import Release, ReleaseError, number

PORT = 8080
CMSD_PORT = 1213
LOOPBACK = "127.0.0.1"
MONITOR_PORT = 9930
"""Where a server tells of its third-party copies, on its own loopback: what it says must not cross the path."""
SITENAME = "tpcsweep"
MOST_ORIGINS = 64
"""Servers that one redirector can have: for each it has a bit of 64 (XrdCmsTypes.hh, `SMask_t`)."""
EXPORT = "/data"
READY_FILE = "ready"
"""A one-byte file under EXPORT that a server must deliver before it counts as ready."""

CMSD_LOGGED_IN = "Waiting for primary server"
"""What an origin's cmsd logs when its admin socket exists. xrootd looks for that socket only every ten seconds,
so that one started earlier stalls the whole cluster for as long."""

VALID_HOURS = 365 * 24
"""How long certificates and tokens are valid. They are made for one deployment and go with it, or with its cell: none
may end before."""

OLDEST = "5.5.0"
"""The first release that tells of HTTP third-party copies by its monitoring, without which no cell's count of transfers
is confirmed. Source: XRootD's release notes, 5.5.0, "Provide g-stream monitoring for Third Party Copy"."""

RECEIVE_BUFFER = 1 << 20
"""Bytes that a receive buffer begins with, at most. The kernel's default of 128 KiB leaves its growth to autotuning,
which on Linux 6.18 may never begin: such a connection stays at 64 KiB per RTT. See docs/paths.md."""
_SECRET = re.compile(r"(authz=|Bearer(?:%20|\s)+)[^\s&\"']+", re.IGNORECASE)


class Ports(NamedTuple):
    """By which a server is reached, at all addresses of its network: XRootD listens at all (XrdInet.cc, `Bind`)."""

    server: int = PORT
    cmsd: int = CMSD_PORT
    """A redirector's."""
    monitor: int = MONITOR_PORT
    """UDP, of whoever hears its monitoring."""


USUAL = Ports()
"""Those of a server that has a network of its own."""


@dataclass(frozen=True)
class Server:
    """One node of a side: an origin, or the redirector in front of several."""

    name: str
    address: str
    role: Literal["manager", "server"]
    """A redirector is a manager, an origin a server."""
    manager: str | None
    """Address and port of the side's redirector; None for an origin that stands alone."""
    folder: Path
    """Its own folder, writable by it: admin path, pid files, logs."""
    root: Path
    """Where its files are. All origins of a side share it, as the redirector assumes."""
    ports: Ports = USUAL

    @property
    def place(self) -> str:
        """Address and port, which a redirector sends to: servers that share a network differ in either."""
        return f"{self.address}:{self.ports.server}"

    @property
    def url(self) -> str:
        """The https URL of its exported tree, without a slash at the end."""
        return f"https://{self.place}{EXPORT}"

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that it runs: a lone origin needs no cmsd."""
        return ("xrootd",) if self.manager is None else ("cmsd", "xrootd")


def side(
    name: str, entry: str, addresses: Sequence[str], folder: Path, root: Path, ports: Sequence[Ports] = ()
) -> tuple[Server | None, tuple[Server, ...]]:
    """Give the redirector, at `entry`, and the origins of one side; there is no redirector for one origin.

    The name is what the servers' names begin with, the folder is where each gets one of its own. Their ports are the
    usual ones, or those given, the redirector's first where there is one.
    """
    ports = ports or [USUAL] * (len(addresses) + 1)
    of_origins = ports[-len(addresses) :]
    manager = f"{entry}:{ports[0].cmsd}" if len(addresses) > 1 else None
    origins = tuple(
        Server(f"{name}{n}", address, "server", manager, folder / f"{name}{n}", root, theirs)
        for n, (address, theirs) in enumerate(zip(addresses, of_origins, strict=True), start=1)
    )
    redirector = manager and Server(
        f"{name}m", entry, "manager", manager, folder / f"{name}m", root, ports[0]
    )
    return redirector or None, origins


def configuration(
    server: Server, credentials: Path, xrdcp: Sequence[str] | None = None, *, authorization: str = "usual"
) -> str:
    """Give the text of the configuration file of a server, which its xrootd and its cmsd read.

    With the beginning of a command line of `xrdcp`, which pulls its files then, it also serves the root protocol;
    otherwise that protocol gives access to nothing. With `authorization` none everybody is let in.
    """
    asks = authorization != "none"
    manager = [f"all.manager {server.manager}"] if server.manager else []
    cluster = _MANAGER if server.role == "manager" else []
    port = [f"if exec cmsd\nxrd.port {server.ports.cmsd}\nfi"] if server.role == "manager" else []
    lines = [
        f"all.role {server.role}",
        *manager,
        f"all.sitename {SITENAME}",
        f"all.export {EXPORT}",
        f"oss.localroot {server.root}",
        f"all.adminpath {server.folder}",
        f"all.pidpath {server.folder}",
        *port,
        # cmsd must not see these: it would look for a file system object and give up.
        "if exec xrootd",
        f"xrd.port {server.ports.server}",
        f"xrd.tls {credentials}/host.pem {credentials}/host.key",
        f"xrd.tlsca certdir {credentials}/ca",
        f"xrd.protocol http:{server.ports.server} libXrdHttp.so",
        "http.exthandler xrdtpc libXrdHttpTPC.so",
        "http.desthttps yes",
        "http.header2cgi Authorization authz",
        *(_macaroons(credentials) if asks else ()),
        "tpc.trace info error warning",
        f"xrootd.mongstream tpc use flush 1s send json dflthdr {LOOPBACK}:{server.ports.monitor}",
        *(
            f"xrootd.mongstream {stream} use flush {seconds}s send nohdr {LOOPBACK}:{server.ports.monitor}"
            for stream, seconds in _ALARMS.items()
        ),
        *([f"ofs.tpc pgm {' '.join(xrdcp)} --server"] if xrdcp else ()),
        *(_BELIEVED if xrdcp and asks else ()),
        "fi",
        "xrd.network nodnr",
        *(_authorization(credentials) if asks else ()),
        # By default a cluster refuses to write where less than some 10 GB are free; these files are in memory.
        "cms.space min 1m 2m",
        *cluster,
    ]
    return "\n".join(lines) + "\n"


def require(release: Release) -> None:
    """Refuse a release that cannot do what the configuration asks for.

    From OLDEST to 6.2 all do it with the same text. What differs between them cannot be set by the older ones, and is
    left as each has it: how long a server waits for a request (10 s, then 30 s; since 5.7.0 a minute, then five:
    XrdHttpProtocol.cc, `hailWait` and `readWait`); below which rate the other end of a copy is given up (10 KiB/s for
    two minutes; `tpc.low_speed` since 5.9.7); that copies from loopback addresses are refused
    since 5.9.3 (`tpc.allow local`), which no testbed has.

    Raises:
        ReleaseError: with what the release is, and what is allowed.
    """
    version = release.version()
    if number(version) < number(OLDEST):
        raise ReleaseError(
            f"xrootd {release.name} is {version}, allowed: {OLDEST} or later: older ones have no monitoring of HTTP "
            "third-party copies (`xrootd.mongstream tpc`), by which cells confirm what was copied"
        )


def buffer_sysctls(tcp_buffer: int) -> dict[str, str]:
    """Give the sysctls that bound the TCP buffers of a server, in bytes; XRootD sets no sizes itself."""
    return {
        "net.ipv4.tcp_rmem": f"4096 {min(tcp_buffer, RECEIVE_BUFFER)} {tcp_buffer}",
        "net.ipv4.tcp_wmem": f"4096 {min(tcp_buffer, 16384)} {tcp_buffer}",
    }


def without_secrets(text: str) -> str:
    """Remove the tokens that servers log from their words."""
    return _SECRET.sub(r"\1[removed]", text)


def _macaroons(credentials: Path) -> list[str]:
    return [
        f"http.gridmap {credentials}/gridmap",
        "http.exthandler xrdmacaroons libXrdMacaroons.so",
        f"macaroons.secretkey {credentials}/macaroon.key",
        f"macaroons.maxduration {VALID_HOURS * 3600}",
    ]


def _authorization(credentials: Path) -> list[str]:
    return ["ofs.authorize 1", "ofs.authlib libXrdMacaroons.so", f"acc.authdb {credentials}/authdb"]


_BELIEVED = [
    # Who comes by the root protocol says who it is: for networks where nobody else comes. See docs/layers.md.
    "xrootd.seclib libXrdSec.so",
    "sec.protocol unix",
]

_MANAGER = [
    # The default start-up delay is 90 s; one second is the least.
    "cms.delay startup 1 servers 1 lookup 1 service 1 drop 5 hold 500",
    "cms.ping 1 log 60 usage 1",
    "cms.sched fuzz 100",
    # Without this a COPY that creates a file through the redirector is refused with 400.
    "cms.dfs lookup central redirect immed",
]

_ALARMS = {"ccm": 2, "pfc": 3, "tcpmon": 5}
"""Streams that nothing here writes to, and the seconds between their flushes, which are alarms for XRootD's timer.

Between its look at what is due next and its wait for that, the timer misses what is put before it, and the records of
copies would stay until something else is due, up to 13 minutes later (XrdScheduler::TimeSched() in 5.5.3 and later).
These are due within a few seconds whenever they are not due together, once in 30 s.
"""
