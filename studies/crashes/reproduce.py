#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test whether an XRootD server with late threads survives TLS handshakes whose clients hang up.

    python3 studies/crashes/reproduce.py SERVER [--slow cpu|poll|wait|enable] [--runs 5] [--seconds 60]

SERVER is the folder of an XRootD (installed, or the build's), or a program to run instead of `xrootd`. Each run
starts one server on 127.0.0.1 with HTTPS only, whose clients connect, shake hands and hang up. `cpu` limits it to a
tenth of a core by a cgroup, which needs root; the others preload late.c, which needs `cc`, with one, two or three of
its delays. Needs Python 3.9 and openssl. Exits with status 1 if a server died.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

CLIENTS = 32
CORES = 0.1
LATE = {"poll": 1, "wait": 2, "enable": 3}
"""Value of LATE in late.c: the number of active delays."""
WAIT = 5.0
"""Seconds that a client waits for the server."""
USER = "nobody"
"""User of the server if root starts it, because XRootD does not run as root."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: close by a TCP reset, as the kernel does if data are left unread."""
CGROUPS = Path("/sys/fs/cgroup")


def main() -> None:
    """Run servers one after another, and print the result of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", type=Path, help="folder of an XRootD, or a program")
    parser.add_argument("--slow", choices=("cpu", *LATE), default="enable")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60, help="how long a run is, at most")
    asked = parser.parse_args()
    died = 0
    for run in range(1, asked.runs + 1):
        with tempfile.TemporaryDirectory(prefix="crash-") as name:
            end, words = outcome(Path(name), asked.server.resolve(), asked.slow, asked.seconds)
        died += end is not None
        print(f"run {run}: {end or 'alive'}; {words}", flush=True)
    print(f"{died} of {asked.runs} servers died")
    sys.exit(died > 0)


def outcome(folder: Path, server: Path, slow: str, seconds: float) -> tuple[str | None, str]:
    """Return how one server died, or None, and further notes on the run."""
    port = free_port()
    prepare(folder, port)
    log = folder / "log"
    begun = time.monotonic()
    with running(server, folder, log, slow) as process, quota(process.pid, slow):
        wait_for(port, process, log)
        tallies = hang_up(process, port, folder, seconds)
        status = process.poll()
    said = log.read_text(errors="replace")
    words = ", ".join(f"{count} {kind}" for kind, count in tallies.items())
    words += "".join(f", {said.count(sign)} times '{sign}'" for sign in SIGNS)
    if status is None:
        return None, words
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    last = said.strip().splitlines()[-1]
    return f"died by {how} after {time.monotonic() - begun:.1f} s", f"{words}; its last words: {last}"


SIGNS = ("Unable to enable link", "attempt to reuse active link")
"""Message of XRootD if two threads had the same connection, which is not always fatal."""


def prepare(folder: Path, port: int) -> None:
    """Create certificates, a file to get and the server's configuration."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(
        folder, "req", "-x509", *key, "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=CA"
    )
    for name in ("host", "user"):
        openssl(folder, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signer, "-out", f"{name}.pem")
    for name in ("ca", "admin", "root/data"):
        (folder / name).mkdir(parents=True)
    shutil.copy(folder / "ca.pem", folder / "ca")
    openssl(folder, "rehash", "ca")
    (folder / "root/data/file").write_bytes(bytes(1000))
    (folder / "xrootd.cfg").write_text(f"""\
all.export /data
oss.localroot {folder}/root
all.adminpath {folder}/admin
all.pidpath {folder}/admin
xrd.network nodnr
xrd.port {port}
xrd.tls {folder}/host.pem {folder}/host.key
xrd.tlsca certdir {folder}/ca
xrd.protocol http:{port} libXrdHttp.so
""")
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, USER)


