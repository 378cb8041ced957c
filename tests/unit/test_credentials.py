# SPDX-License-Identifier: Apache-2.0
"""Certificates of a deployment, by the rules of the strictest who looks at them."""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path

from tpcsweep.xrootd import credentials

ADDRESS = "10.0.0.1"


def context(purpose: ssl.Purpose, folder: Path, name: str) -> ssl.SSLContext:
    """As Python 3.13 makes it, whatever Python this is: chains must be as RFC 5280 has them."""
    made = ssl.create_default_context(purpose, cafile=str(folder / "ca.pem"))
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return made


def test_server_and_user_accept_each_other_by_the_strict_rules(tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    credentials.create(folder, [ADDRESS], (os.getuid(), os.getgid()))
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(ssl.Purpose.SERVER_AUTH, folder, "user").wrap_bio(down, up, server_hostname=ADDRESS)
    server = context(ssl.Purpose.CLIENT_AUTH, folder, "host").wrap_bio(up, down, server_side=True)
    for _ in range(4):  # each goes on until it waits for the other
        for end in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    peer = server.getpeercert()
    assert peer and (("commonName", credentials.USER),) in peer["subject"]
