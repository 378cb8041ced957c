# SPDX-License-Identifier: Apache-2.0
"""Differences between implementations of HTTP third-party copies, with their sources. Pure."""

from typing import NamedTuple


class Implementation(NamedTuple):
    """A storage system, recognized by its answers."""

    name: str
    words: tuple[str, ...]  # lower-case words of its `Server` header
    note: str


KNOWN = (
    Implementation(
        "XRootD",
        ("xrootd",),
        "several connections in pull mode only (xrootd/xrootd#2109); their markers count bytes asked for, not "
        "those that arrived, before the fix of xrootd/xrootd#2874",
    ),
    Implementation(
        "dCache",
        ("dcache",),
        "fails a copy if the other end has no RFC 3230 checksum (User Guide, WebDAV: data integrity)",
    ),
    Implementation(
        "StoRM WebDAV",
        ("storm", "milton"),  # its WebDAV library answers OPTIONS
        "tells copies to other servers from its own by its names in STORM_WEBDAV_HOSTNAME_0, … (its doc/tpc.md); "
        "ignores the number of connections; answers 500 to tokens of an issuer that it does not know or reach "
        "(its CompositeJwtDecoder), so gfal2, which needs a token or delegation, copies nothing anonymously; "
        "1.8.1 reads no file in a folder whose URL has %XX, and issues macaroons only for VOMS attributes",
    ),
)


def recognized(server: str) -> Implementation | None:
    """Return the implementation that calls itself `server`."""
    return next((one for one in KNOWN if any(word in server.lower() for word in one.words)), None)
