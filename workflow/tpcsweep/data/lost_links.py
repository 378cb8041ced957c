# SPDX-License-Identifier: Apache-2.0
"""Links of a mesh without a measurement, by the few sites or the reasons that explain them; pure functions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tpcsweep.common.numbers import counted


class LostLink(NamedTuple):
    """A link, or a part of it, whose cells lack a measurement for one reason."""

    name: str
    sites: frozenset[str]
    why: str  # "" if nobody knows
    cells: int


def by_site(lost: Sequence[LostLink]) -> Iterator[tuple[str, list[LostLink]]]:
    """Yield groups of links with a name: links with one reason and no common site, those of a site, and single ones."""
    left = list[LostLink]()
    for why in dict.fromkeys(link.why for link in lost):
        same = [link for link in lost if link.why == why]
        if why and len(same) > 1 and not frozenset.intersection(*(link.sites for link in same)):
            yield counted(len({link.name for link in same}), "link"), same
        else:
            left += same
    while left:
        [(site, _)] = Counter(site for link in left for site in sorted(link.sites)).most_common(1)
        names = list(dict.fromkeys(link.name for link in left if site in link.sites))
        group = [link for link in left if link.name in names]
        yield f"site {site} ({len(names)} links)" if len(names) > 1 else names[0], group
        left = [link for link in left if link.name not in names]


def main_reason(links: Sequence[LostLink]) -> str:
    """Return the reason for most cells of links, with the number of others; one that quotes another contains it."""
    reasons = Counter[str]()
    for link in links:
        reasons[link.why] += link.cells
    [(why, _)] = reasons.most_common(1)
    others = sum(other not in why for other in reasons)
    return why + (f" (and {counted(others, 'other reason')})" if others else "")
