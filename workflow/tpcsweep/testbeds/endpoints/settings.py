# SPDX-License-Identifier: Apache-2.0
"""Settings of testbeds of kind endpoints: existing storage, and limits on its use."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from tpcsweep.common import urls
from tpcsweep.common.numbers import BYTES
from tpcsweep.sweeps import tournament, units
from tpcsweep.sweeps.parameters import (
    LINK,
    DeploymentParameters,
    Strict,
    Text,
    Value,
    Word,
    selected_parameters,
)
from tpcsweep.sweeps.problems import Fault, quoted, suggest
from tpcsweep.sweeps.sweep import Cell, Grid, Sweep
from tpcsweep.sweeps.testbed_settings import Given, Settings
from tpcsweep.sweeps.tournament import Link
from tpcsweep.testbeds.endpoints.pairs import (
    Beside,
    End,
    EndpointPair,
    Links,
    Login,
    Pairs,
    Site,
    link_pair,
    name_of,
    reversed_pair,
)


class Budget(Strict):
    """Limits on the bytes and the time of a sweep."""

    bytes: Annotated[int, units.MEMORY]
    """bytes that a run of the sweep may transfer, including retried cells and failed transfers"""
    time: Annotated[float, units.TIME]
    """time that a run of the sweep may take"""
    rotate: bool = False
    """with sites: whether a run of a larger sweep measures a part of the links, the ones measured longest
    ago, and leaves the others to later runs
    """


class SiteUse(NamedTuple):
    """The most that a sweep asks of a site."""

    name: str
    budget: int | None
    """bytes that a run may transfer from and to the site"""
    sent: int = 0
    """links with the site as the source"""
    received: int = 0
    """links with the site as the destination"""
    low: float = 0.0
    """the shortest time that the site is busy, s"""
    high: float = 0.0
    """the longest time that the site is busy, with all retries, s"""
    bytes: float = 0.0
    """the most bytes from and to the site; inf if nothing limits them"""


class Endpoints(Settings):
    """Storage endpoints that already run. tpcsweep deploys nothing there."""

    deploy_seconds: ClassVar[float] = 5.0
    cell_seconds: ClassVar[float] = 8.0

    kind: Literal["endpoints"]
    """existing storage endpoints"""
    pairs: Pairs
    """pairs of endpoints, which are the values of the axis `pair`; with sites their links: mesh for all, from
    and to for those of some sites, or a list of links such as A -> B
    """
    sites: tuple[Site, ...] = ()
    """sites of a mesh, which are the values of the axes `source` and `destination`"""
    beside: dict[Word, Beside] = Field(
        default={}, description="traffic of links beside the measured one, by values of the axis `beside`"
    )
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
    goals: Text | None = None
    """with sites: CSV file with the rates that links must reach, for the page; null: no goals"""

    def _faults(self) -> Iterator[Fault]:
        unknown = [*self._faults_of_names()]
        yield from unknown
        if unknown:
            return
        for index, pair in enumerate(self.all_pairs):
            place = ("pairs",) if self.sites else ("pairs", index)
            for at, given, allowed in pair._faults() if self.sites else ():
                yield place, f"{pair.name}: {given} ({'.'.join(map(str, at))})", allowed
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

    def _faults_of_names(self) -> Iterator[Fault]:
        """Yield unknown and repeated names, and links without sites."""
        names = [site.name for site in self.sites]
        if self.budget.rotate and not self.sites:
            yield ("budget", "rotate"), "true", "false without sites"
        if self.goals is not None and not self.sites:
            yield ("goals",), quoted(self.goals), "null without sites"
        for index, site in enumerate(self.sites):
            if site.name in names[:index]:
                yield ("sites", index), f"{site.name} again", "each name once"
            if site.local:
                yield ("sites", index, "urls"), "a local folder", "URLs of a server"
            for other in set(site.rtt) - set(names):
                yield ("sites", index, "rtt", other), "an unknown site", suggest(other, names)
        yield from self._faults_beside()
        if isinstance(self.pairs, Links):
            for name in {*(self.pairs.sources or ()), *(self.pairs.destinations or ())} - {*names}:
                yield ("pairs",), name, suggest(name, names) if names else "sites in this testbed"
            if not self.links:
                yield ("pairs",), "no link", "sites with a link between two of them"
            return
        for index, pair in enumerate(self.pairs):
            for given, allowed in self._faults_of_pair(pair, names):
                yield ("pairs", index), given, allowed
            if name_of(pair) in map(name_of, self.pairs[:index]):
                yield ("pairs", index), f"{name_of(pair)} again", "each name once"

    def _faults_beside(self) -> Iterator[Fault]:
        names = [site.name for site in self.sites]
        for key, beside in self.beside.items():
            if key in ("none", "reverse"):
                yield ("beside", key), key, "another name: none and reverse have a meaning"
            for link in beside.links:
                for given, allowed in self._faults_of_pair(link, names):
                    yield ("beside", key, "links"), given, allowed

    def _faults_of_pair(self, pair: str | EndpointPair, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        if not isinstance(pair, str):
            if self.sites:
                yield "a pair of its own", "links between the sites, such as A -> B"
            if pair.destination.file:
                yield f"destination.file {pair.destination.file}", "source.file alone"
            return
        ends = pair.split(" -> ")
        if unknown := [name for name in ends if name not in names]:
            yield pair, suggest(unknown[0], names) if names else "sites with these names"
        elif ends[0] == ends[1]:
            yield pair, "two different sites"

    @property
    def goal_tables(self) -> list[str]:
        return [self.goals] if self.goals is not None else []

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Source and destination of each link between the sites; () without sites."""
        names = [site.name for site in self.sites]
        if isinstance(self.pairs, Links):
            sources, destinations = (
                names if chosen is None else chosen
                for chosen in (self.pairs.sources, self.pairs.destinations)
            )
            return tuple((one, other) for one in sources for other in destinations if one != other)
        texts = [tuple(pair.split(" -> ")) for pair in self.pairs if isinstance(pair, str)]
        return tuple((source, destination) for source, destination in texts)

    @cached_property
    def all_pairs(self) -> tuple[EndpointPair, ...]:
        """The pairs, or the links as pairs."""
        if isinstance(self.pairs, tuple) and not self.sites:
            return tuple(pair for pair in self.pairs if isinstance(pair, EndpointPair))
        known = {site.name: site for site in self.sites}
        return tuple(link_pair(known[source], known[destination]) for source, destination in self.links)

    @cached_property
    def _found(self) -> Mapping[tuple[str, str, str], EndpointPair]:
        if self.sites:
            return {("only", *link): pair for link, pair in zip(self.links, self.all_pairs, strict=True)}
        return {(pair.name, "only", "only"): pair for pair in self.all_pairs}

    def find(self, pair: str, source: str, destination: str) -> EndpointPair | None:
        """Return the pair at these coordinates, or None. Unused coordinates are `only`."""
        return self._found.get((pair, source, destination))

    def pair(self, wanted: DeploymentParameters) -> EndpointPair:
        """Return the pair of a deployment. Raises KeyError for coordinates that are none of the testbed's."""
        return self._found[wanted.pair, wanted.source, wanted.destination]

    def beside_pairs(self, wanted: DeploymentParameters) -> list[tuple[EndpointPair, int | None]]:
        """Return the pairs that carry background traffic of a deployment, with their streams or None for the cell's."""
        if wanted.beside == "reverse":
            return [(reversed_pair(self.pair(wanted)), None)]
        if not (beside := self.beside.get(wanted.beside)):
            return []
        known = {site.name: site for site in self.sites}
        ends = [link.split(" -> ") for link in beside.links]
        return [
            (link_pair(known[source], known[destination]), beside.streams) for source, destination in ends
        ]

    def named(self, name: str) -> EndpointPair | None:
        """Return a measured pair, or one with background traffic, by its name; None if unknown."""
        if self.sites:
            known = {site.name: site for site in self.sites}
            source, _, destination = name.partition(" -> ")
            both = source in known and destination in known
            return link_pair(known[source], known[destination]) if both else None
        both_ways = (each for pair in self.all_pairs for each in (pair, reversed_pair(pair)))
        return next((pair for pair in both_ways if pair.name == name), None)

    def covering(self, pairs: Sequence[EndpointPair]) -> list[EndpointPair]:
        """Return the pairs, or of links a few that contain each site in each of its roles."""
        seen, chosen = set[tuple[str, str]](), []
        for both_new in (True, False) if self.sites else ():
            for pair in pairs:
                ends = {(role, getattr(pair, role).urls[0]) for role in LINK}
                if len(ends - seen) == 2 or (ends - seen and not both_new):
                    chosen.append(pair)
                    seen |= ends
        return chosen if self.sites else [*pairs]

    def logins(self, pair: EndpointPair) -> dict[str, Login]:
        """Return the credentials by role; both are those of the server if the other end is a local folder."""
        servers = [end for end in (pair.source, pair.destination) if not end.local]
        shown = [end.credentials or self.credentials for end in servers]
        return {"source": shown[0], "destination": shown[-1]}

    def sites_of(self, wanted: DeploymentParameters) -> list[Site]:
        """Return the sites of a deployment's link, the source first; none without sites."""
        known = {site.name: site for site in self.sites}
        return [known[name] for name in (wanted.source, wanted.destination) if name in known]

    def occupied(self, wanted: DeploymentParameters) -> frozenset[str]:
        pairs = [pair for pair, _ in self.beside_pairs(wanted)] if self.sites else []
        beside = {
            end.name for pair in pairs for end in (pair.source, pair.destination) if isinstance(end, Site)
        }
        return frozenset(beside.union(site.name for site in self.sites_of(wanted)))

    def most_streams(self, pair: EndpointPair) -> dict[str, int]:
        """Return the largest number of concurrent transfers of each door, host and port, of a pair."""
        ends = (pair.source, pair.destination)
        return {urls.door_of(url): self._most_streams(end) for end in ends for url in end.urls}

    def _most_streams(self, end: End) -> int:
        return (isinstance(end, Site) and end.max_streams) or self.max_streams

    def receiving_doors(self, wanted: DeploymentParameters) -> list[str]:
        hosts = [urlsplit(url).hostname for url in self.pair(wanted).destination.urls]
        return [host for host in dict.fromkeys(hosts) if host]  # a local folder has none

    def crowded(self, wanted: DeploymentParameters, streams: int) -> tuple[End, int, int] | None:
        """Return an end with more transfers at a time than it allows, their number, and the limit; None if all fit."""
        pairs = [(self.pair(wanted), streams)]
        pairs += [(pair, own or streams) for pair, own in self.beside_pairs(wanted)]
        counts = Counter[tuple[str, ...]]()
        for pair, count in pairs:
            for end in (pair.source, pair.destination):
                counts[end.urls] += count
                if counts[end.urls] > self._most_streams(end):
                    return end, counts[end.urls], self._most_streams(end)
        return None

    def completed(self, sweep: Sweep) -> Sweep:
        """Return a sweep with the axes source and destination, unless it sets them, without points that are no link."""
        if not self.sites:
            return sweep
        given, axes = selected_parameters(sweep.parameters), dict[str, list[str]]()
        for at, name in enumerate(LINK):
            linked = {link[at] for link in self.links}
            values = given.get(name, tuple(site.name for site in self.sites if site.name in linked))
            axes[name] = [str(value) for value in (values if isinstance(values, tuple) else (values,))]
        missing = {
            source: [other for other in axes["destination"] if (source, other) not in set(self.links)]
            for source in axes["source"]
        }
        content = sweep.model_dump(mode="json", exclude_unset=True, warnings=False)
        content["parameters"] |= axes
        holes = [{"source": source, "destination": others} for source, others in missing.items() if others]
        content["exclude"] = [*content.get("exclude", []), *holes]
        return Sweep.model_validate(content, context={"settings": None})

    def conditions(self, wanted: DeploymentParameters) -> dict[str, Value]:
        """Return the folders of the cell's pair, so that cells become stale when these change."""
        pair = self.find(wanted.pair, wanted.source, wanted.destination)
        ends: dict[str, Value] = {
            side: " ".join(getattr(pair, side).urls) for side in ("source", "destination") if pair
        }
        beside = self.beside.get(wanted.beside)
        return ends | ({"beside": f"{', '.join(beside.links)}; {beside.streams}"} if beside else {})

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        """Return the first pair, RTT and bandwidth or None unless all pairs declare the same, and random content."""
        declared = {name: {getattr(pair, name) for pair in self.all_pairs} for name in ("rtt", "bandwidth")}
        known = {name: values.pop() if len(values) == 1 else None for name, values in declared.items()}
        first = {} if self.sites else {"pair": self.all_pairs[0].name}
        return {**first, **known, "source_content": "random"}

    def expected_seconds(self, grid: Grid) -> tuple[float, float]:
        """Return the shortest and the longest duration of a sweep; links that share no site are measured together."""
        if not self.sites:
            return super().expected_seconds(grid)
        each = [
            (path, self.occupied(cells[0].parameters), *self.deployment_seconds(grid, cells))
            for links in tournament.in_rounds(grid)
            for path in links
            for cells in [grid.deployments[path]]
        ]
        low, high = (
            tournament.makespan((path, sites, times[at]) for path, sites, *times in each) for at in (0, 1)
        )
        return low, high

    def most_bytes(self, grid: Grid) -> float:
        """Return the most bytes that a sweep transfers without failures; inf if nothing limits them."""
        return sum(self._bytes_of_deployment(grid, cells) for cells in grid.deployments.values())

    def affordable(self, grid: Grid, paths: Sequence[str]) -> list[str]:
        """Return the first deployments of some that together need no more than the budgets of a run."""
        if not self.budget.rotate:
            return [*paths]
        chosen, used = list[str](), Counter[str]()
        limits = {site.name: site.budget or math.inf for site in self.sites} | {"": self.budget.bytes}
        for path in paths:
            cells = grid.deployments[path]
            asked = dict.fromkeys(
                ["", *self.occupied(cells[0].parameters)], self._bytes_of_deployment(grid, cells)
            )
            if all(used[name] + size <= limits[name] for name, size in asked.items()):
                chosen.append(path)
                used.update(asked)
        count = bisect_right(
            range(1, len(chosen) + 1), self.budget.time, key=lambda n: self._longest(grid, chosen[:n])
        )
        return chosen[:count]

    def _longest(self, grid: Grid, paths: Sequence[str]) -> float:
        """Return the longest time of some deployments in s."""
        wanted = {*paths}
        order = [path for links in tournament.in_rounds(grid) for path in links if path in wanted]
        return tournament.makespan(
            (path, self.occupied(cells[0].parameters), self.deployment_seconds(grid, cells)[1])
            for path in order
            for cells in [grid.deployments[path]]
        )

    def uses(self, grid: Grid) -> list[SiteUse]:
        """Return the use of each site by a sweep."""
        found = {site.name: SiteUse(site.name, site.budget) for site in self.sites}
        for cells in grid.deployments.values():
            wanted, size = cells[0].parameters, self._bytes_of_deployment(grid, cells)
            for name in self.occupied(wanted):
                use, (low, high) = found[name], self.deployment_seconds(grid, cells)
                sent, received = int(name == wanted.source), int(name == wanted.destination)
                found[name] = SiteUse(
                    name, use.budget, use.sent + sent, use.received + received, use.low + low, use.high + high,
                    use.bytes + size,
                )  # fmt: skip
        return list(found.values())

    def _bytes_of_deployment(self, grid: Grid, cells: Sequence[Cell]) -> float:
        how = grid.sweep.measurement
        each = sorted((self._most_bytes(cell, how.files, how.bounds[1]) for cell in cells), reverse=True)
        again = each[: math.ceil(grid.sweep.retry_share * len(each))]
        uploads = {cell.parameters.file_size for cell in cells}
        return sum(each) + sum(again) + sum(uploads)

    def _most_bytes(self, cell: Cell, files: int | None, seconds: float) -> float:
        wanted = cell.parameters
        pair = self.find(wanted.pair, wanted.source, wanted.destination)
        if not pair:
            return math.inf
        limited = [*([] if files is not None else [pair]), *(other for other, _ in self.beside_pairs(wanted))]
        size = 0.0 if files is None else float(files * wanted.streams * wanted.file_size)
        return size + sum(one.bandwidth * BYTES * seconds if one.bandwidth else math.inf for one in limited)
