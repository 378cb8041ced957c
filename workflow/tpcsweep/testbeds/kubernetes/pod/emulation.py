"""An emulated path in a pod: delay, rate and loss for what goes to the other side alone. Needs NET_ADMIN.

    htb ── directly: everything else
        └─ class 4, chosen by the other side's addresses: netem (half of the RTT, loss) ── tbf (rate)

Both sides do it for what they send, so that together they make the path; each origin gets its share of the rate.
Sources: tc-htb(8), tc-u32(8), tc-netem(8), tc-tbf(8).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace

from tpcsweep.paths import plan
from tpcsweep.testbeds.kubernetes.pod.network import interface_to

PASS = f"rate 200gbit burst 1m cburst 1m quantum {plan.SUPER_PACKET}"
"""More than any path may have: a class that lets everything through."""
_emulated: list[str] = []
"""The interface with an emulated path, where there is one."""


def commands(interface: str, path: plan.Path, peers: list[str]) -> list[str]:
    """Lines for `tc -batch -`. Pure."""
    device = f"dev {interface}"
    lines = [
        f"qdisc replace {device} root handle 1: htb default 0",
        f"class add {device} parent 1: classid 1:4 htb {PASS}",
    ]
    if path.rtt or path.loss:
        lines += [
            f"qdisc add {device} parent 1:4 handle 40: {plan.netem(path)}",
            f"qdisc add {device} parent 40:1 handle 41: {plan.tbf(path)}",
        ]
    else:
        lines.append(f"qdisc add {device} parent 1:4 handle 41: {plan.tbf(path)}")
    lines += [
        f"filter add {device} parent 1: protocol ip prio 1 u32 match ip dst {peer}/32 flowid 1:4"
        for peer in peers
    ]
    return lines


def share(path: plan.Path, origins: int) -> plan.Path:
    """The part of a path that each origin makes: it has a rate and a queue of its own. Pure."""
    limit = None if path.queue_limit is None else max(1, path.queue_limit // origins)
    return replace(path, bandwidth=path.bandwidth / origins, queue_limit=limit)


def emulate(peers: list[str], path: plan.Path) -> list[str]:
    """Make it; returns the lines. Raises RuntimeError with tc's words, as where the kernel has no sch_netem."""
    interface = interface_to(peers[0])
    lines = commands(interface, path, peers)
    done = subprocess.run(
        ["tc", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        needs = "; netem needs the kernel module sch_netem on the node" if path.rtt or path.loss else ""
        raise RuntimeError(f"tc: {done.stderr.strip()}{needs}")
    if command := plan.segmenting(path, "netem", interface):
        subprocess.run(command, capture_output=True, check=True)
    _emulated[:] = [interface]
    return lines


def drops() -> tuple[int | None, int | None]:
    """Packets that the emulated path dropped, and those of them that found its queue full; None without one."""
    if not _emulated:
        return None, None
    show = ["tc", "-s", "-j", "qdisc", "show", "dev", _emulated[0]]
    found = json.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    return counted({qdisc["handle"]: int(qdisc["drops"]) for qdisc in found})


def counted(found: Mapping[str, int]) -> tuple[int, int]:
    """All drops and those of the queue, from the drops of each qdisc by its handle. Pure."""
    # netem's own count holds what its child refused.
    return found.get("40:", found["41:"]), found["41:"]
