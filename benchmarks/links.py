# SPDX-License-Identifier: Apache-2.0
"""How often slow and fast sites and paths of a mesh are found, and how often a statement about them is wrong.

python -m benchmarks.links [MESHES] [SITES …]

Prints one table: for each kind of mesh and number of sites

- the share of meshes with a false statement: a site or link is named slow with a true ratio to the others of 0.95 or
  more, or fast with the inverse or less;
- the shares of slow or fast sites and links that are named as such;
- the share of intervals of named sites and links that contain the true ratio.

Measurements have 3 % noise, which their intervals contain, and 2 % luck of the run, which they do not. Needs a few
minutes of one CPU; nothing is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tpcsweep.analysis.links.link_rates import mesh_of
from tpcsweep.analysis.links.verdicts import MeshEffects, mesh_effects

from tests.support import meshes

FIRST = 1000  # first seed; tests have smaller ones
FALSE = np.log(0.95)
SLOW_LINKS = {("S01", "S03"): 0.3, ("S04", "S02"): 0.5}
EVEN: Mapping[str, Any] = {"site_spread": 0.0, "pair_spread": 0.0}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "equal": EVEN,
    "natural scatter": {},
    "large scatter": {"site_spread": 0.3, "pair_spread": 0.2},
    "a slow receiver": {"receives": {"S02": 0.4}},
    "a slow sender and receiver": {"sends": {"S01": 0.6}, "receives": {"S02": 0.4}},
    "two slow links": {"links": SLOW_LINKS},
    "both": {"receives": {"S02": 0.4}, "links": SLOW_LINKS},
    "a fast receiver and a fast link": {"receives": {"S02": 2.5}, "links": {("S01", "S03"): 2.0}},
}


def true_ratio(effects: np.ndarray, site: int) -> float:
    """Return the logarithm of a site's true ratio to the middle half of the others."""
    others = np.sort(np.delete(effects, site))
    cut = len(others) // 4
    return float(effects[site] - others[cut : len(others) - cut].mean())


def named(found: MeshEffects, truth: meshes.Truth) -> Iterator[tuple[str, str, float, bool]]:
    """Yield each statement: its role or "link", its name, the logarithm of the true ratio, whether that is inside.

    For fast sites and links it is the logarithm of the inverse ratio.
    """
    sign = {"slow": 1.0, "fast": -1.0}
    sites = found.mesh.sites
    for site in found.sites:
        if site.verdict in sign:
            effects = truth.sources if site.role == "sends" else truth.destinations
            ratio = true_ratio(effects, sites.index(site.site))
            yield site.role, site.site, sign[site.verdict] * ratio, site.low <= np.exp(ratio) <= site.high
    for link in found.links:
        if link.verdict in sign:
            ratio = float(truth.pairs[sites.index(link.source), sites.index(link.destination)])
            name = f"{link.source} {link.destination}"
            yield "link", name, sign[link.verdict] * ratio, link.ratio_low <= np.exp(ratio) <= link.ratio_high


def row(kind: str, count: int, seeds: range) -> list[str]:
    sites, about = meshes.names(count), KINDS[kind]
    built = {("sends", site) for site in about.get("sends", {})}
    built |= {("receives", site) for site in about.get("receives", {})}
    links = {("link", " ".join(pair)) for pair in about.get("links", {})}
    false, hits, inside = 0, {"sites": 0, "links": 0}, []
    for seed in seeds:
        truth = meshes.truth(sites, seed, **about)
        statements = [*named(mesh_effects(mesh_of(meshes.measured(truth.logs, sites, seed))), truth)]
        false += any(ratio >= FALSE for *_, ratio, _ in statements)
        keys = {statement[:2] for statement in statements}
        hits["sites"] += len(keys & built)
        hits["links"] += len(keys & links)
        inside += [statement[3] for statement in statements]
    share = lambda part, whole: f"{100 * part / whole:.0f} %" if whole else "–"  # noqa: E731
    return [
        kind,
        str(count),
        str(len(seeds)),
        share(false, len(seeds)),
        share(hits["sites"], len(built) * len(seeds)),
        share(hits["links"], len(links) * len(seeds)),
        f"{share(sum(inside), len(inside))} of {len(inside)}",
    ]


def main() -> None:
    count, *sizes = [int(word) for word in sys.argv[1:]] or [200]
    print(
        "| mesh | sites | meshes | false statement | slow sites named | slow links named | intervals right |"
    )
    print("|---|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for size in sizes or [6, 12, 50]:
            meshes_of_size = max(20, count // 8) if size > 20 else count
            for kind in KINDS:
                cells = row(kind, size, range(FIRST, FIRST + meshes_of_size))
                print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
