# SPDX-License-Identifier: Apache-2.0
"""The words of third-party copies by HTTP: requests for macaroons, headers of COPY, markers and results.

The protocol is "HTTP Third Party Copy" of the WLCG's DOMA group, as in XRootD 5. Standard library only.
"""

import base64
import json
import re
import string
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import NamedTuple

from tpcsweep.measuring.tools.tool import Credentials, Transfer

RIGHTS = {"source": "DOWNLOAD,LIST", "destination": "UPLOAD,LIST"}
"""Activities that a COPY to a new file in an existing folder needs; overwriting would need DELETE or MANAGE."""
READING = ",DOWNLOAD"  # activity that the checksum of a destination file needs, too
MACAROON_TYPE = {"Content-Type": "application/macaroon-request"}
NO_DELEGATION = {"Credential": "none", "X-No-Delegate": "true"}
"""Headers that prevent GridSite delegation on all servers.

dCache delegates by default with X.509 (User Guide, WebDAV: authorising the data transfer). gfal2 sends DPM's header
(gfal_http_plugin.cpp).
"""
_TOKEN = re.compile(r"[\x21-\x7e]+")
"""A token without white space: a line break would add headers to a COPY of the other end."""
_FAILURE = b"failure:"
_STRIPE_BYTES = re.compile(rb"^\s*Stripe Bytes Transferred:\s*(\d+)\s*$")


def macaroon_request(role: str, credentials: Credentials, *, verifying: bool = False) -> bytes:
    """Return the body of a request for a macaroon of the end `role`, "source" or "destination".

    With `verifying`, checksums of files can be requested with it.
    """
    validity = f"PT{credentials.macaroon_hours}H"
    rights = RIGHTS[role] + (READING if verifying and role == "destination" else "")
    return json.dumps({"caveats": [f"activity:{rights}"], "validity": validity}).encode()


def parse_macaroon(answer: bytes | str) -> str:
    """Return the macaroon in the answer to such a request, which a header can carry. Raises ValueError otherwise."""
    content = json.loads(answer)
    macaroon = content.get("macaroon") if isinstance(content, dict) else None
    if not isinstance(macaroon, str) or not _TOKEN.fullmatch(macaroon):
        raise ValueError("the answer has no macaroon")
    return macaroon


def copy_headers(transfer: Transfer, *tokens: str | None) -> dict[str, str]:
    """Return the headers of a COPY, with the tokens of the end that gets it and of the other one."""
    return {**end_headers(transfer), **common_headers(*tokens)}


def end_headers(transfer: Transfer) -> dict[str, str]:
    """Return the headers of a COPY that depend on its files."""
    _, header, passive = transfer.ends
    streams = {"X-Number-Of-Streams": str(transfer.tcp_streams)} if transfer.tcp_streams > 1 else {}
    # dCache and StoRM WebDAV compare checksums themselves; XRootD leaves that to the client.
    verified = {"RequireChecksumVerification": "true"} if transfer.verifying else {}
    names = ("SciTag", "TransferHeaderSciTag") if transfer.scitag is not None else ()
    tags = dict.fromkeys(names, str(transfer.scitag))
    return {header: transfer.url_for_mover(passive), **streams, **verified, **tags}


def digest_request(checksum: str, token: str | None = None) -> dict[str, str]:
    """Return the headers of a HEAD that asks for the checksum of a file (RFC 3230, 4.3.1)."""
    return {"Want-Digest": checksum, **({"Authorization": f"Bearer {token}"} if token else {})}


def digest_of(checksum: str, header: str) -> str | None:
    """Return a checksum as hexadecimal digits, as a header `Digest` has it; None if it has none.

    Servers write CRCs and adler32 with or without leading zeros, and MD5 in Base64 or hexadecimal digits.
    """
    values = (part.strip().partition("=") for part in header.split(","))
    value = next((value for name, _, value in values if name.lower() == checksum), "")
    digits = 32 if checksum == "md5" else 8
    if value and len(value) <= digits and not set(value) - set(string.hexdigits):
        return value.lower().rjust(digits, "0")
    try:
        return base64.b64decode(value, validate=True).hex() or None
    except ValueError:
        return None


class DigestAnswer(NamedTuple):
    """Answer of an end to HEAD: its status, and its header `Digest`, or ""."""

    status: int
    digest: str


