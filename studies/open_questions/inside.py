# SPDX-License-Identifier: Apache-2.0
"""Run experiments of a JSON list as root inside user-mode-linux, with iperf3; print results as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments import OMITTED, SECONDS, Experiment

SENDER, RECEIVER = "tpc-a", "tpc-b"
DEVICE = "path"
ADDRESS = {SENDER: "10.88.0.1", RECEIVER: "10.88.0.2"}
SAMPLING = 0.25  # s
TCP_MEM = Path("/proc/sys/net/ipv4/tcp_mem")
COUNTERS = ("TCPMemoryPressures", "PruneCalled", "TCPTimeouts", "TCPRetransFail")


def main() -> None:
    """Run all experiments, and print the parameters and results of each."""
    for fields in json.loads(Path(sys.argv[1]).read_text()):
        experiment = Experiment(**fields)
        pages = experiment.tcp_pages
        TCP_MEM.write_text(f"{pages // 2} {3 * pages // 4} {pages}")
        with path(experiment):
            measured = measure(experiment)
        sys.stdout.write(json.dumps({**fields, **measured}) + "\n")
        sys.stdout.flush()


def inside(namespace: str, *argv: str) -> str:
    """Return the output of a command in a namespace. Raises RuntimeError with the output on failure."""
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, *argv], check=False, text=True, stdout=subprocess.PIPE
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stdout[-1000:]}")
    return done.stdout


def commands(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Yield namespaces and command lines that create the path of an experiment."""
    large = experiment.tcp_buffer
    for namespace, address in ADDRESS.items():
        yield namespace, f"ip address add {address}/30 dev {DEVICE}"
        yield namespace, f"ip link set {DEVICE} mtu {experiment.mtu} up"
        yield namespace, "sysctl -qw net.ipv4.tcp_no_metrics_save=1"
        for name in ("rmem", "wmem"):
            yield namespace, f"sysctl -qw net.ipv4.tcp_{name}=4096\t{min(large, 1 << 20)}\t{large}"
        if not experiment.offloads:
            # Not ethtool: TCP makes super-packets anyway (Linux 4.17), which are cut only after the queue.
            yield namespace, f"ip link set {DEVICE} gso_max_segs 1"
    loss = f" loss {100 * experiment.loss:g}%" if experiment.loss else ""
    delay = f"delay {experiment.rtt:g}ms limit {experiment.limit}{loss}"
    yield SENDER, f"tc qdisc add dev {DEVICE} root netem {delay}"
    if experiment.policer is not None:
        # Its default mtu is 2 KB, and it drops larger packets.
        police = f"rate {1000 * experiment.policer:g}mbit burst 512k mtu 128k conform-exceed drop"
        yield RECEIVER, f"tc qdisc add dev {DEVICE} ingress"
        yield RECEIVER, f"tc filter add dev {DEVICE} ingress matchall action police {police}"


@contextmanager
def path(experiment: Experiment) -> Iterator[None]:
    """Create two namespaces and the path between them, for a `with`."""
    for namespace in ADDRESS:
        subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        ends = f"add {DEVICE} netns {SENDER} type veth peer name {DEVICE} netns {RECEIVER}"
        subprocess.run(["ip", "link", *ends.split()], check=True)
        for namespace, line in commands(experiment):
            inside(namespace, *line.split(" "))
        # ARP, which is delayed too; on a path with loss one ping may be lost.
        inside(SENDER, "ping", "-q", "-c", "5", "-i", "0.2", "-W", "5", ADDRESS[RECEIVER])
        yield
    finally:
        for namespace in ADDRESS:
            subprocess.run(["ip", "netns", "delete", namespace], check=True)


def measure(experiment: Experiment) -> dict[str, Any]:
    """Return results of iperf3, the queue and the kernel's counters for an experiment with a running path.

    Returns:
        `throughput` in Gbit/s after the first seconds, acknowledged to the sender, and `rates` of each second;
            `packets_held`, mean number in the queue, and `packet`, bytes of one; `drops` by the queue and
            `drops_policer`; `retransmits`, `counters` of the kernel, and `qdisc`, the output of tc at the end.
    """
    server = subprocess.Popen(
        ["ip", "netns", "exec", RECEIVER, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL
    )
    try:
        _listening()
        before = _counters()
        command = (
            f"iperf3 -J -c {ADDRESS[RECEIVER]} -P {experiment.streams} -t {SECONDS} -O {OMITTED} "
            "--connect-timeout 5000"
        )
        with ThreadPoolExecutor(1) as pool:
            iperf3 = pool.submit(inside, SENDER, *command.split())
            samples: list[dict[str, Any]] = []
            pause: float = OMITTED + 1
            while not wait([iperf3], pause).done:
                samples.append(_queue(SENDER, "netem"))
                pause = SAMPLING
        # The last ones are from the end, when connections are closed.
        del samples[-2:]
        report = json.loads(iperf3.result())
    finally:
        server.terminate()
        server.wait()
    held, waiting = (sum(sample[key] for sample in samples) for key in ("backlog", "qlen"))
    queue, received = _queue(SENDER, "netem"), _queue(RECEIVER, "ingress")
    return {
        "throughput": report["end"]["sum_received"]["bits_per_second"] / 1e9,
        # The last interval may be a few milliseconds long.
        "rates": [
            together["bits_per_second"] / 1e9
            for together in (interval["sum"] for interval in report["intervals"])
            if not together["omitted"] and together["seconds"] > 0.5
        ],
        "retransmits": report["end"]["sum_sent"]["retransmits"],
        "packets_held": waiting / len(samples) if samples else None,
        "packet": held / waiting if waiting else None,
        "drops": queue["drops"],
        "drops_policer": received.get("drops", 0),
        "counters": {name: value - before[name] for name, value in _counters().items()},
        "qdisc": inside(SENDER, "tc", "-s", "qdisc", "show", "dev", DEVICE).strip(),
    }


def _listening() -> None:
    for _ in range(100):
        if ":5201" in inside(RECEIVER, "ss", "-Hltn"):
            return
        time.sleep(0.05)
    raise TimeoutError("iperf3 -s does not listen after 5 s")


def _queue(namespace: str, kind: str) -> dict[str, Any]:
    queues = json.loads(inside(namespace, "tc", "-s", "-j", "qdisc", "show", "dev", DEVICE))
    return next((queue for queue in queues if queue["kind"] == kind), {})


def _counters() -> dict[str, int]:
    """Return counters of both ends together, by the names of nstat(8)."""
    counters = dict.fromkeys(COUNTERS, 0)
    for namespace in ADDRESS:
        lines = inside(namespace, "cat", "/proc/net/netstat").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            for name, value in zip(names.split(), values.split(), strict=True):
                if name in counters:
                    counters[name] += int(value)
    return counters


if __name__ == "__main__":
    main()
