# SPDX-License-Identifier: Apache-2.0
"""Sentences about slow sites and links of a mesh; pure functions."""

from collections.abc import Iterator

import numpy as np

from tpcsweep.analysis.links.verdicts import LinkEffect, MeshEffects, SiteEffect
from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.variables import LIMIT_NAMES
from tpcsweep.pages.contract import LinkMatrix

MOST_NAMED = 12  # sites or links of one kind in a list
MARKS = {"slow": "▼", "window": "◆", "one link": "?"}
"""Marks of verdicts in matrices."""
_OTHERS = {"sends": "send", "receives": "receive"}


def sentences(found: MeshEffects) -> list[str]:
    """Return statements about a mesh, most important first: slow sites, slow links, and the unknown."""
    sites = [_site(site, found) for site in found.sites if site.verdict in ("slow", "window")]
    slow = sorted(
        (link for link in found.links if link.verdict in ("slow", "window")), key=lambda link: link.ratio
    )
    links = [_link(link, _confounded(link, found)) for link in slow]
    nothing = [] if sites or links or not _compared(found) else [_nothing(found)]
    return [*sites, *_shortened(links, "slow link"), *nothing, *_method(found), *_unknown(found)]


def link_matrix(found: MeshEffects) -> LinkMatrix:
    """Return the matrix of a page: links with texts and marks."""
    mesh, links = found.mesh, found.links
    marks = {(site.role, site.site): MARKS.get(site.verdict, "") for site in found.sites}
    return {
        "sources": list(mesh.sources),
        "destinations": list(mesh.destinations),
        "sends": [marks.get(("sends", site), "") for site in mesh.sources],
        "receives": [marks.get(("receives", site), "") for site in mesh.destinations],
        "source": [mesh.sources.index(link.source) for link in links],
        "destination": [mesh.destinations.index(link.destination) for link in links],
        "value": [short(link.throughput) if np.isfinite(link.throughput) else None for link in links],
        "mark": [MARKS.get(link.verdict, "") for link in links],
        "text": ["\n".join(_lines(link)) for link in links],
    }


def _lines(link: LinkEffect) -> Iterator[str]:
    yield f"{link.source} → {link.destination}"
    if link.verdict == "not measured":
        yield "failed or not measured"
        return
    yield f"{short(link.throughput)} Gbit/s ({between(link.low, link.high)})"
    if np.isfinite(link.streams):
        yield counted(int(link.streams), "stream")
    if np.isfinite(link.rtt):
        yield f"RTT {_ms(link.rtt)}"
    if link.limit in LIMIT_NAMES:
        yield f"limited by {LIMIT_NAMES[link.limit]}"
    if np.isfinite(link.ratio):
        yield f"{short(link.ratio, 2)} times the expectation from both sites"
    if link.verdict:
        yield "slow path" if link.verdict == "slow" else "slow by its window"


def _compared(found: MeshEffects) -> int:
    return sum(np.isfinite(link.ratio) for link in found.links)


def _site(site: SiteEffect, found: MeshEffects) -> str:
    times = f"{short(site.ratio, 2)} times what the others {_OTHERS[site.role]} ({between(site.low, site.high, 2)})"
    text = f"Site {site.site} {site.role} {times}, over {counted(site.links, 'link')}"
    if site.verdict == "window":
        others = [other.rtt for other in found.sites if other.role == site.role and other.site != site.site]
        rtt = _rtts(site.rtt, float(np.nanmedian(others)) if np.isfinite(others).any() else np.nan)
        return (
            f"{text}: {LIMIT_NAMES['window']} limits {site.limited} of them{rtt}. More streams or larger buffers may "
            "raise it, so the site itself is not called slow."
        )
    if site.limit in LIMIT_NAMES:
        text += f"; {LIMIT_NAMES[site.limit]} limits {site.limited} of them"
    return f"{text}."


def _rtts(here: float, elsewhere: float) -> str:
    if not np.isfinite(here + elsewhere):
        return ""
    return f" at an RTT of {_ms(here)} in the median, {_ms(elsewhere)} at the others"


def _ms(rtt: float) -> str:
    return f"{short(rtt, 2)} ms"


def _confounded(link: LinkEffect, found: MeshEffects) -> list[str]:
    """Return the sites of a link that one link cannot tell from its path."""
    alone = {(site.role, site.site) for site in found.sites if site.verdict == "one link"}
    ends = (("sends", link.source), ("receives", link.destination))
    return [site for role, site in ends if (role, site) in alone]


def _link(link: LinkEffect, confounded: list[str]) -> str:
    rate = f"{short(link.throughput)} Gbit/s"
    times = (
        f"{short(link.ratio, 2)} times what both sites reach on their other links "
        f"({between(link.ratio_low, link.ratio_high, 2)})"
    )
    name = f"{link.source} → {link.destination}"
    if link.verdict == "window":
        rtt = f" at an RTT of {_ms(link.rtt)}" if np.isfinite(link.rtt) else ""
        streams = f" with {counted(int(link.streams), 'stream')}" if np.isfinite(link.streams) else ""
        return (
            f"{name} has {rate}, {times}: {LIMIT_NAMES['window']} limits it{rtt}{streams}. More streams or larger "
            "buffers may raise it, so the path is not called slow."
        )
    limit = f"; limit: {LIMIT_NAMES[link.limit]}" if link.limit in LIMIT_NAMES else ""
    which = f"is slow, {' or '.join(confounded)} or the path" if confounded else "alone is slow"
    return f"{name} {which}: {rate}, {times}{limit}."


def _nothing(found: MeshEffects) -> str:
    return (
        f"No site and no link is slower than the others beyond chance: {counted(_compared(found), 'link')} of "
        f"{counted(len(found.mesh.sites), 'site')} were compared."
    )


def _method(found: MeshEffects) -> Iterator[str]:
    if not _compared(found):
        return
    text = f"Links scatter by {short(100 * found.scatter, 2)} % about the effects of their two sites"
    if np.isfinite(found.rtt_from):
        text += f", after the fall of the throughput with RTTs above {_ms(found.rtt_from)}"
    yield f"{text}. Each link counts with the best of its measured settings."


def _unknown(found: MeshEffects) -> Iterator[str]:
    for role, verb in _OTHERS.items():
        if alone := [site.site for site in found.sites if (site.role, site.verdict) == (role, "one link")]:
            yield f"One link cannot tell a slow site from a slow path: {_list(alone)} {verb} on one link."
    few = [f"{site.site} {site.role}" for site in found.sites if site.verdict == "too few"]
    if few:
        yield f"Too few other sites or links to compare with: {_list(few)}."
    groups = dict.fromkeys(_list(group) for group in found.groups)
    if len(found.groups) > 1:
        yield (
            "Groups of links without a common site in the same role cannot be compared with each other: "
            f"{'; '.join(groups)}."
        )
    if missing := [
        f"{link.source} → {link.destination}" for link in found.links if link.verdict == "not measured"
    ]:
        yield f"{counted(len(missing), 'link')} without a usable measurement: {_list(missing)}."


def _list(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _shortened(texts: list[str], noun: str) -> list[str]:
    more = len(texts) - MOST_NAMED
    return [
        *texts[:MOST_NAMED],
        *([f"{counted(more, f'further {noun}')}: see the matrix."] if more > 0 else []),
    ]
