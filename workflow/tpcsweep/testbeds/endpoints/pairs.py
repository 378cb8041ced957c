# SPDX-License-Identifier: Apache-2.0
"""Pairs of storage endpoints: written one by one, or as links between the sites of a mesh."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from tpcsweep.common import urls
from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import WORD, AnyText, Strict, Text, Word, tag
from tpcsweep.sweeps.problems import LIST_TAG, VALUE_TAG, Fault, fault, quoted


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


class Site(End):
    """One endpoint of a mesh, both as a source and as a destination."""

    name: Word
    """its value on the axes `source` and `destination`"""
    max_streams: Annotated[int | None, replace(units.STREAMS, null="that of the testbed")] = None
    """largest number of concurrent transfers from and to the site; null: that of the testbed"""
    budget: Annotated[int | None, replace(units.MEMORY, null="that of the testbed")] = None
    """bytes that a run may transfer from and to the site, over all its links; null: the testbed's alone"""
    bandwidth: Annotated[float | None, replace(units.BANDWIDTH, null="unknown")] = None
    """bandwidth of the site's own connection, as declared; that of a link is the smaller one of its sites"""
    rtt: dict[Word, Annotated[float, units.ROUND_TRIP]] = Field(
        default={}, description="declared RTT to other sites by their names, for both directions of a link"
    )


def _link(text: str) -> str:
    source, arrow, destination = (part.strip() for part in text.partition("->"))
    if not (arrow and re.match(WORD, source) and re.match(WORD, destination)):
        raise fault("a link between two sites, such as A -> B", quoted(text))
    return f"{source} -> {destination}"


def _every_link(value: object) -> object:
    if isinstance(value, str):
        if value != "mesh":
            raise fault("mesh, a mapping with from or to, or a list", quoted(value))
        return {}
    return value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[Word, ...], BeforeValidator(_listed, json_schema_input_type=Word | tuple[Word, ...])]


class Links(Strict):
    """The links of a mesh: `mesh` for all, or a mapping with `from`, `to` or both."""

    sources: Names | None = Field(default=None, alias="from", description="sites that are sources; null: all")
    destinations: Names | None = Field(
        default=None, alias="to", description="sites that are destinations; null: all"
    )


_Links = Annotated[
    Links, BeforeValidator(_every_link, json_schema_input_type=Literal["mesh"] | Links), Tag(VALUE_TAG)
]
_Listed = Annotated[
    Annotated[AnyText, AfterValidator(_link), Tag(VALUE_TAG)] | Annotated[EndpointPair, Tag(LIST_TAG)],
    Discriminator(lambda value: VALUE_TAG if isinstance(value, str) else LIST_TAG),
]
Pairs = Annotated[
    _Links | Annotated[tuple[_Listed, ...], Field(min_length=1), Tag(LIST_TAG)], Discriminator(tag)
]


class Beside(Strict):
    """Traffic of links while another one is measured."""

    links: tuple[Annotated[AnyText, AfterValidator(_link)], ...] = Field(
        min_length=1,
        description="links that carry traffic, such as A -> B; the measured one may be among them",
    )
    streams: Annotated[int | None, replace(units.STREAMS, null="those of the cell")] = None
    """transfers that each of these links keeps active; null: as many as the cell has streams"""


def name_of(pair: str | EndpointPair) -> str:
    return pair if isinstance(pair, str) else pair.name


def link_pair(source: Site, destination: Site) -> EndpointPair:
    """Return a link as a pair; sites are valid already."""
    known = [site.bandwidth for site in (source, destination) if site.bandwidth is not None]
    return EndpointPair.model_construct(
        name=f"{source.name} -> {destination.name}",
        source=source,
        destination=destination.model_copy(update={"file": None}),
        rtt=source.rtt.get(destination.name, destination.rtt.get(source.name)),
        bandwidth=min(known) if len(known) == 2 else None,
    )


def reversed_pair(pair: EndpointPair) -> EndpointPair:
    """Return the other direction of a pair. A source's own file is not written, and not copied back."""
    source, destination = pair.source, pair.destination
    name = f"{pair.name}, reverse"
    if isinstance(source, Site) and isinstance(destination, Site):
        name = f"{destination.name} -> {source.name}"
    ends = {"source": destination, "destination": source.model_copy(update={"file": None})}
    return pair.model_copy(update={"name": name, **ends})
