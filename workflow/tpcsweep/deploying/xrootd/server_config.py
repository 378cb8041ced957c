# SPDX-License-Identifier: Apache-2.0
"""Configuration and start order of XRootD servers with HTTP-TPC, TLS, macaroons and X.509.

All functions are pure. One port speaks xroot, http and https, because a redirector announces `xrd.port`. HTTP-TPC needs
TLS: without `xrd.tls` the server silently skips its HTTP handlers and answers COPY with 400. Sources: the XRootD
configuration references "Xrd/XRootd", "Cluster Management Service" and "HTTP/TPC", release 5.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from tpcsweep.deploying.xrootd.releases import Release, ReleaseError, version_number

VALID_HOURS = 365 * 24
"""Validity of certificates, and the longest of macaroons: longer than their deployment, which deletes them."""
PORT = 8080
CMSD_PORT = 1213
LOOPBACK = "127.0.0.1"
FIREFLY_PORT = 10514  # UDP port of packets that announce flows, on a server's own loopback
MONITOR_PORT = 9930
"""Port on a server's own loopback for reports of third-party copies, which must not cross the path."""
SITENAME = "tpcsweep"
MOST_ORIGINS = 64
"""Most servers of one redirector, which has one of 64 bits for each (XrdCmsTypes.hh, `SMask_t`)."""
CHECKSUMS = ("adler32", "crc32c", "md5")
"""Checksums that servers compute when a client asks for one."""
LIMITS = {
    "ofs.tpc ttl": "120 600",
    "ofs.tpc xfr": "1000",
    "xrootd.chksum max": "1000",
}
"""Limits of servers, which cells record. The defaults would be hidden knees.
By the root protocol they are 9 third-party copies at a time, with keys that are valid for 7 to 15 s
(XrdOfsTPCConfig.hh); and 4 checksums are computed at a time. HTTP third-party copies have no limit up to 6.2.1."""
EXPORT = "/data"
READY_FILE = "ready"  # one-byte file under EXPORT that a server must deliver before it counts as ready

CMSD_LOGGED_IN = "Waiting for primary server"
"""Message that an origin's cmsd logs when its admin socket exists.
xrootd looks for that socket only every ten seconds, so an xrootd that starts earlier stalls the whole cluster for as
long."""

OLDEST = "5.5.0"
"""First release whose monitoring reports HTTP third-party copies, which confirm each cell's transfers.
Source: XRootD's release notes, 5.5.0, "Provide g-stream monitoring for Third Party Copy"."""

_SECRET = re.compile(r"(authz=|Bearer(?:%20|\s)+)[^\s&\"']+", re.IGNORECASE)


class Ports(NamedTuple):
    """Ports of a server, at all addresses of its network (XrdInet.cc, `Bind`), and of its agent."""

    server: int = PORT
    cmsd: int = CMSD_PORT  # port of a redirector's cmsd
    monitor: int = MONITOR_PORT  # UDP port of the monitoring's receiver
    agent: int = 8443
    probe: int = 8444  # agent's port for connections that verify a path


USUAL = Ports()  # ports of a server with a network of its own


@dataclass(frozen=True)
class Server:
    """Node of a side: an origin, or the redirector in front of several."""

    name: str
    address: str
    role: Literal["manager", "server"]  # a redirector is a manager, an origin a server
    manager: str | None  # address and port of the side's redirector, or None for a single origin
    folder: Path  # writable folder for admin path, pid files and logs
    root: Path  # folder of its files, shared by all origins of a side, as the redirector assumes
    ports: Ports = USUAL

    @property
    def place(self) -> str:
        """Address and port; servers in one network differ in one of them."""
        return place_of(self.address, self.ports.server)

    @property
    def url(self) -> str:
        """URL (https) of its exported tree, without a slash at the end."""
        return f"https://{self.place}{EXPORT}"

    @property
    def programs(self) -> tuple[str, ...]:
        """Its programs in start order; a single origin needs no cmsd."""
        return ("xrootd",) if self.manager is None else ("cmsd", "xrootd")


