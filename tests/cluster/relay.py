# SPDX-License-Identifier: Apache-2.0
"""A way to an API server that can be made to stall: what is sent meanwhile arrives afterwards."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class Relay:
    """A port of this machine that leads to the server of a kubeconfig, for the length of a `with`."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        """`folder` is for the kubeconfig of those who are to go this way."""
        content = yaml.safe_load(kubeconfig.read_text())
        known = content["clusters"][0]["cluster"]
        server = urlsplit(known["server"])
        self._there = server.hostname, server.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        known["server"] = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        self.kubeconfig = folder / "relayed.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(content))
        self._passes = threading.Event()
        self._passes.set()
        self._ends: set[socket.socket] = set()

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._passes.set()
        for end in (self._listening, *tuple(self._ends)):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Let nothing pass, either way, for the length of a `with`."""
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is over
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        """A connection, to its end: a campaign makes thousands."""
        with near, contextlib.suppress(OSError), socket.create_connection(self._there) as far:
            ends = {near, far}
            self._ends |= ends
            back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
            back.start()
            self._pump(near, far)
            back.join()
            self._ends -= ends

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._passes.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
