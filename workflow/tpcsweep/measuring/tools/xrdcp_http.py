# SPDX-License-Identifier: Apache-2.0
"""xrdcp-http: third-party copies by HTTP with xrdcp of XRootD 6.2 or later, one process for each transfer.

XRootD's client speaks HTTP by a plugin, which a file in the client's folder enables. The plugin asks the source for the
file's size, and sends COPY. It shows both ends the tokens of a private file. Macaroons are requested with curl once for
each cell, since xrdcp shows its certificate to the end that gets the COPY alone.

Sources: xrdcp(1) of 6.2.1; XRootD's client configuration, "Plug-ins" and "XrdClHttp".
"""

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tpcsweep.deploying.xrootd import releases
from tpcsweep.deploying.xrootd.releases import Release, ReleaseError
from tpcsweep.measuring.tools.curl import fetch_tokens
from tpcsweep.measuring.tools.tool import HTTP_LAYERS, Credentials, Tool, Transfer
from tpcsweep.measuring.tools.xrdcp import Xrdcp

RELEASE = "xrootd"  # link in a client's folder to the release of its xrdcp, if that is not the installed one
LARGEST = 10 * 1024  # bytes that xrdcp reads of a file with tokens (XrdClHttpTokenFileParser.cc of 6.2.1)
PLUGIN = "url = http://*;https://*\nlib = libXrdClHttp.so\nenable = true\n"


class XrdcpHttp(Xrdcp):
    """`xrdcp --tpc [push] only https://… https://…`."""

    name = "xrdcp-http"
    order = 3
    protocol = "https"
    copy_modes = ("pull", "push")
    encryptions = ("tls", "none")
    authorizations = ("macaroons", "none")
    needs_tls = "xrdcp shows tokens by https only"
    follows_in_clear = True
    checksums = ()  # 6.2 ignores --cksum in these copies, even a wrong value
    layers = HTTP_LAYERS
    own_release = True

    def connections(self, copy_mode: str) -> tuple[int, str]:
        return (
            (15, "the limit of xrdcp --streams") if copy_mode == "pull" else Tool.connections(self, copy_mode)
        )

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        trust = {
            "XRD_HTTPCERTFILE": str(credentials.authority),
            "XRD_HTTPCERTDIR": str(credentials.authorities),
        }
        # It would show a proxy certificate that it finds in /tmp.
        own = {"XRD_HTTPDISABLEX509": "1", "XRD_PLUGINCONFDIR": str(folder), "XRD_LOGLEVEL": "Error"}
        return Tool.environment(self, credentials, folder) | trust | own

    def prepare(self, transfer: Transfer, credentials: Credentials, folder: Path) -> None:
        """Enable the plugin, and write the tokens of both ends to a private file if any are needed."""
        try:
            http_client(folder)
        except ReleaseError as error:
            raise RuntimeError(str(error)) from None
        (folder / "http.conf").write_text(PLUGIN)
        if tokens := fetch_tokens(transfer, credentials, folder):
            ends = dict(zip(transfer.roles, tokens, strict=True))
            content = json.dumps({"src": ends["source"], "dst": ends["destination"]})
            if len(content) > LARGEST:
                raise RuntimeError(
                    f"the tokens of both ends have {len(content)} bytes, of which xrdcp reads {LARGEST}. "
                    "Fix: use curl or native, or tokens with fewer claims"
                )
            private = os.open(folder / "tokens", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(private, "w") as file:
                file.write(content)

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        push = ["push"] if transfer.copy_mode == "push" else []
        tokens = ["--tpc-token-file", str(folder / "tokens")] if credentials.needed else []
        streams = ["--streams", str(transfer.tcp_streams)] if transfer.tcp_streams > 1 else []
        ends = transfer.url_for_mover(transfer.source), transfer.url_for_mover(transfer.destination)
        # `only`, because `first` falls back to streaming through the client.
        how = ["--nopbar", "--tpc", *push, "only", *tokens, *streams]
        return [*http_client(folder).command("xrdcp"), *how, *ends]

    def versions(self) -> dict[str, str]:
        """Return the version of the installed xrdcp or the image's; testbeds that link another one replace it."""
        try:
            return {"xrdcp": http_client(Path(os.devnull)).client_version()}
        except ReleaseError:
            return {}


def link_client(folder: Path, release: Release) -> None:
    """Have the tool in a client's folder use the xrdcp of a release."""
    if release.folder:
        (folder / RELEASE).symlink_to(release.folder)


@cache
def http_client(folder: Path) -> Release:
    """Return the release whose xrdcp copies by HTTP: that in a client's folder, the installed one, or an image's.

    Raises ReleaseError if none does.
    """
    found: Sequence[Release] = [Release(releases.SYSTEM)]
    if (link := folder / RELEASE).exists():
        found = [releases.release_in(RELEASE, link.resolve())]
    elif releases.IN_IMAGE.is_dir():
        names = sorted((path.name for path in releases.IN_IMAGE.iterdir()), key=releases.version_number)
        found = [*found, *(releases.in_image(name) for name in reversed(names))]
    for release in found:
        if release.copies_by_http():
            return release
    least = ".".join(map(str, releases.FIRST_HTTP_CLIENT))
    seen = ", ".join(f"{release.name} is {release.client_version() or 'missing'}" for release in found)
    raise ReleaseError(
        f"no xrdcp copies by HTTP, which begins with {least} ({seen}). "
        f"Fix: install {least} or later, or add {releases.HTTP_CLIENT} to the image"
    )
