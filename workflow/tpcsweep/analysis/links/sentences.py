# SPDX-License-Identifier: Apache-2.0
"""Sentences about slow and fast sites and links of a mesh; pure functions."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from tpcsweep.analysis.links.link_rates import WAITED
from tpcsweep.analysis.links.same_time import CAUSE, SlowTime, slow_times
from tpcsweep.analysis.links.verdicts import FAST, SLOW, LinkEffect, MeshEffects, SiteEffect
from tpcsweep.common.numbers import between, counted, json_number, short
from tpcsweep.common.texts import capital
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.lost_links import LostLink, by_site
from tpcsweep.data.variables import CPU_LIMITS, LIMIT_NAMES
from tpcsweep.pages.contract import LinkMatrix, SiteRow
from tpcsweep.sweeps.parameters import link_text

MOST_NAMED = 12  # sites or links of one kind in a list
_FEWEST_OTHERS = 3  # links whose range says something
_FEWEST_SENDERS = 3  # sites of which one is called the best
_MOST_LOST = 4  # sites and links without a usable measurement in a sentence
MARKS = {"slow": "▼", "window": "◆", "fast": "▲", "waited": "‖", "one link": "?"}
"""Marks of verdicts in matrices."""
WAITED_LABEL = FLAGS[WAITED].label
ASSUMED = "no interval of its own: noise of a typical cell"
"""Where the interval of a link or goal comes from if its cells have none."""
_OF_HOSTS = CPU_LIMITS | {"disk", "server"}
_OTHERS = {"sends": "send", "receives": "receive"}


def sentences(
    found: MeshEffects, full: Collection[tuple[str, str]] = (), reasons: Sequence[str] = ()
) -> list[str]:
    """Return statements about a mesh, most important first: slow sites and links, fast ones, and the unknown.

    `full` are the sources and destinations of links that were measured on a full machine, and `reasons` lines on those
    without a measurement.
    """
    slow = _named(found, ("slow", "window"), "slow link", full)
    named = [*slow, *_named(found, ("fast",), "fast link", full)]
    nothing = [] if named or not _compared(found) else [_nothing(found)]
    return [*named, *nothing, *_best_senders(found), *_method(found), *_unknown(found, reasons)]


def _best_senders(found: MeshEffects) -> Iterator[str]:
    """Name the site that sends most, and those whose intervals do not tell them from it."""
    known = [site for site in found.sites if site.role == "sends" and np.isfinite(site.low)]
    if len(known) < _FEWEST_SENDERS:
        return
    best = max(known, key=lambda site: site.ratio)
    equal = [site.site for site in known if site is not best and site.high >= best.low]
    text = f"Best sender: {best.site}, {short(best.ratio)} times the others ({between(best.low, best.high)})"
    yield f"{text}; not told from it by their intervals: {_list(equal)}." if equal else f"{text}."


def _named(
    found: MeshEffects, verdicts: Sequence[str], noun: str, full: Collection[tuple[str, str]]
) -> list[str]:
    sites = [_site(site, found) for site in found.sites if site.verdict in verdicts]
    events = slow_times(found) if "slow" in verdicts else []
    together = [link for event in events for link in event.links]
    links = [link for link in found.links if link.verdict in verdicts and link not in together]
    texts = [_link(link, found) + _on_full_machine(link, found, full) for link in sorted(links, key=distance)]
    return [*sites, *(_event(event) for event in events), *_shortened(texts, noun)]


def _on_full_machine(link: LinkEffect, found: MeshEffects, full: Collection[tuple[str, str]]) -> str:
    """Say that a link was measured on a full machine, and how fast others were there; "" for all other links."""
    if (link.source, link.destination) not in full:
        return ""
    others = [each.ratio for each in found.links if each != link and (each.source, each.destination) in full]
    known = [ratio for ratio in others if np.isfinite(ratio)]
    if len(known) < _FEWEST_OTHERS:
        return f" {FULL}"
    reach = f"{between(min(known), max(known))} times the expectation"
    return f" {FULL} The {len(known)} other links that were measured on a full machine reach {reach}."


def _event(event: SlowTime) -> str:
    links = [f"{link_name(link)} ({short(link.ratio, 2)} times)" for link in event.links]
    return f"{event.words}: {_list(links)}. {CAUSE}"


def distance(effect: SiteEffect | LinkEffect) -> float:
    """Return a key that sorts effects by the distance of their ratio from 1, the farthest first."""
    return float(-abs(np.log(effect.ratio)))


def link_matrix(found: MeshEffects) -> LinkMatrix:
    """Return the matrix of a page: links with texts and marks."""
    mesh, links = found.mesh, found.links
    marks = {(site.role, site.site): MARKS.get(site.verdict, "") for site in found.sites}
    return {
        "sources": [_marked(site, marks.get(("sends", site), "")) for site in mesh.sources],
        "destinations": [_marked(site, marks.get(("receives", site), "")) for site in mesh.destinations],
        "links": [
            {
                "source": mesh.sources.index(link.source),
                "destination": mesh.destinations.index(link.destination),
                "rate": json_number(link.throughput, digits=3),
                "value": short(link.throughput) if np.isfinite(link.throughput) else "",
                "mark": MARKS.get(link.verdict, ""),
                "compared": link.verdict not in ("waited", "not measured"),
                "text": "\n".join(_lines(link)),
                "about": "; ".join(_about(link, found)),
            }
            for link in links
        ],
    }


def site_rows(found: MeshEffects) -> list[SiteRow]:
    """Return the ratio of each site to the middle half of the others by role, the best sender first."""
    ratios = {(site.role, site.site): site for site in found.sites if np.isfinite(site.ratio)}
    best_first = sorted(
        found.mesh.sites, key=lambda name: _ratio_of(ratios.get(("sends", name))), reverse=True
    )
    return [
        {
            "site": name,
            "sends": _site_text(ratios.get(("sends", name))),
            "receives": _site_text(ratios.get(("receives", name))),
        }
        for name in best_first
    ]


def _ratio_of(effect: SiteEffect | None) -> float:
    return effect.ratio if effect else -np.inf


def _site_text(effect: SiteEffect | None) -> str:
    if effect is None:
        return ""
    ratio = f"{short(effect.ratio)} ({between(effect.low, effect.high)})"
    return _marked(f"{ratio}, {counted(effect.links, 'link')}", MARKS.get(effect.verdict, ""))


def _marked(site: str, mark: str) -> str:
    return f"{site} {mark}".rstrip()


def _lines(link: LinkEffect) -> Iterator[str]:
    yield link_name(link)
    if link.verdict == "not measured":
        yield "failed or not measured"
        return
    if link.verdict == "waited":
        yield f"{short(link.throughput)} Gbit/s"
        yield f"{WAITED_LABEL}: not compared"
        return
    yield f"{short(link.throughput)} Gbit/s ({between(link.low, link.high)}{interval_note(link.assumed)})"
    if np.isfinite(link.streams):
        yield counted(int(link.streams), "stream")
    if np.isfinite(link.rtt):
        yield f"RTT {_ms(link.rtt)}"
    if link.limit in LIMIT_NAMES:
        yield f"limited by {LIMIT_NAMES[link.limit]}"
    yield from _verdict(link)


def _about(link: LinkEffect, found: MeshEffects) -> Iterator[str]:
    """Yield the words of a comparison of all links about one, beyond the figures of its cell."""
    if link.assumed and np.isfinite(link.low):
        yield f"{between(link.low, link.high)} Gbit/s by the noise of a typical cell"
    yield from _verdict(link)
    if is_path_slow(link, found):
        yield ON_THE_PATH
    ends = {("sends", link.source), ("receives", link.destination)}
    for site in found.sites:
        if (site.role, site.site) in ends and site.verdict in MARKS:
            yield f"site {site.site} {site_ratio(site)}"


def _verdict(link: LinkEffect) -> Iterator[str]:
    if np.isfinite(link.ratio):
        interval = between(link.ratio_low, link.ratio_high)
        yield f"{short(link.ratio, 2)} times the expectation from both sites ({interval})"
        if link.verdict:
            yield "slow by its window" if link.verdict == "window" else f"{link.verdict} path"


def site_ratio(site: SiteEffect) -> str:
    """Return the words after the name of a site: its ratio to the others."""
    times = f"{short(site.ratio)} times what the others {_OTHERS[site.role]}"
    return f"{site.role} {times} ({between(site.low, site.high)})"


def _compared(found: MeshEffects) -> int:
    return sum(np.isfinite(link.ratio) for link in found.links)


def _site(site: SiteEffect, found: MeshEffects) -> str:
    text = f"Site {site.site} {site_ratio(site)}, over {counted(site.links, 'link')}"
    if site.verdict == "window":
        others = [other.rtt for other in found.sites if other.role == site.role and other.site != site.site]
        rtt = _rtts(site.rtt, float(np.nanmedian(others)) if np.isfinite(others).any() else np.nan)
        return (
            f"{text}: {LIMIT_NAMES['window']} limits {site.limited} of them{rtt}. More streams or larger buffers may "
            "raise it, so the site itself is not called slow."
        )
    if site.verdict == "slow" and site.limit in LIMIT_NAMES:
        text += f"; {LIMIT_NAMES[site.limit]} limits {site.limited} of them"
    return f"{text}."


def _rtts(here: float, elsewhere: float) -> str:
    if not np.isfinite(here + elsewhere):
        return ""
    return f" at an RTT of {_ms(here)} in the median, {_ms(elsewhere)} at the others"


def _ms(rtt: float) -> str:
    return f"{short(rtt, 2)} ms"


def interval_note(assumed: bool) -> str:
    """Return the words that follow an interval whose noise is not the cell's own."""
    return f"; {ASSUMED}" if assumed else ""


