# SPDX-License-Identifier: Apache-2.0
"""Runs inside user-mode-linux: make paths with the kernel's own netem, and print what was found as JSON."""

import json
import socket
import sys
import time
from pathlib import Path

from tpcsweep.common.processes import Commands
from tpcsweep.deploying.linux.namespaces import socket_inside
from tpcsweep.deploying.paths.link import connect
from tpcsweep.deploying.paths.network_path import NetworkPath, segmentation_command
from tpcsweep.deploying.paths.udp_looks import verify_link

NEAR, FAR = ("tpc-uml-a", "10.88.0.1/30"), ("tpc-uml-b", "10.88.0.2/30")
DATAGRAMS = 5000


def main() -> None:
    commands = Commands(Path("/run/commands.log"))
    for namespace, _ in (NEAR, FAR):
        commands.run(["ip", "netns", "add", namespace])
        commands.run(["ip", "-n", namespace, "link", "set", "lo", "up"])
    # A slow machine with one CPU: 20 Mbit/s is what it carries and measures with ease.
    found = {
        "plain": look(NetworkPath(20, 0.02), commands),
        "lossy": look(NetworkPath(20, 0.02, 0.05), commands),
    }
    found["none"] = look(NetworkPath(0, 0.02), commands)
    found["limited"] = look(NetworkPath(40, 0.02, queue_limit=20), commands)
    json.dump(found, sys.stdout)


def look(path: NetworkPath, commands: Commands) -> dict[str, object]:
    with connect(path, NEAR, FAR, commands, Path("/run")) as link:
        measured = verify_link(path, link)
        before = link.directions()["near_to_far"]["dropped_random"]
        if path.loss:
            send(DATAGRAMS)
        return {
            "measured": measured.to_dict(),
            "described": link.describe(),
            "lost": link.directions()["near_to_far"]["dropped_random"] - before,
            "queue": link.directions()["near_to_far"]["dropped_queue"],
            "sent": DATAGRAMS,
            "segmenting": segmentation_command(path, link.emulator, "eth0"),
        }


def send(count: int) -> None:
    """Small datagrams, slowly enough for no queue to fill: what is lost is lost at random."""
    with socket_inside(NEAR[0], socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for i in range(count):
            sender.sendto(b"0", (FAR[1].partition("/")[0], 9))
            if i % 50 == 0:
                time.sleep(0.005)


main()
