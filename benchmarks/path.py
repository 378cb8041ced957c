"""Asked against measured: RTT and bandwidth of paths, TCP goodput through them, the delay line's cost.

    python benchmarks/path.py > path.md

As root, in two namespaces of its own; needs iperf3. About five minutes. Prints a Markdown table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path as File

from tpcsweep.commands import Commands
from tpcsweep.paths import Link, Path, PathError, connect, verify

RTTS = (0, 1, 2, 5, 10, 20, 50, 100)
BANDWIDTHS = (0.1, 0.5, 1, 2, 5)
MTU = 9000
SECONDS, OMIT = 3, 1  # of each iperf3 run, and of slow start before it
BUFFER = 256 << 20
ADDRESSES = ("10.88.0.1", "10.88.0.2")
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


def main() -> None:
    namespaces = [f"tpc-bench{os.getpid()}-{end}" for end in "ab"]
    print("|" + " | ".join(COLUMNS) + "|\n|" + "---|" * len(COLUMNS))
    with tempfile.TemporaryDirectory() as name:
        folder = File(name)
        commands = Commands(folder / "commands.log")
        try:
            for namespace in namespaces:
                commands.run(["ip", "netns", "add", namespace])
                commands.run(["ip", "-n", namespace, "link", "set", "lo", "up"])
                commands.run(["ip", "netns", "exec", namespace, "sysctl", "-qw", *TCP])
            for rtt in RTTS:
                for bandwidth in BANDWIDTHS:
                    row = measure(Path(rtt, bandwidth, mtu=MTU), namespaces, commands, folder)
                    print("|" + " | ".join(row) + "|", flush=True)
        finally:
            for namespace in namespaces:
                subprocess.run(["ip", "netns", "delete", namespace], check=False)


def measure(path: Path, namespaces: list[str], commands: Commands, folder: File) -> list[str]:
    """One row of the table."""
    near, far = ((namespace, f"{a}/30") for namespace, a in zip(namespaces, ADDRESSES, strict=True))
    with connect(path, near, far, commands, folder) as link:
        asked = [link.emulator, f"{path.rtt:g}"]
        try:
            found = verify(path, link)
        except PathError as error:
            print(error, file=sys.stderr)
            return [*asked, "refused", f"{path.bandwidth:g}", *["—"] * (len(COLUMNS) - 4)]
        goodput, cpu = tcp(link)
        late = [link.counters()["late_max_us"], mean_lateness(link)] if link.line else None
        return [
            *asked,
            f"{found.rtt.median:.3g}",
            f"{path.bandwidth:g}",
            f"{found.near_to_far:.4g}",
            f"{found.far_to_near:.4g}",
            str(found.attempts),
            f"{goodput:.3g}",
            f"{goodput / path.bandwidth:.0%}",
            f"{cpu:.3f}" if late else "—",
            str(late[1]) if late else "—",
            str(late[0]) if late else "—",
        ]


def mean_lateness(link: Link) -> int:
    """µs, near to far."""
    return link.directions()["near_to_far"]["late_mean_us"]


def tcp(link: Link) -> tuple[float, float]:
    """Goodput in Gbit/s of four iperf3 connections, and CPU-s per Gbit of the delay line meanwhile."""
    inside = ["ip", "netns", "exec"]
    server = subprocess.Popen([*inside, link.far, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.2)
        client = [*inside, link.near, "iperf3", "-c", link.far_address, "-P", "4", "-J"]
        before = cpu_seconds(link.pid)
        done = subprocess.run(
            [*client, "-t", str(SECONDS), "-O", str(OMIT)], capture_output=True, check=True, timeout=60
        )
        used = cpu_seconds(link.pid) - before
    finally:
        server.terminate()
        server.wait()
    end = json.loads(done.stdout)["end"]
    goodput = float(end["sum_received"]["bits_per_second"]) / 1e9
    return goodput, used / (goodput * (SECONDS + OMIT))


def cpu_seconds(pid: int | None) -> float:
    """CPU time of a process so far (proc(5), stat fields 14 and 15)."""
    if pid is None:
        return 0.0
    fields = File(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
