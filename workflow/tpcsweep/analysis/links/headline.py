# SPDX-License-Identifier: Apache-2.0
"""The answer of a mesh in a few sentences: its slow and fast sites and links, and how many links are as expected."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from tpcsweep.analysis.links.same_time import CAUSE, slow_times
from tpcsweep.analysis.links.sentences import (
    ON_THE_PATH,
    WAITED_LABEL,
    confounded,
    distance,
    interval_note,
    is_path_slow,
    link_name,
    lost,
    site_ratio,
    which_is,
)
from tpcsweep.analysis.links.verdicts import WINDOW, LinkEffect, MeshEffects, Role, SiteEffect
from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.variables import LIMIT_NAMES, NOT_VISIBLE

MOST_NAMED = 3  # sites, and links
_SLOW, _FAST = ("slow", WINDOW), ("fast",)


def headline(found: MeshEffects) -> str:
    """Return the answer of a mesh, or "" if none of its sites and links could be compared."""
    if not any(np.isfinite(link.ratio) for link in found.links):
        return ""
    named = (
        sentence
        for verdicts in (_SLOW, _FAST)
        for part in (_sites, _links)
        for sentence in part(found, verdicts)
    )
    return " ".join((*named, _tally(found)))


def _sites(found: MeshEffects, verdicts: Sequence[str]) -> Iterator[str]:
    named = sorted((site for site in found.sites if site.verdict in verdicts), key=distance)
    by_name: dict[str, list[SiteEffect]] = {}
    for site in named:
        by_name.setdefault(site.site, []).append(site)
    for name, roles in itertools.islice(by_name.items(), MOST_NAMED):
        ratios = " and ".join(site_ratio(site) for site in roles)
        yield f"Site {name} {ratios}{_limit(roles)}."
    yield from _more(len(by_name), "site", verdicts)


def _more(count: int, noun: str, verdicts: Sequence[str]) -> Iterator[str]:
    if (more := count - MOST_NAMED) > 0:
        yield f"{counted(more, f'further {noun}')} {'is' if more == 1 else 'are'} {verdicts[0]}."


def _limit(roles: Sequence[SiteEffect]) -> str:
    """Name the limit of a slow site; one that differs between its roles is in the sentences about each."""
    limits = {site.limit for site in roles if site.verdict in _SLOW and site.limit in LIMIT_NAMES}
    if len(limits) != 1:
        return ""
    where = ", at the site or on its access" if limits == {NOT_VISIBLE} else ""
    return f": {LIMIT_NAMES[limits.pop()]} limits it{where}"


def _links(found: MeshEffects, verdicts: Sequence[str]) -> Iterator[str]:
    events = slow_times(found) if "slow" in verdicts else []
    together = [link for event in events for link in event.links]
    yield from (f"{event.words}. {CAUSE}" for event in events)
    alone = [link for link in found.links if link.verdict in verdicts and link not in together]
    named = sorted(alone, key=distance)
    for link in named[:MOST_NAMED]:
        interval = f"{between(link.ratio_low, link.ratio_high)}{interval_note(link.assumed)}"
        times = f"{short(link.ratio, 2)} times the expectation ({interval})"
        if link.verdict == WINDOW:
            yield f"{link_name(link)} has {times}: {LIMIT_NAMES[WINDOW]} limits it."
        else:
            cause = f"; {ON_THE_PATH}" if is_path_slow(link, found) else ""
            yield f"{link_name(link)} {which_is(link.verdict, confounded(link, found))}: {times}{cause}."
    yield from _more(len(named), "link", verdicts)


def slowest(found: MeshEffects) -> tuple[str, str] | None:
    """Return the source and the destination of the slow link that is named first, or None without one."""
    slow = sorted((link for link in found.links if link.verdict in _SLOW), key=distance)
    return (slow[0].source, slow[0].destination) if slow else None


def _tally(found: MeshEffects) -> str:
    """Count the links as expected: neither named themselves, nor of a site that is named in its role."""
    sites = {(site.role, site.site) for site in found.sites if site.verdict in (*_SLOW, *_FAST)}
    expected = [link for link in found.links if np.isfinite(link.ratio) and not _is_named(link, sites)]
    every = counted(len(found.links), "link")
    if len(expected) == len(found.links):
        return f"No site or link is slow or fast: all {every} are within chance of the expectation."
    named = sum(np.isfinite(link.ratio) for link in found.links) - len(expected)
    parts = [
        (named, _named_words(found)),
        (sum(link.verdict == "waited" for link in found.links), WAITED_LABEL),
        (
            sum(link.verdict == "not measured" for link in found.links),
            f"without a usable measurement: {lost(found)}",
        ),
    ]
    tail = "".join(f", {count} {words}" for count, words in parts if count)
    return f"{len(expected)} of {every} are within chance of the expectation{tail}."


def _named_words(found: MeshEffects) -> str:
    verdicts = {site.verdict for site in found.sites} | {link.verdict for link in found.links}
    kinds = [kind for kind, some in (("slow", _SLOW), ("fast", _FAST)) if verdicts & {*some}]
    return f"{' or '.join(kinds)}, or of such a site"


def _is_named(link: LinkEffect, sites: set[tuple[Role, str]]) -> bool:
    ends: set[tuple[Role, str]] = {("sends", link.source), ("receives", link.destination)}
    return link.verdict in (*_SLOW, *_FAST) or bool(sites & ends)
