# SPDX-License-Identifier: Apache-2.0
"""Rounds of a mesh: links that share no site run side by side. Pure.

A round-robin tournament by the circle method (Kirkman 1847) is a 1-factorization of the complete graph: each round
contains each site at most once. Each pairing has two rounds, one for each direction.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tpcsweep.sweeps.parameters import LINK
from tpcsweep.sweeps.sweep import Grid, shuffled

Link = tuple[str, str]
"""Source and destination."""


def tournament(sites: Sequence[str], seed: int) -> list[list[Link]]:
    """Return rounds that together contain each link between two different sites once, in an order by the seed.

    An even number n of sites needs 2 (n - 1) rounds of n / 2 links, and an odd number 2 n rounds of (n - 1) / 2 links.
    """
    ring: list[str | None] = [*sorted(sites, key=lambda site: shuffled(seed, site))]
    ring += [None] * (len(ring) % 2)  # the opponent of the site that rests
    rounds: list[list[Link]] = []
    for turn in range(len(ring) - 1):
        seats = [ring[0], *ring[1 + turn :], *ring[1 : 1 + turn]]
        opposite = zip(seats[: len(seats) // 2], reversed(seats), strict=False)
        matches = [(one, other) for one, other in opposite if one is not None and other is not None]
        # Alternate, so that not all links of a round start at the same half of the sites.
        there = [pair if (turn + seat) % 2 else pair[::-1] for seat, pair in enumerate(matches)]
        rounds += [there, [(one, other) for other, one in there]]
    return sorted(rounds, key=lambda links: shuffled(seed, *map(" ".join, sorted(links))))


def in_rounds(grid: Grid) -> list[list[str]]:
    """Return the deployments of a grid whose axes include source and destination, in rounds, by their paths.

    Deployments of a round have equal values on all other axes, and the same repetition.
    """
    sites = sorted({str(site) for name in LINK for site in grid.axes[name]})
    numbers = {link: at for at, links in enumerate(tournament(sites, grid.seed)) for link in links}
    rounds: dict[tuple[object, ...], list[str]] = {}
    for path, (first, *_) in grid.deployments.items():
        values = first.deployment.values
        others = tuple(str(value) for name, value in values.items() if name not in LINK)
        number = numbers[str(values["source"]), str(values["destination"])]
        rounds.setdefault((first.repetition, number, *others), []).append(path)
    blocks = grid.sweep.order == "blocks"

    def key(one: tuple[object, ...]) -> tuple[object, ...]:
        repetition, number, *others = one
        # The order of the tournament is a shuffled one; other axes come in another order in each of its rounds.
        return repetition if blocks else 0, number, shuffled(grid.seed, str(one)), others

    return [rounds[one] for one in sorted(rounds, key=key)]


def startable(
    waiting: Mapping[str, frozenset[str]],
    busy: Collection[str],
    held: Callable[[str], bool] = lambda _: False,
) -> list[str]:
    """Return the deployments, in their order, that may start now because none of their sites is busy.

    `waiting` has the sites of each deployment. A deployment that is `held` lets others use its sites.
    """
    taken, chosen = {*busy}, []
    for path, sites in waiting.items():
        if taken.isdisjoint(sites) and not held(path):
            taken |= sites
            chosen.append(path)
    return chosen


def makespan(deployments: Iterable[tuple[str, frozenset[str], float]]) -> float:
    """Return the seconds until all deployments have ended; each has a path, its sites and its duration in s."""
    waiting, seconds = dict[str, frozenset[str]](), dict[str, float]()
    for path, sites, duration in deployments:
        waiting[path], seconds[path] = sites, duration
    running: list[tuple[float, str, frozenset[str]]] = []
    now, busy = 0.0, set[str]()
    while waiting or running:
        for path in startable(waiting, busy):
            sites = waiting.pop(path)
            busy |= sites
            heapq.heappush(running, (now + seconds[path], path, sites))
        now = running[0][0]
        while running and running[0][0] == now:
            busy -= heapq.heappop(running)[2]
    return now
