# SPDX-License-Identifier: Apache-2.0
"""A private folder with a user's credentials in the tools' format, with links to the user's files."""

import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpcsweep.common import processes
from tpcsweep.measuring.tools.tool import ANONYMOUS
from tpcsweep.testbeds.endpoints.settings import EndpointPair, Endpoints, Login

COMMAND_SECONDS = 60.0
PREFIX = "tpcsweep-"
"""Of the private folders' names."""


class CredentialError(Exception):
    """An unusable credential of the testbed; the text names it and the fix."""


@contextmanager
def written(settings: Endpoints, pair: EndpointPair) -> Iterator[Path]:
    """Create the folder for a pair, for the length of a `with`. Raises CredentialError."""
    folders = (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm")  # noqa: S108
    memory = next((folder for folder in folders if os.access(folder, os.W_OK | os.X_OK)), None)
    # It has mode 700.
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=memory, ignore_cleanup_errors=True) as made:
        _write(Path(made), settings, pair)
        yield Path(made)


def _write(folder: Path, settings: Endpoints, pair: EndpointPair) -> None:
    _authorities(folder, settings.ca)
    logins = settings.logins(pair)
    if all(login.empty for login in logins.values()):
        (folder / ANONYMOUS).touch()
    for role, login in logins.items():
        if login.token_file:
            file = _file(login.token_file, "token_file")
            _require_token(file.read_text(errors="replace"), "token_file")
            (folder / f"{role}.token").symlink_to(file)
        elif login.proxy and not (folder / "user.key").exists():
            for name in ("user.pem", "user.key"):
                (folder / name).symlink_to(_file(login.proxy, "proxy"))
        elif login.certificate and login.key and not (folder / "user.key").exists():
            certificate, key = _file(login.certificate, "certificate"), _file(login.key, "key")
            (folder / "user.pem").symlink_to(certificate)
            _private(folder / "user.key", f"{key.read_text()}\n{certificate.read_text()}")
    renew(folder, logins)


def renew(folder: Path, logins: dict[str, Login]) -> None:
    """Run the commands that print tokens. Raises CredentialError."""
    for role, login in logins.items():
        if not login.token_command:
            continue
        command = ["/bin/sh", "-c", login.token_command]
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
    (folder / "ca.pem").write_text("\n".join(file.read_text(errors="replace") for file in files))
