# SPDX-License-Identifier: Apache-2.0
"""Settings of testbeds of kind endpoints: existing storage, and limits on its use."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from tpcsweep.common import urls
from tpcsweep.common.numbers import BYTES
from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import AnyText, DeploymentParameters, Strict, Text, Value, Word
from tpcsweep.sweeps.problems import Fault, fault, quoted
from tpcsweep.sweeps.testbed_settings import Given, Settings

if TYPE_CHECKING:
    from tpcsweep.sweeps.sweep import Cell, Grid


def _url(text: str) -> str:
    try:
        return urls.folder_url(text)
    except ValueError as error:
        hidden = r"(?<=//)[^/]*(?=@)|(?<=[?]).*"
        raise fault(str(error), quoted(re.sub(hidden, "…", text))) from None


def _file(text: str) -> str:
    try:
        return urls.file_path(text)
    except ValueError as error:
        raise fault(str(error), text) from None


Url = Annotated[AnyText, AfterValidator(_url)]


class Login(Strict):
    """The credentials that tpcsweep shows to a server. File names may contain $VARIABLES and ~."""

    proxy: Text | None = None
    """file of a proxy certificate with its key, such as $X509_USER_PROXY"""
    certificate: Text | None = None
    """certificate file"""
    key: Text | None = None
    """private key file of the certificate"""
    token_file: Text | None = None
    """file with a bearer token, such as $BEARER_TOKEN_FILE"""
    token_command: Text | None = None
    """shell command that prints a bearer token, such as oidc-token NAME; it runs before each cell"""

    def _faults(self) -> Iterator[Fault]:
        if (self.certificate is None) != (self.key is None):
            yield ("key",), "one of certificate and key", "both or neither"
        ways = [self.proxy, self.certificate, self.token_file, self.token_command]
        if sum(way is not None for way in ways) > 1:
            one = "one of proxy, certificate with key, token_file and token_command"
            yield (), "several credentials", one

    @property
    def token(self) -> bool:
        return bool(self.token_file or self.token_command)

    @property
    def empty(self) -> bool:
        return not (self.proxy or self.certificate or self.token)


class End(Strict):
    """One end of a pair: a folder of a storage endpoint, reached through one or several doors."""

    urls: tuple[Url, ...] = Field(
        min_length=1,
        description="URL of the folder at each door, which streams use in turn, or of one local folder, file:///path",
    )
    credentials: Login | None = None
    """credentials for this end; null: those of the testbed"""
    file: Annotated[AnyText, AfterValidator(_file)] | None = None
    """source only: a file in the folder to copy; null: tpcsweep uploads one"""

    @property
    def local(self) -> bool:
        return any(url.startswith("file:") for url in self.urls)


class EndpointPair(Strict):
    """A source endpoint and a destination endpoint."""

    name: Word
    """its value on the axis `pair`"""
    source: End
    """folder that files are copied from"""
    destination: End
    """folder that files are copied to"""
    rtt: Annotated[float | None, replace(units.ROUND_TRIP, null="unknown")] = None
    """RTT between source and destination, as declared; tpcsweep does not measure it"""
    bandwidth: Annotated[float | None, replace(units.BANDWIDTH, null="unknown")] = None
    """bandwidth between source and destination, as declared; tpcsweep does not measure it"""

    def _faults(self) -> Iterator[Fault]:
        if self.source.local and self.destination.local:
            yield (), "two local folders", "a server at one end"
        for role, end in (("source", self.source), ("destination", self.destination)):
            if end.local and len(end.urls) > 1:
                yield (role, "urls"), "a local folder and other URLs", "one URL for a local folder"
            if end.local and end.credentials:
                yield (role, "credentials"), "credentials of a local folder", "those of the other end alone"
        if self.source.file and "%" in self.source.file and (self.source.local or "root" in self.protocols):
            yield ("source", "file"), self.source.file, "a name without %XX: only HTTP decodes it"
        if self.destination.local and "root" in self.protocols:
            yield ("source", "urls"), "root:// to a local folder", "davs:// or https://, for davix-get"

    @property
    def place(self) -> str:
        """Place of the tools that can copy: the end with a local folder, or `client` between two servers."""
        return "source" if self.source.local else "destination" if self.destination.local else "client"

    @property
    def doors(self) -> list[tuple[str, str]]:
        """Source and destination folders that streams use in turn; together they use every door of both ends."""
        sources, destinations = self.source.urls, self.destination.urls
        count = max(len(sources), len(destinations))
        return [(sources[n % len(sources)], destinations[n % len(destinations)]) for n in range(count)]

    @property
    def urls(self) -> list[str]:
        """URLs of the folders at all servers of the pair."""
        return [url for end in (self.source, self.destination) if not end.local for url in end.urls]

    @property
    def protocols(self) -> set[str]:
        """Protocols of the pair's servers, `https` and `root`."""
        return {"root" if url.startswith("root") else "https" for url in self.urls}


