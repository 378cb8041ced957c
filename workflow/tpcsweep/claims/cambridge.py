# SPDX-License-Identifier: Apache-2.0
"""The claim of the concurrent davix flows: each client on a core of its own, 1 to 10 flows."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import KNOWN_PATH, Claim, Effect, Finding, needs
from tpcsweep.claims.cells import CPU_BOUND, Cells
from tpcsweep.claims.effects import FEWEST_PAIRS, Region, mean_exponent
from tpcsweep.claims.predicates import has_room, pair_rows, said, spans

MOST_FLOWS = 10
_SINGLE = "it is about single transfers, and claims are judged on cells"
_LOOK = "see `{}` in the group transfer_times of a dataset (docs/dataset.md)"
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


_PAPER = "concurrent davix flows"

CLAIMS = (
    Claim(
        "cambridge.scales",
        "rates scale with the flows: 8 Gbit/s with 1, 25 with 5, 53 with 10",
        "the mean exponent of streams, between numbers up to 10 that are four-fold or more apart, where neither end "
        f"fills the path or uses 90 % of the servers' cores: {SCALES}",
        needs(KNOWN_PATH, streams=("[1, 2, 5, 10]", (1, MOST_FLOWS, 2), (4, MOST_FLOWS))),
        _scales,
        source=f"{_PAPER}, figures, and table of ten flows",
    ),
    Claim(
        "cambridge.two_sources",
        "ten flows from two sources have 54.39 Gbit/s, where ten from one have 53.24",
        "nothing that a dataset holds",
        beyond="a sweep has as many origins at the source as at the destination",
        advice="none: unequal sides are not measured here",
        rows=(
            {"sources": 1, "flows": 10, "sum_gbit_s": 53.24},
            {"sources": 2, "flows": 10, "sum_gbit_s": 54.39},
        ),
        source=f"{_PAPER}, second table of ten flows",
    ),
    Claim(
        "cambridge.slow_starts",
        "two of ten flows took 10.27 s to start, and the others 0.87 to 0.88 s",
        "nothing that a cell's mean shows",
        beyond=_SINGLE,
        advice=_LOOK.format("startup"),
        rows=({"startup_s": 0.88, "flows": 8}, {"startup_s": 10.27, "flows": 2}),
        source=f"{_PAPER}, table of ten flows",
    ),
    Claim(
        "cambridge.straggler",
        "of ten flows from two sources one had 1.60 Gbit/s (501.22 s), and the others 5.66 to 6.14",
        "nothing that a cell's mean shows",
        beyond=_SINGLE,
        advice=_LOOK.format("rate"),
        rows=({"gbit_s": 1.60, "sending_s": 501.22, "flows": 1}, {"gbit_s": "5.66 to 6.14", "flows": 9}),
        source=f"{_PAPER}, second table of ten flows",
    ),
    Claim(
        "cambridge.retransmits",
        "of 100 GB, flows sent 0, 7 or 14 segments again",
        "nothing that has an interval",
        beyond="a cell counts the segments that its servers sent again (`retransmits`), of all its flows together and "
        "without an interval",
        advice="measure repetitions on a path like theirs, and see `retransmits` of the dataset (docs/dataset.md)",
        rows=tuple({"segments_again": count, "flows": flows} for count, flows in ((0, 5), (7, 4), (14, 1))),
        source=f"{_PAPER}, table of ten flows",
    ),
)
