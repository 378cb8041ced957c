# SPDX-License-Identifier: Apache-2.0
"""An issuer of tokens: it publishes its key by HTTPS, and signs tokens of the WLCG's and SciTokens' profiles.

RFC 8414 and OpenID Connect Discovery (metadata), RFC 7517 (keys), RFC 7515 and 7519 (tokens).
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from tests.support.front import serving

KEY = "key-1"
PROFILES = {
    "wlcg": {"wlcg.ver": "1.0", "scope": "storage.read:/ storage.modify:/"},
    "scitokens": {"ver": "scitoken:2.0", "scope": "read:/ write:/"},
}
"""Claims that tell a profile, with the right to everything in its words."""


@dataclass
class Issuer:
    """Its key, and what it was asked."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    """The paths of the requests."""
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    def token(self, audience: str, seconds: float = 600, profile: str = "wlcg", **claims: str) -> str:
        """A token that is valid for some seconds; `claims` replace those of the profile."""
        now = int(time.time())
        times = {"iat": now - 60, "nbf": now - 60, "exp": int(now + seconds)}
        who = {"iss": self.url, "sub": "alice", "aud": audience, "jti": secrets.token_hex(8)}
        head = {"typ": "JWT", "alg": "RS256", "kid": KEY}
        text = ".".join(
            encoded(json.dumps(part)) for part in (head, who | times | PROFILES[profile] | claims)
        )
        return f"{text}.{encoded(self.key.sign(text.encode(), padding.PKCS1v15(), SHA256()))}"

    def published(self, path: str) -> dict[str, Any] | None:
        """The document at a path."""
        self.asked.append(path)
        numbers = self.key.public_key().public_numbers()
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY}
        key |= {"n": encoded(numbers.n.to_bytes(256)), "e": encoded(numbers.e.to_bytes(3))}
        documents = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [key]},
        }
        return documents.get(path)


@contextlib.contextmanager
def issuer_at(address: str, pki: Path) -> Iterator[Issuer]:
    """Serve at an address with the servers' certificate, for the length of a `with`."""
    issuer = Issuer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = issuer.published(self.path)
            body = json.dumps(found).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")  # RFC 8414, 3.2; StoRM WebDAV needs it
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler, address, pki) as issuer.url:
        yield issuer


def encoded(content: str | bytes) -> str:
    """Base64 for URLs, without padding."""
    raw = content.encode() if isinstance(content, str) else content
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
