# SPDX-License-Identifier: Apache-2.0
"""Differences between implementations of HTTP third-party copies, each with its source. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Implementation(NamedTuple):
    """A storage system as its answers show it."""

    name: str
    word: str
    """A word of its `Server` header, in lower case."""
    note: str


KNOWN = (
    Implementation(
        "XRootD",
        "xrootd",
        "multi-stream in pull only; its markers count bytes asked for then (xrootd/xrootd 2874); keeps on for 5 s "
        "without a client",
    ),
    Implementation(
        "dCache", "dcache", "asks for GridSite delegation without `Credential: none` (dCache book, WebDAV)"
    ),
    Implementation("EOS", "eos", "XRootD's HTTP; redirects transfers to disk servers (arXiv:2007.03490)"),
    Implementation(
        "StoRM WebDAV",
        "storm",
        "tokens and X.509 but no macaroons of its own for X.509 (italiangrid/storm-webdav)",
    ),
)
ALWAYS = {"Credential": "none", "X-No-Delegate": "true"}
"""Headers by which no server asks for GridSite delegation: dCache's and DPM's (WLCG DOMA, HTTP-TPC)."""


def recognized(headers: Mapping[str, str]) -> Implementation | None:
    """Return the implementation that answered with some headers, whose names are in lower case."""
    server = headers.get("server", "").lower()
    return next((one for one in KNOWN if one.word in server), None)
