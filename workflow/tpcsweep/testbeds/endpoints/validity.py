# SPDX-License-Identifier: Apache-2.0
"""Validity and rights of credentials: tokens, proxies and certificates, by the server's clock.

RFC 7519 (JSON Web Tokens), the WLCG's token profile 1.2 and SciTokens (audience, scope), RFC 5755 (validity of VOMS
attributes in a proxy), and the caveat `before:` of macaroons.
"""

import base64
import datetime
import email.utils
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509

from tpcsweep.measuring.tools.tool import Credentials
from tpcsweep.testbeds.endpoints.doors import Doors
from tpcsweep.testbeds.endpoints.pairs import Login
from tpcsweep.testbeds.endpoints.webdav import HttpDoors

LEEWAY = 60.0
"""Seconds by which clocks may differ before a token counts as not valid yet; it is valid soon anyway."""
ANY_AUDIENCE = ("ANY", "https://wlcg.cern.ch/jwt/v1/any")
RIGHTS = {"source": ("read",), "destination": ("create", "modify", "write")}
"""Rights of scopes, without `storage.`, of which an end needs one."""
DELETING = ("modify", "write")
_ATTRIBUTES = re.compile(rb"\x30\x22\x18\x0f(\d{14})Z\x18\x0f(\d{14})Z")
"""AttCertValidityPeriod in DER: two GeneralizedTimes."""
_BEFORE = re.compile(rb"before:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


class Period(NamedTuple):
    """The time in which a credential is valid; None where it names no limit."""

    what: str
    begins: datetime.datetime | None
    ends: datetime.datetime | None


class Clock(NamedTuple):
    now: datetime.datetime
    whose: str


def server_clock(door: Doors, url: str) -> Clock:
    """Return the `Date` of a server's answer, or this machine's time. Raises DoorError without an answer."""
    date = ""
    if isinstance(door, HttpDoors):
        date = door.request("OPTIONS", f"{url}/").headers.get("date", "")
    else:
        door.server(url)
    try:
        return Clock(email.utils.parsedate_to_datetime(date).astimezone(UTC), "the server's clock")
    except ValueError:
        return Clock(datetime.datetime.now(UTC), "this machine's clock")


def claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a JSON Web Token; {} for other tokens."""
    try:
        found = json.loads(base64.urlsafe_b64decode(f"{token.split('.')[1]}=="))
    except (ValueError, LookupError):
        return {}
    return found if isinstance(found, dict) else {}


def periods(login: Login, credentials: Credentials, role: str) -> Iterator[Period]:
    """Yield the periods of an end's credential. Raises ValueError and OSError for an unreadable certificate."""
    if not credentials.needed:
        return
    if token := credentials.token(role):
        yield _token_period("token_command" if login.token_command else "token_file", token)
        return
    what = "proxy" if login.proxy else "certificate"
    chain = x509.load_pem_x509_certificates(credentials.certificate.read_bytes())
    yield Period(
        what,
        max(one.not_valid_before_utc for one in chain),
        min(one.not_valid_after_utc for one in chain),
    )
    found = [match for one in chain for match in _ATTRIBUTES.findall(one.tbs_certificate_bytes)]
    for begins, ends in found:
        yield Period("VOMS attributes of the proxy", *(_generalized(time) for time in (begins, ends)))


def _generalized(time: bytes) -> datetime.datetime:
    return datetime.datetime.strptime(time.decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _token_period(what: str, token: str) -> Period:
    if found := claims(token):
        return Period(what, *(_time(found.get(name)) for name in ("nbf", "exp")))
    try:
        decoded = base64.urlsafe_b64decode(f"{token}==")
    except ValueError:
        decoded = b""
    limits = [datetime.datetime.fromisoformat(time.decode() + "+00:00") for time in _BEFORE.findall(decoded)]
    return Period(what, None, min(limits, default=None))


def _time(seconds: object) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromtimestamp(float(seconds), UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def invalid(period: Period, clock: Clock, seconds: float = 0.0) -> str:
    """Return why a credential is not valid now, or not for so many seconds; "" if it is."""
    now, what = clock.now, period.what
    by = f"(now {now:%Y-%m-%d %H:%M:%S} UTC by {clock.whose})"
    if period.begins and (period.begins - now).total_seconds() > LEEWAY:
        return f"{what}: not valid before {shown(period.begins)} {by}"
    if period.ends and period.ends <= now:
        return f"{what}: expired at {shown(period.ends)} {by}"
    if period.ends and (period.ends - now).total_seconds() < seconds:
        return f"{what}: only valid until {shown(period.ends)} {by}"
    return ""


def shown(time: datetime.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def doubts(token: str, role: str, url: str, *, reads: bool) -> list[str]:
    """Return the audience and rights of an end that the claims of a token lack.

    `reads`: the end is only read. A server may map names and groups to rights by itself, so these are no errors.
    """
    found, lacking = claims(token), []
    if "aud" in found and not _names(found["aud"], url):
        lacking.append(f"its audience {words(found['aud'])} does not name {urlsplit(url).netloc}")
    scopes = words(found.get("scope", "")).split()
    rights = {scope.partition(":")[0].removeprefix("storage.") for scope in scopes}
    if rights & {"read", "create", "modify", "write", "stage"}:
        needed = {"read": ("read",)} if role == "source" else {"write": RIGHTS["destination"]}
        if not reads:
            needed |= {"write": RIGHTS["destination"], "delete": DELETING, "list": ("read",)}
        missing = [verb for verb, ways in needed.items() if not rights & set(ways)]
        if missing:
            lacking.append(f"its scope {' '.join(scopes)} has no right to {' and '.join(missing)}")
    return lacking


def _names(audience: object, url: str) -> bool:
    """Return whether an audience names the server of a URL."""
    known = audience if isinstance(audience, list) else [audience]
    host = urlsplit(url).hostname or ""
    return any(one in ANY_AUDIENCE or host in re.split(r"[:/]+", str(one)) for one in known)


def words(claim: object) -> str:
    return " ".join(map(str, claim)) if isinstance(claim, list) else str(claim)


def described(token: str) -> str:
    """Return issuer, audience and scope of a JSON Web Token for people; "" for other tokens."""
    found = claims(token)
    return ", ".join(f"{name} {words(found[name])}" for name in ("iss", "aud", "scope") if name in found)
