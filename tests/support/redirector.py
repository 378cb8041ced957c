# SPDX-License-Identifier: Apache-2.0
"""A real redirector of XRootD in front of a storage's files: a manager and one data server, each with its cmsd."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.storage import Storage, talks
from tests.support.workflow import free_port, wait_until

ADDRESS = "127.0.0.1"  # the data server reports it to the manager, which redirects to it
SERVERS = ("manager", "server")
CONFIG = """
all.role {role}
all.manager {address}:{manager}
all.export /data
all.adminpath {place}
all.pidpath {place}
oss.localroot {root}
xrd.network nodnr
cms.delay startup 1 servers 1 lookup 1 service 1
cms.dfs lookup central redirect immed
if exec cmsd
xrd.port {cmsd}
else
xrd.port {port}
xrd.tls {pki}/host.pem {pki}/host.key
xrd.tlsca certdir {pki}/ca
xrd.protocol http:{port} libXrdHttp.so
http.exthandler xrdtpc libXrdHttpTPC.so
http.desthttps yes
xrootd.chksum max 2 adler32
fi
"""


@contextlib.contextmanager
def redirector_of(storage: Storage, role: str) -> Iterator[str]:
    """Serve the files of an end for the length of a `with`; yields the URL of the folder."""
    cmsd, port = ({name: free_port() for name in SERVERS} for _ in range(2))
    with contextlib.ExitStack() as undo:
        for name in SERVERS:
            place = storage.folder / f"cluster-{name}"
            place.mkdir(mode=0o777)
            place.chmod(0o777)
            config = CONFIG.format(
                role=name,
                address=ADDRESS,
                manager=cmsd["manager"],
                place=place,
                root=storage.folder / role,
                cmsd=cmsd[name],
                port=port[name],
                pki=storage.pki,
            )
            (place / "server.cfg").write_text(config)
            for program in ("cmsd", "xrootd"):
                undo.callback(_ended, _started(program, place))
            if name == "manager":
                wait_until(lambda: talks(ADDRESS, port["manager"]), "the redirector answers")
        wait_until(lambda: talks(ADDRESS, port["server"]), "the data server answers")
        log = storage.folder / "cluster-manager" / "manager" / "cmsd.log"
        wait_until(lambda: "Primary server" in log.read_text(), "the data server has logged in")
        yield f"davs://{ADDRESS}:{port['manager']}/data/test"


def _started(program: str, place: Path) -> subprocess.Popen[bytes]:
    become = ["setpriv", "--reuid=xrootd", "--regid=xrootd", "--clear-groups", "--pdeathsig", "KILL"]
    name = place.name.removeprefix("cluster-")
    command = [
        *become,
        program,
        "-c",
        str(place / "server.cfg"),
        "-l",
        str(place / f"{program}.log"),
        "-n",
        name,
    ]
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(place)}
    return subprocess.Popen(command, cwd=place, env=environment)


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
