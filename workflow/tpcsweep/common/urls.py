# SPDX-License-Identifier: Apache-2.0
"""URLs of folders on storage, and the only place that builds the URLs that tpcsweep writes to or deletes.

Such a URL lies in a `MadeFolder`: a folder with a random name that tpcsweep made up, and that the server has created. A
configured URL consists of parts that every server and tool understands in the same way, so that no part is dropped.
Standard library only, because the client imports it.
"""

import ipaddress
import re
import secrets
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlsplit

SCHEMES = {"davs": "https", "https": "https", "http": "http", "root": "root", "roots": "roots"}
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(
    rf"(?P<name>{_LABEL}(?:\.{_LABEL})*\.?|\[(?P<v6>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{{0,5}}))?"
)
_LONGEST_HOST = 253  # RFC 1035, without the dot at its end
_ALLOWED = "letters, digits and . _ ~ + , = : @ -"
_PART = re.compile(r"[A-Za-z0-9._~+,=:@-]+")
_ENCODED_PART = re.compile(r"(?:[A-Za-z0-9._~+,=:@-]|%[0-9A-Fa-f]{2})+")
_NEVER_ENCODED = re.compile(rb"[\x00-\x1f\x7f/\\?#%;&]")
"""Characters that some servers interpret after decoding a path; XRootD cuts it at a question mark."""
_LOCAL_PART = re.compile(r"[^\x00-\x1f\x7f/\\?#%]+")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_LONGEST_PART = 255  # NAME_MAX of Linux, in bytes
_LONGEST_PATH = 3840  # PATH_MAX of Linux, 4096, less the names of tpcsweep's folder and files
_OWN = re.compile(r"tpcsweep-[0-9a-f]{32}")


def folder_url(text: str) -> str:
    """Return the one form of a folder's URL, without a slash at its end. Raises ValueError with the reason."""
    scheme, found, rest = text.partition("://")
    scheme = scheme.lower()
    host, slash, path = rest.partition("/")
    parts = _parts(path)
    if scheme == "file" and slash and not host and parts:
        _require(parts, _LOCAL_PART, "no ?, #, % or control character in a local path")
        return f"file:///{'/'.join(parts)}"
    if not found or scheme not in SCHEMES or not host:
        raise ValueError("the URL of a folder, such as davs://se.example.org:443/store/test or file:///path")
    if "?" in rest or "#" in rest:
        raise ValueError(
            "the URL of a folder, without ? and #: servers do not read the text after them as a part of the path"
        )
    host = _one_host(host)
    if scheme.startswith("root"):
        parts = parts[1:] if parts[:1] == [""] and len(parts) > 1 else parts  # root://host//path
        _require(parts or [""], _PART, f"in a path of root:// only {_ALLOWED}")
        return f"{scheme}://{host}//{'/'.join(parts)}"
    other = f"only {_ALLOWED}, and others as %XX, but never / \\ ? # % ; & or a control character"
    _require(parts, _ENCODED_PART, other)
    return "/".join([f"{SCHEMES[scheme]}://{host}", *map(_one_spelling, parts)])


def file_path(text: str) -> str:
    """Return the path of a file below a configured folder. Raises ValueError with the reason."""
    _require(text.split("/"), _ENCODED_PART, f"only {_ALLOWED}, and others as %XX by HTTP")
    return text


def _one_spelling(part: str) -> str:
    """Return the one spelling of a part with encodings (RFC 3986, 6.2.2)."""

    def spelled(found: re.Match[str]) -> str:
        plain = chr(int(found[1], 16))
        return plain if _UNRESERVED.fullmatch(plain) else found[0].upper()

    return _ENCODED.sub(spelled, part)


def _parts(path: str) -> list[str]:
    """Return the parts of a path, of which one slash at the end makes none."""
    path = path.removesuffix("/")
    return path.split("/") if path else []