class Budget(Strict):
    """Limits on the bytes and the time of a sweep."""

    bytes: Annotated[int, units.MEMORY]
    """bytes that a run of the sweep may transfer, including retried cells and failed transfers"""
    time: Annotated[float, units.TIME]
    """time that a run of the sweep may take"""


class Endpoints(Settings):
    """Storage endpoints that already run. tpcsweep deploys nothing there."""

    deploy_seconds: ClassVar[float] = 5.0
    cell_seconds: ClassVar[float] = 8.0

    kind: Literal["endpoints"]
    """existing storage endpoints"""
    pairs: tuple[EndpointPair, ...] = Field(min_length=1)
    """the pairs of endpoints, which are the values of the axis `pair`"""
    budget: Budget
    """limits on the bytes and the time of a sweep"""
    max_streams: Annotated[int, units.STREAMS]
    """largest number of concurrent transfers"""
    credentials: Login = Field(default_factory=Login)
    """credentials for ends without their own; none: anonymous access"""
    checksums: bool = False
    """whether the adler32 of each destination file is compared with its source's; servers then read files again"""
    ca: Text | None = None
    """CA file, or folder such as /etc/grid-security/certificates; null: those of the system"""

    def _faults(self) -> Iterator[Fault]:
        names = [pair.name for pair in self.pairs]
        for index, pair in enumerate(self.pairs):
            place = ("pairs", index)
            if pair.name in names[:index]:
                yield place, f"{pair.name} again", "each name once"
            if pair.destination.file:
                yield (*place, "destination", "file"), pair.destination.file, "source.file alone"
            if len(pair.protocols) > 1:
                yield place, "root:// with another scheme", "root:// or https:// for both ends"
            logins = self.logins(pair).values()
            if "root" in pair.protocols and any(login.key for login in logins):
                yield place, "certificate with root://", "a proxy, as by voms-proxy-init, or a token"
            if pair.place != "client" and "https" in pair.protocols and any(login.token for login in logins):
                only = "a proxy, or certificate and key: davix takes a token only by its command line"
                yield place, "token with a local folder", only
            clear = [
                url for end in (pair.source, pair.destination) for url in end.urls if urls.unencrypted(url)
            ]
            if clear and not all(login.empty for login in logins):
                allowed = "https:// or davs:// with credentials: by http:// anyone on the path can read them"
                yield place, f"credentials with {clear[0]}", allowed
            x509 = [login for login in logins if not login.token]
            if len(x509) == 2 and x509[0] != x509[1]:
                yield place, "two certificates", "one certificate or proxy for both ends, or tokens"

    def logins(self, pair: EndpointPair) -> dict[str, Login]:
        """Return the credentials by role; both are those of the server if the other end is a local folder."""
        servers = [end for end in (pair.source, pair.destination) if not end.local]
        shown = [end.credentials or self.credentials for end in servers]
        return {"source": shown[0], "destination": shown[-1]}

    def pair(self, name: str) -> EndpointPair:
        """Return a pair by its name; raises KeyError."""
        return {pair.name: pair for pair in self.pairs}[name]

    def conditions(self, wanted: DeploymentParameters) -> dict[str, Value]:
        """Return the folders of the cell's pair, so that cells become stale when these change."""
        pair = next((pair for pair in self.pairs if pair.name == wanted.pair), None)
        return {side: " ".join(getattr(pair, side).urls) for side in ("source", "destination") if pair}

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        """Return the first pair, RTT and bandwidth or None unless all pairs declare the same, and random content."""
        declared = {name: {getattr(pair, name) for pair in self.pairs} for name in ("rtt", "bandwidth")}
        known = {name: values.pop() if len(values) == 1 else None for name, values in declared.items()}
        return {"pair": self.pairs[0].name, **known, "source_content": "random"}

    def most_bytes(self, grid: Grid) -> float:
        """Return the most bytes that a sweep transfers without failures; inf if nothing limits them."""
        how, total = grid.sweep.measurement, 0.0
        for cells in grid.deployments.values():
            each = sorted((self._most_bytes(cell, how.files, how.bounds[1]) for cell in cells), reverse=True)
            again = each[: math.ceil(grid.sweep.retry_share * len(each))]
            uploads = {cell.parameters.file_size for cell in cells}
            total += sum(each) + sum(again) + sum(uploads)
        return total

    def _most_bytes(self, cell: Cell, files: int | None, seconds: float) -> float:
        wanted = cell.parameters
        pair = next((pair for pair in self.pairs if pair.name == wanted.pair), None)
        if files is not None:
            return float(files * wanted.streams * wanted.file_size)
        return pair.bandwidth * BYTES * seconds if pair and pair.bandwidth else math.inf