@contextlib.contextmanager
def running(server: Path, folder: Path, log: Path, slow: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block."""
    program, environment = server, dict(os.environ)
    if server.is_dir():
        program = next(path for part in ("bin", "src") if (path := server / part / "xrootd").exists())
        libraries = [str(path.parent) for path in server.glob("*/libXrdServer.so")]
        environment |= {"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {}
    if slow in LATE:
        source, library = Path(__file__).with_name("late.c"), folder / "late.so"
        options = ("-O1", "-shared", "-fPIC", f"-DLATE={LATE[slow]}")
        subprocess.run(["cc", *options, source, "-o", library, "-ldl"], check=True)
        environment["LD_PRELOAD"] = f"{environment.get('LD_PRELOAD', '')}:{library}"
    user = USER if os.geteuid() == 0 else None
    group = pwd.getpwnam(USER).pw_gid if user else None
    with log.open("wb") as file:
        process = subprocess.Popen(
            [program, "-c", folder / "xrootd.cfg", "-s", folder / "admin" / "xrootd.pid"],
            cwd=folder / "admin",
            env=environment,
            user=user,
            group=group,
            extra_groups=[] if user else None,
            preexec_fn=end_with_parent,
            stdout=file,
            stderr=file,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends in any way (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextlib.contextmanager
def quota(pid: int, slow: str) -> Iterator[None]:
    """Limit the process to a tenth of a core, until the end of the block."""
    if slow != "cpu":
        yield
        return
    v2 = (CGROUPS / "cgroup.controllers").exists()
    group = CGROUPS / ("" if v2 else "cpu") / f"crash-{pid}"
    group.mkdir()
    try:
        microseconds = int(CORES * 100_000)
        if v2:
            (group / "cpu.max").write_text(f"{microseconds} 100000")
        else:
            (group / "cpu.cfs_quota_us").write_text(str(microseconds))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        # The remaining processes must leave the group before its removal.
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server listens."""
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"the server did not come up:\n{log.read_text(errors='replace')[-3000:]}")


def hang_up(process: subprocess.Popen[bytes], port: int, folder: Path, seconds: float) -> dict[str, int]:
    """Let clients connect and hang up until the time is over or the server died; count the results."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.check_hostname = False
    context.load_cert_chain(folder / "user.pem", folder / "user.key")
    tallies = {"answered": 0, "hung up": 0, "refused or failed": 0}
    over = threading.Event()
    clients = [
        threading.Thread(target=client, args=(port, context, random.Random(n), tallies, over))
        for n in range(CLIENTS)
    ]
    for thread in clients:
        thread.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        time.sleep(0.1)
    over.set()
    for thread in clients:
        thread.join()
    return tallies


def client(
    port: int, context: ssl.SSLContext, chance: random.Random, tallies: dict[str, int], over: threading.Event
) -> None:
    """Repeat three kinds of connection: a request, a reset after the handshake, a reset during it."""
    for ways in itertools.repeat((ask, reset_after, reset_within)):
        if over.is_set():
            return
        try:
            with socket.create_connection(("127.0.0.1", port), WAIT) as connection:
                came = chance.choice(ways)(connection, context)
        except OSError:
            came = "refused or failed"
            time.sleep(0.01)
        tallies[came] += 1


def ask(connection: socket.socket, context: ssl.SSLContext) -> str:
    """Get a file."""
    with context.wrap_socket(connection) as secure:
        secure.sendall(b"GET /data/file HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return "answered" if secure.recv(4096).startswith(b"HTTP/1.1 200") else "refused or failed"


def reset_after(connection: socket.socket, context: ssl.SSLContext) -> str:
    """Hang up when the client has finished the handshake, which is before the server has."""
    with context.wrap_socket(connection) as secure:
        secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return "hung up"


def reset_within(connection: socket.socket, context: ssl.SSLContext) -> str:
    """Hang up after the start of the handshake."""
    hello = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    connection.sendall(hello.read())
    time.sleep(random.random() * 0.02)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return "hung up"


def free_port() -> int:
    """Return an unused port of the loopback."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def openssl(folder: Path, *arguments: str) -> None:
    """Run openssl in the folder, without its output."""
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


if __name__ == "__main__":
    main()