def _require(parts: list[str], allowed: re.Pattern[str], otherwise: str) -> None:
    if len(unquote_to_bytes("/".join(parts))) > _LONGEST_PATH:
        raise ValueError(f"a path of at most {_LONGEST_PATH} bytes")
    for part in parts:
        plain = unquote_to_bytes(part)
        if len(plain) > _LONGEST_PART:
            raise ValueError(
                f"a path without {part[:20] + '…'!r}: at most {_LONGEST_PART} bytes between slashes"
            )
        if plain in (b"", b".", b".."):
            raise ValueError(f"a path of names of folders, without {part!r} between two slashes")
        if not allowed.fullmatch(part) or (allowed is _ENCODED_PART and _NEVER_ENCODED.search(plain)):
            encoded = quote(part, safe="+,=:@")
            works = allowed is _ENCODED_PART and "%" not in part and not _NEVER_ENCODED.search(plain)
            raise ValueError(f"a path without {part!r}: {f'write {encoded}; ' if works else ''}{otherwise}")


def _one_host(text: str) -> str:
    """Return the one form of host and port. Raises ValueError with the reason."""
    if "@" in text:
        raise ValueError("a URL without a user or password: credentials belong in `credentials`")
    match = _HOST.fullmatch(text)
    port = match and match["port"]
    if not match or (port and not 0 < int(port) < 1 << 16) or len(match["name"]) > _LONGEST_HOST + 1:
        form = (
            "in ASCII, as xn--… (IDNA)"
            if not text.isascii()
            else "such as se.example.org:443 or [2001:db8::1]:443"
        )
        raise ValueError(f"the URL of a folder with host or host:port, {form}, and not {text[:80]!r}")
    if match["v6"]:
        try:
            ipaddress.IPv6Address(match["v6"])
        except ValueError as error:
            raise ValueError(
                f"the URL of a folder with host or host:port, and not {text!r}: {error}"
            ) from None
    return match["name"].lower().removesuffix(".") + (f":{int(port)}" if port else "")


def below(folder: str, name: str) -> str:
    """Return the URL of a file or folder directly in a folder. Raises ValueError unless the name is one plain part."""
    if name in (".", "..") or not _PART.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a file in {folder}")
    return f"{folder}/{name}"


@dataclass(frozen=True)
class NewFolder:
    """A folder that tpcsweep is to create in a configured folder."""

    door: str
    """URL of the configured folder"""
    name: str

    def __post_init__(self) -> None:
        """Raise ValueError unless `made_up` made the name."""
        if not _OWN.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name that tpcsweep made up")

    @property
    def url(self) -> str:
        return below(self.door, self.name)


class MadeFolder(NewFolder):
    """A folder that a server has created for tpcsweep; files are written and deleted in such folders alone."""

    def file(self, name: str) -> "OwnFile":
        return OwnFile(self, name)

    def at(self, door: str) -> "MadeFolder":
        """Return the same folder at another door of the same storage."""
        return MadeFolder(door, self.name)


@dataclass(frozen=True)
class OwnFile:
    """A file in a folder of tpcsweep's."""

    folder: MadeFolder
    name: str

    @property
    def url(self) -> str:
        return below(self.folder.url, self.name)


def made_up() -> str:
    """Return a new random name of a folder."""
    return f"tpcsweep-{secrets.token_hex(16)}"


def is_own(name: str) -> bool:
    """Return whether a folder has a name that tpcsweep made up, on this or another machine."""
    return bool(_OWN.fullmatch(name))


def holds_own_folder(url: str) -> bool:
    """Return whether a URL is that of a folder of tpcsweep's, or of a file in one."""
    *_, above, last = ("", "", *urlsplit(url).path.strip("/").split("/"))
    return bool(_OWN.fullmatch(last) or _OWN.fullmatch(above))


PORTS = {"https": 443, "http": 80}
ROOT_PORT = 1094


def door_of(url: str) -> str:
    """Return host and port of a URL; "" for a local folder."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return (host if parts.port else f"{host}:{PORTS.get(parts.scheme, ROOT_PORT)}").lower() if host else ""


def shown(url: str) -> str:
    """Return a URL for messages: redirections may have a token in their query."""
    return url.partition("?")[0]


def unencrypted(url: str) -> bool:
    """Return whether a token or certificate in a request to a URL would be readable on its way.

    XRootD's client sends a token by TLS alone, also to root:// (its ztn protocol), and X.509 without the key.
    """
    return url[:5].lower() == "http:"
