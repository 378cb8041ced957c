# SPDX-License-Identifier: Apache-2.0
"""A private folder with a user's credentials in the tools' format, with links to the user's files."""

import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tpcsweep.common import processes
from tpcsweep.measuring.tools.tool import ANONYMOUS
from tpcsweep.testbeds.endpoints.pairs import EndpointPair, Login
from tpcsweep.testbeds.endpoints.settings import Endpoints

COMMAND_SECONDS = 60.0
PREFIX = "tpcsweep-"
"""Of the private folders' names."""


class CredentialError(Exception):
    """An unusable credential of the testbed; the text names it and the fix."""


@contextmanager
def written(
    settings: Endpoints, pair: EndpointPair, roles: Sequence[str] = ("source", "destination")
) -> Iterator[Path]:
    """Create the folder for ends of a pair, for the length of a `with`. Raises CredentialError."""
    folders = (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm")  # noqa: S108
    memory = next((folder for folder in folders if os.access(folder, os.W_OK | os.X_OK)), None)
    # It has mode 700.
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=memory, ignore_cleanup_errors=True) as made:
        _write(Path(made), settings, pair, roles)
        yield Path(made)


def _write(folder: Path, settings: Endpoints, pair: EndpointPair, roles: Sequence[str]) -> None:
    logins = {role: login for role, login in settings.logins(pair).items() if role in roles}
    try:
        _authorities(folder, settings.ca)
    except CredentialError as error:
        raise CredentialError(f"pair {pair.name}: {error}") from None
    if all(login.empty for login in logins.values()):
        (folder / ANONYMOUS).touch()
    for role, login in logins.items():
        with _named(pair, logins, role):
            _write_login(folder, role, login)
            if login.token_file and "root" in pair.protocols:
                _require_private(login.token_file)
    renew(folder, logins, pair)


def _write_login(folder: Path, role: str, login: Login) -> None:
    if login.token_file:
        file = _file(login.token_file, "token_file")
        _require_token(file.read_text(errors="replace"), "token_file")
        (folder / f"{role}.token").symlink_to(file)
    elif login.proxy and not (folder / "user.key").exists():
        proxy = _file(login.proxy, "proxy")
        _require_key(proxy, "proxy", proxy)
        for name in ("user.pem", "user.key"):
            (folder / name).symlink_to(proxy)
    elif login.certificate and login.key and not (folder / "user.key").exists():
        certificate, key = _file(login.certificate, "certificate"), _file(login.key, "key")
        _require_key(key, "key", certificate)
        (folder / "user.pem").symlink_to(certificate)
        _private(folder / "user.key", f"{key.read_text()}\n{certificate.read_text()}")


@contextmanager
def _named(pair: EndpointPair | None, logins: Mapping[str, Login], role: str) -> Iterator[None]:
    """Add the pair, and the ends that have the credential, to a CredentialError."""
    try:
        yield
    except CredentialError as error:
        ends = " and ".join(other for other, login in logins.items() if login == logins[role])
        of = f"pair {pair.name}, {ends}" if pair else ends
        raise CredentialError(f"{of}: {error}") from None


def _require_key(file: Path, key: str, certificate: Path) -> None:
    """Raise CredentialError unless a file has the private key of a certificate, without a pass phrase."""
    content = file.read_bytes()
    if re.search(rb"BEGIN ENCRYPTED|,ENCRYPTED", content):
        fix = "make a proxy, or a copy of the key without pass phrase that you alone may read"
        raise CredentialError(f"{key}: {file} has a pass phrase, for which no tool can ask. Fix: {fix}")
    try:
        leaf = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    except ValueError:
        raise CredentialError(
            f"{'proxy' if key == 'proxy' else 'certificate'}: {certificate} has none in PEM"
        ) from None
    try:
        found = load_pem_private_key(content, None).public_key()
    except (ValueError, TypeError) as error:
        raise CredentialError(f"{key}: {file} has no usable private key in PEM: {error}") from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if found.public_bytes(*form) != leaf.public_key().public_bytes(*form):
        raise CredentialError(f"{key}: {file} is not the key of the certificate {certificate}")


def _require_private(text: str) -> None:
    """Raise CredentialError for a token file that XRootD's client refuses because others may read it."""
    mode = _file(text, "token_file").stat().st_mode & 0o777
    if mode & 0o077:
        raise CredentialError(f"token_file: {text} has mode {mode:o}, and xrdcp refuses it. Fix: chmod 600")


def renew(folder: Path, logins: dict[str, Login], pair: EndpointPair | None = None) -> None:
    """Run the commands that print tokens. Raises CredentialError."""
    for role, login in logins.items():
        if login.token_command:
            with _named(pair, logins, role):
                _renew(folder, role, login.token_command)


def _renew(folder: Path, role: str, line: str) -> None:
    command = ["/bin/sh", "-c", line]
    try:
        done = processes.run(command, processes.full_environment(), timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        raise CredentialError(f"token_command did not end within {COMMAND_SECONDS:.0f} s") from None
    if done.returncode or not done.stdout.strip():
        last_line = done.stderr.strip().rpartition("\n")[2][:200]
        raise CredentialError(
            f"token_command ended with exit code {done.returncode}: {last_line or 'no token'}"
        )
    _require_token(done.stdout, "token_command")
    fresh = folder / f".{role}.token"
    _private(fresh, done.stdout)
    fresh.replace(folder / f"{role}.token")


def _require_token(text: str, key: str) -> None:
    """Raise CredentialError for a text that would be more than the value of one header."""
    if re.search(r"[^!-~]", text.strip()):
        raise CredentialError(
            f"{key}: not one token: it has several words or lines, or other than ASCII characters"
        )


def _private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def _file(text: str, key: str) -> Path:
    path = Path(os.path.expandvars(text)).expanduser().absolute()
    if not path.is_file() or not os.access(path, os.R_OK):
        raise CredentialError(f"{key}: {text}: no file that this user can read")
    if not path.read_bytes().strip():
        raise CredentialError(f"{key}: {text} is empty")
    return path


def _authorities(folder: Path, given: str | None) -> None:
    known = ssl.get_default_verify_paths()
    place = (
        Path(os.path.expandvars(given)).expanduser() if given else Path(known.cafile or known.capath or "/")
    )
    if place.is_dir():
        (folder / "ca").symlink_to(place.absolute())
        # Files with hashed names are the certificates; .pem and .crt files may duplicate them.
        files = sorted(place.glob("*.[0-9]")) or sorted([*place.glob("*.pem"), *place.glob("*.crt")])
    elif place.is_file():
        files = [place]
        (folder / "ca").mkdir()
        shutil.copy(place, folder / "ca" / "ca.pem")
        processes.run(["openssl", "rehash", folder / "ca"])
    else:
        raise CredentialError(f"ca: {given}: no such file or folder")
    text = "\n".join(file.read_text(errors="replace") for file in files)
    if given and "BEGIN" not in text:
        raise CredentialError(f"ca: {given} has no certificate")
    (folder / "ca.pem").write_text(text)
