# SPDX-License-Identifier: Apache-2.0
"""Certificate authority, host and user certificates and a macaroon secret for one deployment.

Keys are elliptic-curve keys (P-256), because they are created in a millisecond and have the cheapest handshake.
"""

import base64
import datetime
import ipaddress
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from tpcsweep.common import processes
from tpcsweep.deploying.xrootd.server_config import VALID_HOURS

USER = "alice"
ROOT_USER = "root"  # user of the tools' processes, and of the root protocol
VALID = datetime.timedelta(hours=VALID_HOURS)
_UNUSED = (
    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("encipher_only", "decipher_only"),
)

Signed = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def create_credentials(
    folder: Path, addresses: Iterable[str], owner: tuple[int, int], root: bool = False
) -> None:
    """Create the folder of a deployment's credentials.

    Its files are ca.pem, ca/ (hashed), host.pem, host.key, user.pem, user.key, macaroon.key, gridmap and authdb.
    Clients accept only a certificate with the `addresses` of the servers. Only the servers' `owner` (user and group id)
    may read their secrets, and only root the user's. With `root`, ROOT_USER has the user's rights.
    """
    folder.mkdir(mode=0o711)
    authority = _certificate("tpcsweep CA")
    host = _certificate("tpcsweep origin", authority, addresses)
    user = _certificate(USER, authority)
    (folder / "ca").mkdir(mode=0o755)
    for path in (folder / "ca.pem", folder / "ca" / "ca.pem"):
        _write(path, authority[0].public_bytes(Encoding.PEM), 0o644)
    # OpenSSL looks up file names that are hashes of the subject; only openssl itself computes them.
    processes.run(["openssl", "rehash", folder / "ca"], check=True)
    for name, (certificate, key) in {"host": host, "user": user}.items():
        _write(folder / f"{name}.pem", certificate.public_bytes(Encoding.PEM), 0o644)
        # X509_USER_PROXY names one file with key and certificate.
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        pem += certificate.public_bytes(Encoding.PEM)
        _write(folder / f"{name}.key", pem, 0o400, owner if name == "host" else None)
    _write(folder / "macaroon.key", base64.b64encode(secrets.token_bytes(64)) + b"\n", 0o400, owner)
    _write(folder / "gridmap", f'"/DC=tpcsweep/CN={USER}" {USER}\n'.encode(), 0o644)
    users = (USER, ROOT_USER) if root else (USER,)
    _write(folder / "authdb", "".join(f"u {name} /data a\n" for name in users).encode(), 0o644)


def _certificate(name: str, authority: Signed | None = None, addresses: Iterable[str] = ()) -> Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    # RFC 4514 writes the parts in reverse order
    subject = x509.Name.from_rfc4514_string(f"CN={name},DC=tpcsweep")
    issuer, signer = (authority[0].subject, authority[1]) if authority else (subject, key)
    usage = x509.KeyUsage(
        digital_signature=authority is not None,
        key_cert_sign=authority is None,
        crl_sign=authority is None,
        **dict.fromkeys(_UNUSED, False),
    )
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))  # clocks may be behind, or be set back
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        # RFC 5280, 4.2.1; Python 3.13 accepts no chain without them.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if authority:
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        found = [ipaddress.ip_address(address) for address in addresses]
        names: list[x509.GeneralName] = [x509.IPAddress(address) for address in found]
        # davix compares names alone with the host of a URL, which has brackets around an address of IPv6.
        names += [x509.DNSName(f"[{address}]") for address in found if address.version == 6]
        if names:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(signer, hashes.SHA256()), key


def _write(path: Path, content: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Write a file that is never more readable than its mode; the umask is that of `processes.readable_umask`."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        if owner:
            os.fchown(file.fileno(), *owner)
