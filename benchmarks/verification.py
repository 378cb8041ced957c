# SPDX-License-Identifier: Apache-2.0
"""Verification of good and wrong paths on a machine with busy processes.

    python -m benchmarks.verification [--testbed netns|kubernetes] [--good 200] [--wrong 25] [--burners 2]

Run as root. Good paths must be accepted; paths that are 10 % slower or 3 ms longer than declared must be rejected. On
Kubernetes the agents of pods look at the path, here from two namespaces. Prints a Markdown
table, and to standard error each wrongly judged path. A rejection takes up to 20 s, the whole benchmark half
an hour.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tpcsweep.deploying.paths.link import connect
from tpcsweep.deploying.paths.network_path import NetworkPath, PathError
from tpcsweep.deploying.paths.udp_looks import verify_link
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.testbeds.kubernetes.tcp_looks import verify_pods

from benchmarks.path import heading, routers
from tests.support.agents import TCP_BUFFER, played

RTTS = (0.0, 1.0, 5.0, 20.0, 50.0, 100.0)  # ms
BANDWIDTHS = (0.05, 2.0)  # Gbit/s, range, evenly on a logarithmic scale
SLOWER = 0.9
LONGER = 3.0  # ms
LOSS = 0.001  # of the lossy paths
SEED = 1
COLUMNS = ("paths", "looked at", "refused", "wanted", "median s of a look", "longest s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--testbed", choices=sorted(LOOKS), default="netns")
    parser.add_argument("--good", type=int, default=200, help="paths that are as declared")
    parser.add_argument("--wrong", type=int, default=25, help="paths of each kind that are not")
    parser.add_argument("--burners", type=int, default=2, help="CPU-bound processes beside")
    asked = parser.parse_args()
    look = LOOKS[asked.testbed]
    chosen = random.Random(SEED)
    good = [(path, path) for path in declared(chosen, asked.good)]
    slower = [(path, slowed(path)) for path in declared(chosen, asked.wrong)]
    longer = [(path, replace(path, rtt=path.rtt + LONGER)) for path in declared(chosen, asked.wrong)]
    lossy = [replace(path, loss=LOSS) for path in declared(chosen, asked.wrong)]
    heading(COLUMNS)
    with burning(asked.burners):
        judge("as declared", good, look, refuse=False)
        judge(f"{1 - SLOWER:.0%} slower", slower, look, refuse=True)
        judge(f"{LONGER:g} ms longer", longer, look, refuse=True)
        kind = f"{1 - SLOWER:.0%} slower, {LOSS:.1%} loss"
        judge(kind, [(path, slowed(path)) for path in lossy], look, refuse=True)


def declared(chosen: random.Random, count: int) -> list[NetworkPath]:
    """Return random paths with RTTs in turn."""
    low, high = BANDWIDTHS
    return [
        NetworkPath(
            RTTS[i % len(RTTS)],
            round(low * (high / low) ** chosen.random(), 3),
            mtu=chosen.choice((1500, 9000)),
        )
        for i in range(count)
    ]


def slowed(path: Path) -> Path:
    return replace(path, bandwidth=SLOWER * path.bandwidth)


@contextlib.contextmanager
def burning(count: int) -> Iterator[None]:
    """Run processes that use a CPU each; they end with this process."""
    loop = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"]
    burners = [subprocess.Popen(loop) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


Looked = Callable[[], object]
"""Function that verifies a path; raises PathError if it is not as declared."""


@contextlib.contextmanager
def by_routers(declared: NetworkPath, made: NetworkPath) -> Iterator[Looked]:
    """Verify as on netns."""
    with routers() as (near, far, commands, folder), connect(made, near, far, commands, folder) as link:
        yield lambda: verify_link(declared, link)


@contextlib.contextmanager
def by_agents(declared: NetworkPath, made: NetworkPath) -> Iterator[Looked]:
    """Verify as on Kubernetes, where the testbed rejects a slow path."""
    wanted = DeploymentParameters(
        rtt=declared.rtt, bandwidth=declared.bandwidth, mtu=declared.mtu, tcp_buffer=TCP_BUFFER
    )
    with tempfile.TemporaryDirectory() as folder, played(made, Path(folder)) as (session, ends, _):
        yield lambda: verify_pods(session, wanted, ends, strict=True)  # type: ignore[arg-type]


LOOKS = {"netns": by_routers, "kubernetes": by_agents}


def judge(
    kind: str,
    each: Sequence[tuple[NetworkPath, NetworkPath]],
    look: Callable[[NetworkPath, NetworkPath], contextlib.AbstractContextManager[Looked]],
    *,
    refuse: bool,
) -> None:
    """Verify paths, each as declared and as made, and print a line of the table."""
    seconds, refused = [], 0
    for path, made in each:
        with look(path, made) as looked:
            begun = time.monotonic()
            try:
                found = f"found as {looked()}"
            except PathError as error:
                found = str(error)
                refused += 1
                wrong = not refuse
            else:
                wrong = refuse
            seconds.append(time.monotonic() - begun)
        if wrong:
            print(f"{kind}: {path}: {found}", file=sys.stderr)
    if seconds:
        times = f"{statistics.median(seconds):.2f} | {max(seconds):.2f}"
        print(f"|{kind} | {len(each)} | {refused} | {len(each) if refuse else 0} | {times}|", flush=True)


if __name__ == "__main__":
    main()
