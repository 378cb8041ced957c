# SPDX-License-Identifier: Apache-2.0
"""gfal-copy (the tool of the published measurements), its library gfal2, and davix beneath both.

Each gfal-copy process authenticates to both ends with the user's X.509 certificate, gets a macaroon from each, and
sends COPY with them (`application/macaroon-request`, then `TransferHeaderAuthorization`). gfal2's Python binding is
Debian's and needs the system's Python, so the worker runs there. A context that concurrent copies share crashes, so
each thread has its own.

davix-put and davix-get run at one end, and move a file to or from XRootD at the other by one HTTPS request with the
user's certificate. The XRootD at their own end is not involved: they read or write the file in its folder, where its
bytes are counted like those of any other tool.
"""

import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from tpcsweep.measuring.tools.tool import (
    CHECKSUMS,
    HTTP_LAYERS,
    Answers,
    Credentials,
    Place,
    Program,
    Transfer,
    Worker,
    parse_transfer,
)

MOST_THREADS = 10_000  # more than any number of streams; a thread is created only if all others are copying
_DAVIX = ("libdavix0v5", "libdavix0t64")
_LIBRARIES = ("libgfal2-2", "libgfal2-2t64", "gfal2-plugin-http", *_DAVIX)


def davix_trust(credentials: Credentials) -> dict[str, str]:
    """Return the environment that stops davix from reading the system's CA bundle, 0.25 CPU-s a session."""
    return {"SSL_CERT_FILE": str(credentials.authority), "SSL_CERT_DIR": "/nonexistent"}


class DavixPut(Program):
    """`davix-put FILE URL`."""

    name = "davix-put"
    order = 4
    place: Place = "source"
    copy_modes = ("push",)
    most_connections = (1, "davix-put moves a file with one request")
    encryptions = ("tls", "none")
    authorizations = ("none",)
    needs_tls = "only https shows a certificate"
    packages = ("davix", *_DAVIX)

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        return super().environment(credentials, folder) | davix_trust(credentials)

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        shown = ["--cert", str(credentials.certificate), "--key", str(credentials.key)]
        shown = shown if credentials.needed else []
        # No retry, because failures must be visible.
        options = ["--capath", str(credentials.authorities), "--retry", "0"]
        return [f"/usr/bin/{self.name}", *shown, *options, *self._ends(transfer)]

    def _ends(self, transfer: Transfer) -> tuple[str, str]:
        return transfer.source_file, transfer.url_for_mover(transfer.destination)


class DavixGet(DavixPut):
    """`davix-get URL FILE`."""

    name = "davix-get"
    order = 5
    place: Place = "destination"
    copy_modes = ("pull",)
    most_connections = (1, "davix-get moves a file with one request")

    def _ends(self, transfer: Transfer) -> tuple[str, str]:
        return transfer.url_for_mover(transfer.source), transfer.destination_file


class GfalCopy(Program):
    """`gfal-copy --copy-mode pull|push`."""

    name = "gfal-copy"
    order = 0
    encryptions = ("tls", "none")
    authorizations = ("macaroons", "none")
    needs_tls = "gfal2 requests macaroons by https only"
    follows_in_clear = True
    checksums = CHECKSUMS
    layers = HTTP_LAYERS
    packages = ("gfal2-util-scripts", *_LIBRARIES)
    exit_codes: Mapping[int, str] = {
        2: "no such file",
        5: "input/output error",
        13: "permission denied",
        17: "destination exists",
        112: "host is down",
    }
    """errno values, which gfal-copy uses as exit codes."""
    manual = "gfal-copy(1)"

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        own = {"GFAL_PYTHONBIN": "/usr/bin/python3", "X509_CERT_DIR": str(credentials.authorities)}
        # gfal2 has one token for both ends, and ignores BEARER_TOKEN_FILE. If none are needed, any token keeps
        # it from requesting delegation, which XRootD refuses. If no proxy is named, it prefers /tmp/x509up_uUID.
        token = credentials.token("source") if credentials.needed else "none"
        shown = {"X509_USER_PROXY": os.devnull if token else str(credentials.key)}
        shown |= {"BEARER_TOKEN": token} if token else {}
        return super().environment(credentials, folder) | own | shown | davix_trust(credentials)

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        streams = ["-n", str(transfer.tcp_streams)] if transfer.tcp_streams > 1 else []
        # Without --copy-mode it falls back to push, then to streaming through the client.
        mode = ["--copy-mode", transfer.copy_mode]
        checksum = ["--checksum-mode", "both", "--checksum", transfer.checksum] if transfer.verifying else []
        ends = transfer.url_for_mover(transfer.source), transfer.url_for_mover(transfer.destination)
        return ["/usr/bin/gfal-copy", *mode, *streams, *checksum, *ends]

    def failure_reason(self, output: str) -> str:
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith("Copying")]
        return " | ".join(lines[-2:]) or "no message"


class Gfal2(Worker):
    """`gfal2.filecopy` with the options of `gfal-copy --copy-mode pull|push`."""

    name = "gfal2"
    order = 2
    encryptions = GfalCopy.encryptions
    authorizations = GfalCopy.authorizations
    needs_tls = GfalCopy.needs_tls
    follows_in_clear = True
    checksums = CHECKSUMS
    layers = HTTP_LAYERS
    packages = ("python3-gfal2", *_LIBRARIES)

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        return super().environment(credentials, folder) | GfalCopy().environment(credentials, folder)

    def worker(self, credentials: Credentials) -> list[str]:
        return self.main_command("/usr/bin/python3", "gfal")


def _failure(gfal2: Any, context: Any, transfer: Transfer) -> str | None:
    """Copy a file; return why that failed, in gfal2's words, or None."""
    # As gfal-copy does for --copy-mode; other ways of copying would measure something else.
    context.set_opt_boolean("HTTP PLUGIN", "ENABLE_REMOTE_COPY", True)
    context.set_opt_boolean("HTTP PLUGIN", "ENABLE_FALLBACK_TPC_COPY", False)
    context.set_opt_string("HTTP PLUGIN", "DEFAULT_COPY_MODE", f"3rd {transfer.copy_mode}")
    options = context.transfer_parameters()
    if transfer.tcp_streams > 1:
        options.nbstreams = transfer.tcp_streams
    if transfer.verifying:
        options.set_checksum(gfal2.checksum_mode.both, transfer.checksum, "")
    try:
        context.filecopy(
            options, transfer.url_for_mover(transfer.source), transfer.url_for_mover(transfer.destination)
        )
    except gfal2.GError as error:
        return f"error {error.code} ({os.strerror(error.code)}): {error.message}"
    return None


def main() -> None:
    answers, gfal2, own = Answers(), import_module("gfal2"), threading.local()

    def copy(number: int, transfer: Transfer) -> None:
        try:
            if not hasattr(own, "context"):
                own.context = gfal2.creat_context()
            answers.report_end(number, _failure(gfal2, own.context, transfer))
        except Exception as error:  # the client needs an answer in any case
            answers.report_end(number, f"{type(error).__name__}: {error}")

    threads = ThreadPoolExecutor(MOST_THREADS)
    answers.ready()
    for line in sys.stdin.buffer:
        threads.submit(copy, *parse_transfer(line))
    os._exit(0)  # without waiting for running copies
