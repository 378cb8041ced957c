# SPDX-License-Identifier: Apache-2.0
"""The identifiers of all published claims, `publication.claim`.

Apart from the claims themselves, as configuration is checked by jobs that judge nothing.
"""

from __future__ import annotations

from typing import Literal

ClaimName = Literal[
    "chep2023.saturate",
    "chep2023.little_fluctuation",
    "chep2023.streams_required",
    "chep2023.streams_peak",
    "chep2023.origins_help",
    "chep2023.rtt_fivefold",
    "chep2023.rtt_not_linear",
    "chep2023.rtt120_cap",
    "chep2023.streams_stop_helping",
    "chep2023.terabit",
    "chep2023.redirector_free",
    "chep2023.gfal_vs_curl",
    "chep2023.tc_residue",
    "chep2024.small_rtt_peak",
    "chep2024.one_origin",
    "chep2024.two_origins",
    "chep2024.four_origins",
    "chep2024.near_limit",
    "chep2024.server_cap",
    "chep2024.instance_cores",
    "chep2024.origins_help",
    "chep2024.saturated_flat",
    "chep2024.short_rtt_cores",
    "chep2024.rtts_distinct",
    "chep2024.tc_trend",
    "chep2024.short_rtt_contradiction",
    "nrp2021.xrootd_vs_gridftp",
    "usatlas2007.more_streams",
    "usatlas2007.tuned_buffers",
    "usatlas2007.disk_bound",
    "usatlas2007.disk_buffers",
    "usatlas2007.twelve_streams",
    "usatlas2007.tuned_stream",
    "usatlas2007.bottleneck_buffers",
    "usatlas2007.one_rate",
    "cambridge.scales",
    "cambridge.two_sources",
    "cambridge.slow_starts",
    "cambridge.straggler",
    "cambridge.retransmits",
    "terena2005.loss",
    "terena2005.recovery",
    "terena2005.mtu_fairness",
    "terena2005.variants",
    "terena2005.disk",
    "terena2005.climb",
    "terena2005.records",
]
