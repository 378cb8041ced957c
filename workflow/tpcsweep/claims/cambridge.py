# SPDX-License-Identifier: Apache-2.0
"""The claim of the concurrent davix flows: each client on a core of its own, 1 to 10 flows."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import KNOWN_PATH, Claim, Effect, Finding, needs
from tpcsweep.claims.cells import CPU_BOUND, Cells
from tpcsweep.claims.effects import FEWEST_PAIRS, Region, mean_exponent
from tpcsweep.claims.predicates import has_room, pair_rows, said, spans

MOST_FLOWS = 10
SCALES = Region(low=0.7)
"""Exponents of streams that scale: the published rates have 0.71 (1 to 5 flows) and 0.82 (1 to 10)."""


def _scales(cells: Cells) -> Finding:
    free, left = cells.pairs(cells.trusted.query(f"streams <= {MOST_FLOWS}"), "streams", speaks=_unbound)
    aside = (
        f"{left} left out in which an end fills the path or uses up the servers' CPU, or that differ less than "
        "four-fold"
    )
    exponent = mean_exponent(free["ratio"], free["error"], free["to"] / free["from"])
    if exponent is None:
        reason = (
            f"pairs that differ only in streams, four-fold or more up to {MOST_FLOWS}: {len(free)} ({aside}); "
            f"{FEWEST_PAIRS} are needed"
        )
        advice = "sweep streams: [1, 2, 5, 10], repetitions: 3, with a path and cores that ten do not use up"
        return Finding(None, reason, rows=pair_rows(free), advice=advice)
    reason = (
        f"{len(free)} pairs that differ only in streams ({aside}), {spans(free)}: "
        f"throughput goes as streams to the {said(exponent, SCALES)}"
    )
    effect = Effect("exponent of streams", exponent)
    return Finding(SCALES.decide(exponent), reason, effect, pair_rows(free))


def _unbound(pairs: pd.DataFrame) -> pd.Series:
    return has_room(pairs, "everywhere") & ~(pairs["cpu"] >= CPU_BOUND) & (pairs["to"] >= 4 * pairs["from"])


CLAIMS = (
    Claim(
        "cambridge.scales",
        "rates scale with the flows: 8 Gbit/s with 1, 25 with 5, 53 with 10",
        "the mean exponent of streams, between numbers up to 10 that are four-fold or more apart, where neither end "
        f"fills the path or uses 90 % of the servers' cores: {SCALES}",
        needs(KNOWN_PATH, streams=("[1, 2, 5, 10]", (1, MOST_FLOWS, 2), (4, MOST_FLOWS))),
        _scales,
    ),
)
