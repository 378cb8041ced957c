# SPDX-License-Identifier: Apache-2.0
"""Fixes of failures, by the messages of servers and tools and by the end that refuses. Pure."""

import re

_DENIED = (
    "no right there, an expired credential, or a token for another audience or scope: look at it with "
    "`tpcsweep check`, renew it, or ask for the right"
)
FIXES = {
    r"\b401\b|Unauthorized|Auth failed": "the server does not accept the credential: renew the token or proxy",
    r"\b403\b|Forbidden|Permission denied": _DENIED,
    r"\b507\b|Insufficient Storage|No space left": "the storage is full: delete files there, or choose another folder",
    # libcurl's words for an end that closes the connection: CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR.
    r"Server returned nothing|(Failed sending data to|Failure when receiving data from) the peer": (
        "the other end closed the connection: look at its disk and its log"
    ),
    r"%[0-9A-F]{2}\S*: (HTTP )?404\b": (
        "if the file exists, the server cannot read names with encoded characters: use a folder of letters and digits"
    ),
    r"no byte arrived": "choose a smaller file_size or more time, as only completed files and markers are visible",
    r"\b(429|503)\b": "the server is busy: measure with fewer streams, or later",
    r"alert (certificate|bad certificate|unknown ca|access denied)": (
        "the server refuses your certificate: ask its administrators whether they trust its CA, or make a new proxy"
    ),
    r"certificate has expired|certificate is not yet valid": (
        "the server's certificate is outside its dates: ask its administrators to renew it, or set the clocks"
    ),
    r"(Hostname|IP address) mismatch": "write the name that is in the server's certificate into urls",
    r"certificate verify failed|self.signed|unable to get local issuer": "set ca to the CA of the server's certificate",
}
"""Fixes of failures of tpcsweep's own requests."""
_UNTRUSTED = re.compile(
    r"certificate verify|local issuer|self.signed|CA certificates|peer certificate|trusted (CA|issuer)"
    r"|certification path",
    re.IGNORECASE,
)
"""Words of OpenSSL, davix, canl (StoRM WebDAV and dCache), and Java."""
_DATES = re.compile(r"certificate (has expired|is not yet valid|expired)", re.IGNORECASE)
_NAME = re.compile(
    r"subject name matches|(host ?name|IP address) mismatch|issued for a different host|not match target host"
    r"|match any of the subject alt",
    re.IGNORECASE,
)
_OWN_TLS = re.compile(r"\[SSL: |\(Neon\)|curl: \(60\)|exit code 60\b")
"""A failure of the TLS connection of the tool itself: ssl of Python, davix, CURLE_PEER_FAILED_VERIFICATION."""
_OTHER_END = re.compile(r"failure: .*(\b40[13]\b|Unauthorized|Forbidden)", re.IGNORECASE | re.DOTALL)
"""The end that moves the data reports the refusal of the other one; its own has no result line."""


def explained(failure: str) -> str:
    """Return a failure of a request of tpcsweep's, followed by its fix if one is known."""
    fix = next((fix for pattern, fix in FIXES.items() if re.search(pattern, failure, re.IGNORECASE)), "")
    return _with(failure, fix)


def explained_copy(failure: str, copy_mode: str) -> str:
    """Return a failure of a third-party copy, followed by its fix, which names the end that refuses."""
    active, passive = ("destination", "source") if copy_mode == "pull" else ("source", "destination")
    if not _OWN_TLS.search(failure) and (fault := _fault_of_certificate(failure, passive)):
        # Both ends were asked with `ca` before, so the refusing end is the one that connects to the other.
        return _with(failure, f"the {active}'s server {fault}")
    if _OTHER_END.search(failure):
        return _with(
            failure,
            f"the {passive} refuses the {active}'s request with the {passive}'s credential: {_DENIED}",
        )
    return explained(failure)


def _fault_of_certificate(failure: str, end: str) -> str:
    """Return what a server finds wrong with the certificate of an end; "" for other failures."""
    if _DATES.search(failure):
        return f"finds the {end}'s certificate outside its dates: ask the {end}'s administrators, or set the clocks"
    if _NAME.search(failure):
        return f"misses the {end}'s name in its certificate: use a URL with a name of the certificate"
    if _UNTRUSTED.search(failure):
        return f"does not trust the {end}'s CA: ask its administrator to add it"
    return ""


def _with(failure: str, fix: str) -> str:
    return f"{failure}. Fix: {fix}" if fix and "Fix: " not in failure else failure
