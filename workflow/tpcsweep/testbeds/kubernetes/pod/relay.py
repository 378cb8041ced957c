# SPDX-License-Identifier: Apache-2.0
"""Connect standard input and output with the hub, for the length of one exec.

Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.relay
"""

import os
import socket
import threading

from tpcsweep.testbeds.kubernetes.pod.pod_files import HUB

BLOCK = 1 << 16


def main() -> None:
    hub = socket.socket(socket.AF_UNIX)
    hub.connect(str(HUB))
    threading.Thread(target=_inwards, args=(hub,), daemon=True).start()
    while data := hub.recv(BLOCK):
        while data:
            data = data[os.write(1, data) :]


def _inwards(hub: socket.socket) -> None:
    while data := os.read(0, BLOCK):
        hub.sendall(data)
    hub.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