def link_name(link: LinkEffect) -> str:
    return link_text(link.source, link.destination)


def confounded(link: LinkEffect, found: MeshEffects) -> list[str]:
    """Return the sites of a link that one link cannot tell from its path."""
    alone = {(site.role, site.site) for site in found.sites if site.verdict == "one link"}
    ends = (("sends", link.source), ("receives", link.destination))
    return [site for role, site in ends if (role, site) in alone]


def is_path_slow(link: LinkEffect, found: MeshEffects) -> bool:
    """Return whether a slow link points to its path: both sites have other links, and no host limits this one."""
    return link.verdict == "slow" and link.limit not in _OF_HOSTS and not confounded(link, found)


def _link(link: LinkEffect, found: MeshEffects) -> str:
    rate = f"{short(link.throughput)} Gbit/s"
    times = (
        f"{short(link.ratio, 2)} times what both sites reach on their other links "
        f"({between(link.ratio_low, link.ratio_high)}{interval_note(link.assumed)})"
    )
    name = link_name(link)
    if link.verdict == "window":
        rtt = f" at an RTT of {_ms(link.rtt)}" if np.isfinite(link.rtt) else ""
        streams = f" with {counted(int(link.streams), 'stream')}" if np.isfinite(link.streams) else ""
        return (
            f"{name} has {rate}, {times}: {LIMIT_NAMES['window']} limits it{rtt}{streams}. More streams or larger "
            "buffers may raise it, so the path is not called slow."
        )
    is_limited = link.verdict == "slow" and link.limit in LIMIT_NAMES
    limit = f"; limit: {LIMIT_NAMES[link.limit]}" if is_limited else ""
    look = f" {LOOK}" if is_path_slow(link, found) else ""
    return f"{name} {which_is(link.verdict, confounded(link, found))}: {rate}, {times}{limit}.{look}"


