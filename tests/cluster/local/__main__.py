# SPDX-License-Identifier: Apache-2.0
"""Clusters from the command line: python -m tests.cluster.local COMMAND."""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster import local


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="a cluster with nodes, until Ctrl-C; prints its kubeconfig's path")
    up.add_argument("--nodes", type=int, default=3)
    up.add_argument("--rtt", type=float, nargs="+", metavar="MS", help="of each node's link")
    plane = commands.add_parser("control-plane", help="one without nodes, until Ctrl-C")
    plane.add_argument("--fake-nodes", type=int, default=0, help="as many, played by kwok")
    for each in (up, plane):
        each.add_argument("--folder", type=Path, help="for kubeconfig and logs; else a temporary one")
    load = commands.add_parser("load", help="import an image archive on all nodes")
    load.add_argument("folder", type=Path)
    load.add_argument("archive", type=Path)
    given = parser.parse_args()
    try:
        if given.command == "load":
            local.Cluster(given.folder).load(given.archive)
        else:
            run(given)
    except (local.ClusterError, local.build.BuildError) as error:
        sys.exit(f"cluster: {error}")
    except KeyboardInterrupt:
        pass


def run(given: argparse.Namespace) -> None:
    """A cluster in the foreground, until this process is told to end or the cluster has."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    begun = time.monotonic()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="tpcsweep-cluster-"))
    plane = given.command == "control-plane"
    started = local.control_plane(folder) if plane else local.cluster(folder, given.nodes, rtt=given.rtt)
    with started as cluster:
        if plane and given.fake_nodes:
            cluster.play_nodes(given.fake_nodes)
        took = time.monotonic() - begun
        sys.stderr.write(f"ready after {took:.1f} s; Ctrl-C ends it; logs: {cluster.logs}\n")
        sys.stdout.write(f"{cluster.kubeconfig}\n")
        sys.stdout.flush()
        cluster.wait()
        sys.exit(f"cluster: it ended by itself; see {cluster.logs}")


main()
