# SPDX-License-Identifier: Apache-2.0
"""gfal2: gfal-copy's library without its processes, by its Python binding, with a context for each thread.

The binding is Debian's and belongs to the system's Python, so the worker runs by that. A context that copies share at
the same time crashes.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from tpcsweep.tools.base import Credentials, Transfer, Worker
from tpcsweep.tools.gfal_copy import GfalCopy
from tpcsweep.tools.lines import PACKAGE, Answers, command, ordered

MOST_THREADS = 10_000
"""More than there are streams: a thread is made when all others copy."""


class Gfal2(Worker):
    """`gfal2.filecopy` with the options of `gfal-copy --copy-mode pull|push`."""

    name = "gfal2"
    encryptions = GfalCopy.encryptions
    authorizations = GfalCopy.authorizations
    needs_tls = GfalCopy.needs_tls
    packages = ("python3-gfal2", "libgfal2-2", "gfal2-plugin-http", "libdavix0v5")

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        return {**GfalCopy().environment(credentials, folder), "PYTHONPATH": str(PACKAGE)}

    def worker(self, credentials: Credentials) -> list[str]:
        return command("/usr/bin/python3", "gfal2_binding")


class Copier:
    """Copies by gfal2, with a context for each thread that calls it."""

    def __init__(self) -> None:
        self._gfal2: Any = import_module("gfal2")
        self._own = threading.local()

    def copy(self, transfer: Transfer) -> str | None:
        """Copy a file; say why that failed, in gfal2's words."""
        if not hasattr(self._own, "context"):
            self._own.context = self._gfal2.creat_context()
        context = self._own.context
        # As gfal-copy does for --copy-mode: the other ways of copying would measure something else.
        context.set_opt_boolean("HTTP PLUGIN", "ENABLE_REMOTE_COPY", True)
        context.set_opt_boolean("HTTP PLUGIN", "ENABLE_FALLBACK_TPC_COPY", False)
        context.set_opt_string("HTTP PLUGIN", "DEFAULT_COPY_MODE", f"3rd {transfer.copy_mode}")
        options = context.transfer_parameters()
        if transfer.tcp_streams > 1:
            options.nbstreams = transfer.tcp_streams
        try:
            context.filecopy(options, transfer.told(transfer.source), transfer.told(transfer.destination))
        except self._gfal2.GError as error:
            return f"error {error.code} ({os.strerror(error.code)}): {error.message}"
        return None


def main() -> None:
    answers, copier = Answers(), Copier()

    def copy(number: int, transfer: Transfer) -> None:
        try:
            answers.ended(number, copier.copy(transfer))
        except Exception as error:  # the client waits for an answer, whatever happens
            answers.ended(number, f"{type(error).__name__}: {error}")

    threads = ThreadPoolExecutor(MOST_THREADS)
    answers.ready()
    for line in sys.stdin.buffer:
        threads.submit(copy, *ordered(line))
    os._exit(0)  # copies that run are not waited for