def which_is(verdict: str, sites: list[str]) -> str:
    """Return the verdict on a slow or fast link; one link cannot tell `sites` from its path."""
    return f"is {verdict}, {' or '.join(sites)} or the path" if sites else f"alone is {verdict}"


FULL = "Its cell was measured on a full machine: measure it again first."
ON_THE_PATH = "both sites reach more on their other links, which points to the path between them"
LOOK = f"{capital(ON_THE_PATH)}, such as its route, a shaper or a firewall."
CRITERION = (
    f"Slow: {short(SLOW)} times the others or less; fast: {short(FAST)} times or more; both beyond chance."
)
"""The rule by which a site or link is named."""


def _nothing(found: MeshEffects) -> str:
    return (
        f"No site and no link is slow or fast: {counted(_compared(found), 'link')} of "
        f"{counted(len(found.mesh.sites), 'site')} were compared."
    )


def _method(found: MeshEffects) -> Iterator[str]:
    if not _compared(found):
        return
    scatter = short(100 * found.scatter, 2)
    text = f"Links scatter by about {scatter} % around what their sites explain, noise included"
    if np.isfinite(found.rtt_from):
        farthest = float(np.nanmax(found.mesh.rtt[found.mesh.known]))
        fall = short((farthest / found.rtt_from) ** -found.rtt_power, 2)
        text += f", after the fall of the throughput with RTTs above {_ms(found.rtt_from)}"
        text += f", to {fall} times at {_ms(farthest)}"
    yield (
        f"{text}. Each link counts with the best of its measured settings; cells with a warning count, invalid ones do "
        f"not. {CRITERION}"
    )


def _unknown(found: MeshEffects, reasons: Sequence[str]) -> Iterator[str]:
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
    if waited := [link for link in found.links if link.verdict == "waited"]:
        names = _list([_with_rate(link) for link in waited])
        yield f"Links that {WAITED_LABEL}, so that pauses made their rate, are not compared: {names}."
        yield from _slowest(found, min(link.throughput for link in waited))
    missing = sum(link.verdict == "not measured" for link in found.links)
    if missing:
        count = f"{counted(missing, 'link')} without a usable measurement"
        yield "\n".join([f"{count}:", *reasons]) if reasons else f"{count}: {lost(found)}."


def _slowest(found: MeshEffects, waited: float) -> Iterator[str]:
    """Name the slowest link that counts, where a link that `waited` has a lower number."""
    compared = [link for link in found.links if np.isfinite(link.ratio)]
    slowest = min(compared, key=lambda link: link.throughput, default=None)
    if slowest and slowest.throughput > waited:
        yield f"The slowest link that is compared: {_with_rate(slowest)}."


def _with_rate(link: LinkEffect) -> str:
    return f"{link_name(link)} ({short(link.throughput)} Gbit/s)"


def lost(found: MeshEffects) -> str:
    """Return the names of the sites that explain links without a usable measurement, and of other links."""
    links = [
        LostLink(link_name(link), frozenset([link.source, link.destination]), "", 1)
        for link in found.links
        if link.verdict == "not measured"
    ]
    groups = [name for name, _ in by_site(links)]
    return _list(groups, _MOST_LOST)


def _list(names: list[str], most: int = MOST_NAMED) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _shortened(texts: list[str], noun: str) -> list[str]:
    more = len(texts) - MOST_NAMED
    return [
        *texts[:MOST_NAMED],
        *([f"{counted(more, f'further {noun}')}: see the matrix."] if more > 0 else []),
    ]
