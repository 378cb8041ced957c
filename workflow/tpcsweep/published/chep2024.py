"""The follow-up with real latencies (CHEP 2024): figures 2 to 8, and what its claims compare across them."""

from __future__ import annotations

from functools import partial

from tpcsweep.published.base import PublishedFigure
from tpcsweep.published.layout import against_streams

_SAME = (
    "Simulated, figures 2 and 3 are the same picture: one instance uses 16 cores at most (instance_cores, an input), "
    "so that 32 do no more."
)


FIGURES = (
    PublishedFigure(
        "chep2024_fig2",
        "CHEP 2024, figure 2: throughput against streams by RTT, 1 origin, 16 cores",
        ("chep2024.one_origin", "chep2024.small_rtt_peak"),
        against_streams,
        when_simulated=_SAME,
    ),
    PublishedFigure(
        "chep2024_fig3",
        "CHEP 2024, figure 3: throughput against streams by RTT, 1 origin, 32 cores",
        ("chep2024.one_origin", "chep2024.small_rtt_peak"),
        against_streams,
        when_simulated=_SAME,
    ),
    PublishedFigure(
        "chep2024_fig4",
        "CHEP 2024, figure 4: 2 origins, 32 cores a server, limit 100 Gbit/s",
        ("chep2024.two_origins", "chep2024.saturated_flat"),
        against_streams,
    ),
    PublishedFigure(
        "chep2024_fig5",
        "CHEP 2024, figure 5: 4 origins, 64 cores a server, limits 100 and 200 Gbit/s",
        ("chep2024.four_origins", "chep2024.saturated_flat"),
        against_streams,
    ),
    PublishedFigure(
        "chep2024_fig6",
        "CHEP 2024, figure 6: 128 cores a server, limit 200 Gbit/s",
        ("chep2024.saturated_flat",),
        against_streams,
    ),
    PublishedFigure(
        "chep2024_fig7",
        "CHEP 2024, figure 7: 128 cores a server, limit 400 Gbit/s (beside 200)",
        ("chep2024.near_limit", "chep2024.saturated_flat"),
        against_streams,
    ),
    PublishedFigure(
        "chep2024_fig8",
        "CHEP 2024, figure 8: the most that one server does at 0 ms",
        ("chep2024.server_cap",),
        against_streams,
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
)