def digest_failure(checksum: str, source: DigestAnswer, destination: DigestAnswer) -> str | None:
    """Return why the answers of both ends show no equal checksums; None if they do."""
    found = {}
    for end, answer in {"source": source, "destination": destination}.items():
        found[end] = digest_of(checksum, answer.digest)
        if found[end] is None:
            shown = "reports none" if answer.status == 200 else f"answers HTTP {answer.status}"
            return f"{checksum} not verified: the {end} {shown}"
    if found["source"] == found["destination"]:
        return None
    return f"{checksum} differs: the source has {found['source']}, and the destination {found['destination']}"


def common_headers(active: str | None = None, passive: str | None = None) -> dict[str, str]:
    """Return the headers of all COPYs of a cell, with the tokens of the end that gets them and of the other one."""
    tokens = {"Authorization": active, "TransferHeaderAuthorization": passive}
    bearers = {name: f"Bearer {token}" for name, token in tokens.items() if token}
    return {**NO_DELEGATION, "Overwrite": "F", **bearers}


def copy_succeeded(status: int, result: str) -> bool:
    """Return whether a COPY succeeded, by its status and the line of its body that tells the result.

    The body decides, because a copy may fail after its 201. A 201 or 204 without a body is a success (RFC 4918, 9.8.5);
    202 announces a result, which must follow.
    """
    return 200 <= status < 300 and (result.startswith("success:") or (not result and status in (201, 204)))


class Progress:
    """Parser of a COPY's body: performance markers, and the result in the last line."""

    def __init__(self, body: bytes = b"") -> None:
        """Parse the `body` so far."""
        self.bytes = 0  # bytes transferred, by the markers
        self._result: list[bytes] = []
        self._rest = b""
        self.feed(body)

    @property
    def last(self) -> bytes:
        """Last line that is not empty, as far as received, or all lines from `failure:` on."""
        return b" ".join(_result_lines(self._result, self._rest))

    @property
    def failed(self) -> bool:
        return self.last.startswith(_FAILURE)

    def feed(self, piece: bytes) -> bool:
        """Parse the next piece of the body; return whether it reports more bytes than before."""
        before = self.bytes
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if marker := _STRIPE_BYTES.match(line):
                self.bytes = max(self.bytes, int(marker[1]))
            self._result = _result_lines(self._result, line)
        return self.bytes > before


def _result_lines(before: list[bytes], line: bytes) -> list[bytes]:
    if not line.strip():
        return before
    return [*before, line.strip()] if before and before[0].startswith(_FAILURE) else [line.strip()]


def failure(
    status: int, reason: str, last: bytes, headers: Mapping[str, str] = MappingProxyType({})
) -> str | None:
    """Return why a COPY failed, or None if it succeeded.

    `headers` are the answer's by lower-case names, and `last` is the last line of its body.
    """
    result = last.decode(errors="replace").strip()
    if copy_succeeded(status, result):
        return None
    if not 200 <= status < 300:
        asked = wish(status, headers.get("retry-after", ""), headers.get("date", ""))
        return ": ".join(filter(None, (f"HTTP {status} {reason}{asked}", result)))
    return result if last.startswith(_FAILURE) else f"the answer ends without a result: {result}"


BUSY = (429, 503)
"""Statuses by which a server asks for fewer requests (RFC 6585, 4; RFC 9110, 15.6.4)."""
_WISH = re.compile(r"asks for a pause of (\d+) s\b")


def pause_seconds(retry_after: str, date: str = "") -> float | None:
    """Return the seconds of a header `Retry-After`, which has seconds or a time (RFC 9110, 10.2.3); None without one.

    `date` is the header of the same answer: the server's clock may differ from this machine's.
    """
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        return float(retry_after)
    until = _time(retry_after)
    return max(0.0, (until - (_time(date) or datetime.now(UTC))).total_seconds()) if until else None


def _time(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def wish(status: int, retry_after: str, date: str) -> str:
    """Return the pause that a busy server asks for in words, for messages of failures; "" for none."""
    seconds = pause_seconds(retry_after, date) if status in BUSY else None
    return "" if seconds is None else f", asks for a pause of {seconds:.0f} s"


def wished_pause(failure: str) -> float | None:
    """Return the seconds in a message that `wish` was added to; None without them."""
    found = _WISH.search(failure)
    return float(found[1]) if found else None