class SideServers(NamedTuple):
    """Servers of one side. Several origins have a redirector in front of them."""

    redirector: Server | None
    origins: tuple[Server, ...]

    @property
    def servers(self) -> list[Server]:
        return [server for server in (self.redirector, *self.origins) if server]

    @property
    def names(self) -> list[str]:
        return [origin.name for origin in self.origins]

    @property
    def addresses(self) -> list[str]:
        """Addresses of the origins, each once."""
        return list(dict.fromkeys(origin.address for origin in self.origins))

    @property
    def files(self) -> Path:
        """Folder of the side's files, which all its origins serve."""
        return self.origins[0].root / EXPORT.strip("/")

    def urls(self, endpoint: str) -> list[str]:
        """Return the URLs for the client: the redirector's, or those of all origins."""
        contacted = (self.redirector,) if endpoint == "redirector" and self.redirector else self.origins
        return [server.url for server in contacted]


def place_of(address: str, port: int) -> str:
    """Return an address and a port as URLs contain them: an address of IPv6 stands in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parts_of(place: str) -> tuple[str, int]:
    """Return the address and the port of a text that `place_of` returns."""
    address, _, port = place.rpartition(":")
    return address.strip("[]"), int(port)


def side_servers(
    name: str, entry: str, addresses: Sequence[str], folder: Path, root: Path, ports: Sequence[Ports] = ()
) -> SideServers:
    """Return the servers of one side: origins at `addresses`, and for several a redirector at `entry`.

    Their names begin with `name`. Each gets a subfolder of `folder`, and all serve the files in `root`. The first of
    the `ports` are the redirector's; by default all have the usual ones.
    """
    ports = ports or [USUAL] * (len(addresses) + 1)
    manager = place_of(entry, ports[0].cmsd) if len(addresses) > 1 else None
    origins = tuple(
        Server(f"{name}{n}", address, "server", manager, folder / f"{name}{n}", root, theirs)
        for n, (address, theirs) in enumerate(zip(addresses, ports[-len(addresses) :], strict=True), start=1)
    )
    m = f"{name}m"
    redirector = Server(m, entry, "manager", manager, folder / m, root, ports[0]) if manager else None
    return SideServers(redirector, origins)


def configuration(
    server: Server,
    credentials: Path,
    xrdcp: Sequence[str] | None = None,
    *,
    authorization: str = "usual",
    mirage: bool = False,
    marking: bool = False,
) -> str:
    """Return the text of a server's configuration file, for its xrootd and its cmsd.

    `create_credentials` made the folder `credentials`. `xrdcp` starts the command line that pulls files by the root
    protocol, which is disabled without it. With `authorization` "none" everybody has access. With `mirage` files have a
    size and no content, and the root protocol sets it. With `marking` servers announce flows by their SciTags.
    """
    asks = authorization != "none"
    manager = server.role == "manager"
    udp = f"{LOOPBACK}:{server.ports.monitor}"
    root_limits = " ".join(f"{name} {LIMITS[f'ofs.tpc {name}']}" for name in ("ttl", "xfr"))
    macaroons = [
        f"http.gridmap {credentials}/gridmap",
        "http.exthandler xrdmacaroons libXrdMacaroons.so",
        f"macaroons.secretkey {credentials}/macaroon.key",
        f"macaroons.maxduration {VALID_HOURS * 3600}",
    ]
    rights = ["ofs.authorize 1", "ofs.authlib libXrdMacaroons.so", f"acc.authdb {credentials}/authdb"]
    lines = [
        f"all.role {server.role}",
        *([f"all.manager {server.manager}"] if server.manager else ()),
        f"all.sitename {SITENAME}",
        f"all.export {EXPORT}",
        f"oss.localroot {server.root}",
        f"all.adminpath {server.folder}",
        f"all.pidpath {server.folder}",
        *(["if exec cmsd", f"xrd.port {server.ports.cmsd}", "fi"] if manager else ()),
        # cmsd must not see these: it would look for a file system object and exit.
        "if exec xrootd",
        f"xrd.port {server.ports.server}",
        f"xrd.tls {credentials}/host.pem {credentials}/host.key",
        f"xrd.tlsca certdir {credentials}/ca",
        f"xrd.protocol http:{server.ports.server} libXrdHttp.so",
        "http.exthandler xrdtpc libXrdHttpTPC.so",
        "http.desthttps yes",
        "http.header2cgi Authorization authz",
        *(macaroons if asks else ()),
        "tpc.trace info error warning",
        f"xrootd.chksum max {LIMITS['xrootd.chksum max']} {' '.join(CHECKSUMS)}",
        f"xrootd.mongstream tpc use flush 1s send json dflthdr {udp}",
        *(f"xrootd.mongstream {stream} use flush {s}s send nohdr {udp}" for stream, s in _ALARMS.items()),
        *([f"ofs.tpc {root_limits} pgm {' '.join(xrdcp)} --server"] if xrdcp else ()),
        # With the root protocol users declare their identity, for networks without strangers. See docs/tools.md.
        *(["xrootd.seclib libXrdSec.so", "sec.protocol unix"] if (xrdcp or mirage) and asks else ()),
        *(["ofs.osslib libXrdOssMirage.so"] if mirage else ()),
        *(f"xrootd.pmark {line}" for line in _MARKING if marking),
        "fi",
        "xrd.network nodnr",
        *(rights if asks else ()),
        # By default a cluster refuses writes if less than about 10 GB are free; these files are in memory.
        "cms.space min 1m 2m",
        *(_MANAGER if manager else ()),
    ]
    return "\n".join(lines) + "\n"


def require_recent(release: Release) -> None:
    """Raise ReleaseError if a release is too old for the configuration.

    All releases from OLDEST to 6.2 accept the same text. Older ones cannot set the values that differ between them: the
    wait for a request (10 s, then 30 s; since 5.7.0 a minute, then five: XrdHttpProtocol.cc, `hailWait` and
    `readWait`), the rate below which a copy is stopped (10 KiB/s for two minutes; `tpc.low_speed` since 5.9.7), and the
    refusal of copies from loopback addresses since 5.9.3 (`tpc.allow local`), which no testbed has.
    """
    version = release.version()
    if version_number(version) < version_number(OLDEST):
        raise ReleaseError(
            f"xrootd {release.name} is {version}, allowed: {OLDEST} or later: older ones have no monitoring of HTTP "
            "third-party copies (`xrootd.mongstream tpc`), by which cells confirm what was copied"
        )


def without_secrets(text: str) -> str:
    """Remove the tokens from a text that servers have logged."""
    return _SECRET.sub(r"\1[removed]", text)


_MANAGER = [
    # The default start-up delay is 90 s; one second is the minimum.
    "cms.delay startup 1 servers 1 lookup 1 service 1 drop 5 hold 500",
    "cms.ping 1 log 60 usage 1",
    "cms.sched fuzz 100",
    # Without this a COPY that creates a file through the redirector is refused with 400.
    "cms.dfs lookup central redirect immed",
]

_MARKING = ("domain any", "use firefly scitag", f"ffdest {LOOPBACK}:{FIREFLY_PORT}")
_ALARMS = {"ccm": 2, "pfc": 3, "tcpmon": 5}
"""Unused streams with the seconds between their flushes, which wake XRootD's timer.
The timer misses an event that is scheduled between its look at the next event and its wait for that. Records of copies
then remain until another event is due, up to 13 minutes later (XrdScheduler::TimeSched() in 5.5.3 and later). These
flushes are due within a few seconds, except when they coincide, once in 30 s."""
