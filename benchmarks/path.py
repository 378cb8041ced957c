# SPDX-License-Identifier: Apache-2.0
"""Requested against measured paths: RTT, bandwidth, TCP goodput, and cost of the delay line.

    python benchmarks/path.py > path.md
    python benchmarks/path.py --against ../main --rounds 3 --rtts 10 50 --bandwidths 0.1 1

Run as root; needs iperf3, and about six minutes. Uses four temporary namespaces, two routers with a host behind each,
as on the testbed. Prints a Markdown table. With --against it also measures the paths of another tree in turn, and the
ratio of costs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tpcsweep.common.processes import Commands
from tpcsweep.deploying.paths.link import Link, connect
from tpcsweep.deploying.paths.network_path import NetworkPath, PathError
from tpcsweep.deploying.paths.udp_looks import verify_link

RTTS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
BANDWIDTHS = (0.1, 0.5, 1.0, 2.0, 5.0)
MTU = 9000
SECONDS, OMIT = 3, 1  # of each iperf3 run, and of slow start before it
BUFFER = 256 << 20
ROUTERS, HOSTS = ("10.88.0.1", "10.88.0.2"), ("10.88.1.2", "10.88.2.2")
TCP = (f"net.ipv4.tcp_rmem=4096 131072 {BUFFER}", f"net.ipv4.tcp_wmem=4096 65536 {BUFFER}")
COLUMNS = (
    "emulator",
    "RTT asked, ms",
    "found",
    "bandwidth asked, Gbit/s",
    "found →",
    "found ←",
    "attempts",
    "TCP goodput, Gbit/s",
    "of bandwidth",
    "CPU-s/Gbit of the delay line",
    "late, mean µs",
    "late, max µs",
)
COMPARED = (
    "RTT, ms",
    "bandwidth, Gbit/s",
    "RTT found, old, new",
    "of bandwidth, old, new",
    "TCP goodput, old, new",
    "delay line, CPU-s/Gbit, old, new",
    "ratio",
    "machine, CPU-s/Gbit, old, new",
    "ratio",
)


@dataclass(frozen=True)
class Found:
    """Measured path; `line` and lateness are None without a delay line.

    RTT is in ms, rates are in Gbit/s, costs in CPU-s per Gbit, lateness from near to far in µs.
    """

    emulator: str
    rtt: float
    near_to_far: float
    far_to_near: float
    attempts: int
    goodput: float
    machine: float
    line: float | None
    late_mean: int | None
    late_max: int | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtts", type=float, nargs="+", default=RTTS, help="ms")
    parser.add_argument("--bandwidths", type=float, nargs="+", default=BANDWIDTHS, help="Gbit/s")
    parser.add_argument("--against", type=Path, metavar="TREE", help="another tree of tpcsweep, the old one")
    parser.add_argument("--rounds", type=int, default=3, help="of old and new, with --against")
    parser.add_argument("--json", action="store_true", help="one path, for another process")
    asked = parser.parse_args()
    paths = [NetworkPath(rtt, bandwidth, mtu=MTU) for rtt in asked.rtts for bandwidth in asked.bandwidths]
    if asked.json:
        print(json.dumps(dataclasses.asdict(measure(paths[0]))))
    elif asked.against:
        compare(paths, asked.against, asked.rounds)
    else:
        survey(paths)


def survey(paths: Sequence[NetworkPath]) -> None:
    """Print the table of paths."""
    heading(COLUMNS)
    for path in paths:
        try:
            print(row(path, measure(path)), flush=True)
        except PathError as error:
            print(error, file=sys.stderr)


def compare(paths: Sequence[NetworkPath], old: Path, rounds: int) -> None:
    """Print this tree's and another tree's paths, measured in turn: medians, and medians of the ratios."""
    heading(COMPARED)
    for path in paths:
        pairs = [
            pair for number in range(rounds) if (pair := in_turn(path, old, newest_first=number % 2 == 1))
        ]
        if pairs:
            print(compared(path, pairs), flush=True)


def in_turn(path: NetworkPath, old: Path, *, newest_first: bool) -> tuple[Found, Found] | None:
    """Return old and new, or None if one was rejected."""
    trees = [old, Path(__file__).parents[1]]
    if newest_first:
        trees.reverse()
    found = [by(tree, path) for tree in trees]
    if newest_first:
        found.reverse()
    before, after = found
    return (before, after) if before and after else None


def by(tree: Path, path: NetworkPath) -> Found | None:
    """Measure a tree's path in a separate process."""
    figures = ["--rtts", f"{path.rtt}", "--bandwidths", f"{path.bandwidth}"]
    done = subprocess.run(
        [sys.executable, __file__, "--json", *figures],
        env={**os.environ, "PYTHONPATH": str(tree.resolve() / "workflow")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(f"{tree}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return Found(**json.loads(done.stdout))


def measure(path: NetworkPath) -> Found:
    """Create a path, verify it, and fill it by TCP. Raises PathError if it is rejected."""
    with routers() as (near, far, commands, folder), connect(path, near, far, commands, folder) as link:
        found = verify_link(path, link)
        with hosts(link) as (client, server):
            goodput, line, machine = tcp(client, server, link.line.pid if link.line else None)
        counted = link.directions()["near_to_far"]
        return Found(
            emulator=link.emulator,
            rtt=found.rtt.median,
            near_to_far=found.near_to_far.found,
            far_to_near=found.far_to_near.found,
            attempts=found.attempts,
            goodput=goodput,
            machine=machine,
            line=line if link.line else None,
            late_mean=counted.get("late_mean_us"),
            late_max=counted.get("late_max_us"),
        )


@contextmanager
def routers() -> Iterator[tuple[tuple[str, str], tuple[str, str], Commands, Path]]:
    """Yield two namespaces with their addresses, a command runner, and a folder."""
    names = [f"tpc-bench{os.getpid()}-{end}" for end in "ab"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = Commands(folder / "commands.log")
        with made(names, commands):
            near, far = ((name, f"{address}/30") for name, address in zip(names, ROUTERS, strict=True))
            yield near, far, commands, folder


@contextmanager
def hosts(link: Link) -> Iterator[tuple[str, str]]:
    """Yield a namespace behind each router, whose TCP cannot see the routers' queues."""
    names = [f"{router}-host" for router in (link.near, link.far)]
    with made(names, link.commands):
        for router, host, address, across, network in zip(
            (link.near, link.far), names, HOSTS, ROUTERS[::-1], HOSTS[::-1], strict=True
        ):
            gateway = address.removesuffix("2") + "1"
            pair = f"link add lan mtu {MTU} netns {router} type veth peer name lan mtu {MTU} netns {host}"
            link.commands.batch(["ip"], [pair])
            link.commands.batch(
                ["ip", "-n", host],
                [f"address add {address}/24 dev lan", "link set lan up", f"route add default via {gateway}"],
            )
            link.commands.batch(
                ["ip", "-n", router],
                [
                    f"address add {gateway}/24 dev lan",
                    "link set lan up",
                    f"route add {network}/32 via {across}",
                ],
            )
            forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"]
            link.commands.run(["ip", "netns", "exec", router, *forward])
            link.commands.run(["ip", "netns", "exec", host, "sysctl", "-qw", *TCP])
        yield names[0], names[1]


@contextmanager
def made(names: Sequence[str], commands: Commands) -> Iterator[None]:
    """Create namespaces, and remove them at the end."""
    try:
        for name in names:
            commands.run(["ip", "netns", "add", name])
            commands.run(["ip", "-n", name, "link", "set", "lo", "up"])
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def tcp(client: str, server: str, line: int | None) -> tuple[float, float, float]:
    """Return goodput in Gbit/s of four iperf3 connections, and CPU-s per Gbit of delay line and machine."""
    inside = ["ip", "netns", "exec"]
    listening = subprocess.Popen([*inside, server, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.2)
        sending = [*inside, client, "iperf3", "-c", HOSTS[1], "-P", "4", "-J"]
        before, busy = cpu_seconds(line), busy_seconds()
        done = subprocess.run(
            [*sending, "-t", str(SECONDS), "-O", str(OMIT)], capture_output=True, check=True, timeout=60
        )
        used, busy = cpu_seconds(line) - before, busy_seconds() - busy
    finally:
        listening.terminate()
        listening.wait()
    end = json.loads(done.stdout)["end"]
    goodput = float(end["sum_received"]["bits_per_second"]) / 1e9
    sent = goodput * (SECONDS + OMIT)
    return goodput, used / sent, busy / sent


def cpu_seconds(pid: int | None) -> float:
    """Return the CPU time of a process so far (proc(5), stat fields 14 and 15)."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """Return the machine's CPU time so far that was neither idle nor stolen (proc(5), /proc/stat)."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def heading(columns: Sequence[str]) -> None:
    print("|" + " | ".join(columns) + "|\n|" + "---|" * len(columns), flush=True)


def row(path: NetworkPath, found: Found) -> str:
    cells = [
        found.emulator,
        f"{path.rtt:g}",
        f"{found.rtt:.3g}",
        f"{path.bandwidth:g}",
        f"{found.near_to_far:.4g}",
        f"{found.far_to_near:.4g}",
        str(found.attempts),
        f"{found.goodput:.3g}",
        f"{found.goodput / path.bandwidth:.0%}",
        "—" if found.line is None else f"{found.line:.3f}",
        *("—" if late is None else str(late) for late in (found.late_mean, found.late_max)),
    ]
    return "|" + " | ".join(cells) + "|"


def compared(path: NetworkPath, pairs: Sequence[tuple[Found, Found]]) -> str:
    """Return a table row of old and new: medians of both, and of the ratios of each round."""

    def both(figure: str, digits: str, unit: float = 1.0) -> str:
        medians = (
            statistics.median(getattr(one, figure) or 0 for one in side) for side in zip(*pairs, strict=True)
        )
        return ", ".join(f"{median / unit:{digits}}" for median in medians)

    def ratio(figure: str) -> str:
        ratios = [getattr(new, figure) / getattr(old, figure) for old, new in pairs if getattr(old, figure)]
        return f"{statistics.median(ratios):.3f}" if ratios else "—"

    cells = [
        f"{path.rtt:g}",
        f"{path.bandwidth:g}",
        both("rtt", ".3g"),
        both("near_to_far", ".3f", path.bandwidth),
        both("goodput", ".3f", path.bandwidth),
        both("line", ".3f"),
        ratio("line"),
        both("machine", ".3f"),
        ratio("machine"),
    ]
    return "|" + " | ".join(cells) + "|"


if __name__ == "__main__":
    main()
