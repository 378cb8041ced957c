# SPDX-License-Identifier: Apache-2.0
"""The follow-up with real latencies (CHEP 2024): figures 2 to 8, and what its claims compare across them."""

from __future__ import annotations

from functools import partial

from tpcsweep.published.base import PublishedFigure
from tpcsweep.published.layout import against_streams

_SAME = (
    "Simulated, figures 2 and 3 are the same picture: one instance uses 16 cores at most (instance_cores, an input), "
    "so that 32 do no more."
)


_FIGURES = (
    (
        2,
        "throughput against streams by RTT, 1 origin, 16 cores",
        ("one_origin", "small_rtt_peak", "rtts_distinct"),
    ),
    (
        3,
        "throughput against streams by RTT, 1 origin, 32 cores",
        ("one_origin", "small_rtt_peak", "rtts_distinct"),
    ),
    (
        4,
        "2 origins, 32 cores a server, limit 100 Gbit/s",
        ("two_origins", "saturated_flat", "small_rtt_peak"),
    ),
    (5, "4 origins, 64 cores a server, limits 100 and 200 Gbit/s", ("four_origins", "saturated_flat")),
    (6, "128 cores a server, limit 200 Gbit/s", ("saturated_flat",)),
    (7, "128 cores a server, limit 400 Gbit/s (beside 200)", ("near_limit", "saturated_flat")),
    (8, "the most that one server does at 0 ms", ("server_cap",)),
)  # the number of each, its title, and its claims

FIGURES = (
    *(
        PublishedFigure(
            f"chep2024_fig{number}",
            f"CHEP 2024, figure {number}: {title}",
            tuple(f"chep2024.{claim}" for claim in claims),
            against_streams,
            when_simulated=_SAME if number in (2, 3) else "",
        )
        for number, title, claims in _FIGURES
    ),
    PublishedFigure(
        "chep2024_across",
        "CHEP 2024, across figures: cores × origins on a path of 400 Gbit/s",
        (
            "chep2024.small_rtt_peak",
            "chep2024.instance_cores",
            "chep2024.origins_help",
            "chep2024.short_rtt_cores",
        ),
        partial(against_streams, across=4),
    ),
    PublishedFigure(
        "chep2024_buffers",
        "CHEP 2024, figure 5 with either reading of its buffers: 4 origins, 64 cores a server, limit 100 Gbit/s",
        ("chep2024.four_origins",),
        against_streams,
    ),
)
