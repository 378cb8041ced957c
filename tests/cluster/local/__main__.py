"""Clusters from the command line: python -m tests.cluster.local COMMAND."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster import local


def main() -> None:
    """Do one command."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="a cluster with nodes, until Ctrl-C")
    up.add_argument("--nodes", type=int, default=3)
    up.add_argument("--rtt", type=float, nargs="+", metavar="MS", help="of each node's link")
    up.add_argument("--bandwidth", type=float, nargs="+", metavar="GBIT/S", help="of each node's link")
    up.add_argument("--mtu", type=int, default=9000)
    up.add_argument(
        "--image", type=Path, action="append", metavar="ARCHIVE", help="instead of the testbed's own"
    )
    for each in (up,):
        each.add_argument("--folder", type=Path, help="for the kubeconfig and logs; else a temporary one")
        each.add_argument(
            "--port", type=int, default=0, help="of the API server on 127.0.0.1; else a free one"
        )
    load = commands.add_parser("load", help="import an image archive on all nodes")
    load.add_argument("folder", type=Path)
    load.add_argument("archive", type=Path)
    enter = commands.add_parser("enter", help="print the prefix of a command that is to run inside")
    enter.add_argument("folder", type=Path)
    enter.add_argument("--node")
    given = parser.parse_args()
    if given.command == "load":
        local.Cluster(given.folder).load(given.archive)
    elif given.command == "enter":
        sys.stdout.write(shlex.join(local.Cluster(given.folder).entry(given.node)) + "\n")
    else:
        run(given)


def run(given: argparse.Namespace) -> None:
    """A cluster in the foreground."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder = given.folder or Path(tempfile.mkdtemp(prefix="tpcsweep-cluster-"))
    begun = time.monotonic()
    started = local.cluster(
        folder,
        given.nodes,
        rtt=given.rtt,
        bandwidth=given.bandwidth,
        mtu=given.mtu,
        images=given.image,
        port=given.port,
    )
    try:
        with started as cluster:
            took = time.monotonic() - begun
            sys.stderr.write(f"ready after {took:.1f} s; Ctrl-C ends it; logs: {cluster.logs}\n")
            sys.stdout.write(f"{cluster.kubeconfig}\n")
            sys.stdout.flush()
            signal.pause()
    except KeyboardInterrupt:
        pass


main()
