# SPDX-License-Identifier: Apache-2.0
"""Certificates with faults: expired ones, keys with a pass phrase, proxies with VOMS attributes."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

ATTRIBUTES = x509.ObjectIdentifier("1.3.6.1.4.1.8005.100.100.5")  # the extension of VOMS


def write_certificate(
    folder: Path,
    name: str,
    begins: float = -3600,
    ends: float = 3600,
    phrase: bytes = b"",
    attributes_end: float | None = None,
    signer: str = "",
    authority: bool = False,
) -> None:
    """Write NAME.pem and NAME.key, self-signed for 127.0.0.1, and NAME.proxy with both; times in s from now.

    `signer` is the name of an `authority` in the folder, which signs it. None has a key identifier.
    """
    now, key = datetime.datetime.now(datetime.UTC), ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name.from_rfc4514_string(f"CN={name}")
    issuer, signing = subject, key
    if signer:
        issuer = x509.load_pem_x509_certificate((folder / f"{signer}.pem").read_bytes()).subject
        read = load_pem_private_key((folder / f"{signer}.key").read_bytes(), None)
        assert isinstance(read, ec.EllipticCurvePrivateKey)
        signing = read
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now + datetime.timedelta(seconds=begins))
    builder = builder.not_valid_after(now + datetime.timedelta(seconds=ends))
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    if authority:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if attributes_end is not None:
        times = [now, now + datetime.timedelta(seconds=attributes_end)]
        encoded = b"".join(b"\x18\x0f" + f"{time:%Y%m%d%H%M%SZ}".encode() for time in times)
        content = b"some" + b"\x30\x22" + encoded + b"more"
        builder = builder.add_extension(x509.UnrecognizedExtension(ATTRIBUTES, content), critical=False)
    pem = builder.sign(signing, SHA256()).public_bytes(Encoding.PEM)
    how = BestAvailableEncryption(phrase) if phrase else NoEncryption()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
    for suffix, text in {"pem": pem, "key": private, "proxy": pem + private}.items():
        (folder / f"{name}.{suffix}").write_bytes(text)
