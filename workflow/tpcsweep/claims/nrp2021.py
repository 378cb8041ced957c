# SPDX-License-Identifier: Apache-2.0
"""The claim of the 100 Gbit/s WAN study between sites of the National Research Platform (2021)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import Claim, Effect, Finding, needs
from tpcsweep.claims.cells import Cells
from tpcsweep.claims.effects import FEWEST_PAIRS, Region, mean_ratio
from tpcsweep.claims.predicates import said

GRIDFTP = frozenset({"gridftp", "globus-url-copy"})
XROOTD = frozenset({"xrootd-http-tpc", "xrootd", "gfal-copy", "gfal2", "curl", "native"})
"""Tools that make XRootD copies over HTTP."""

SLIGHTLY = Region(1.0, 1.25)
"""Ratios that are slightly better: the publication says no number."""
SAME_LINK = 1.1
"""RTTs within this factor are one link: measured RTTs of a path are never twice the same."""


def _xrootd_vs_gridftp(cells: Cells) -> Finding:
    links = _links(cells)
    # Both tools together say which links are fast: neither is favoured.
    fast = links[links["together"] >= links["together"].median()]
    interval = mean_ratio(fast["ratio"], fast["error"])
    rows = tuple(fast.sort_values("ratio").drop(columns=["together", "error"]).to_dict("records"))
    if interval is None:
        reason = (
            f"{len(fast)} links of high throughput have both tools with the same streams and at least two trustworthy "
            f"cells each; {FEWEST_PAIRS} are needed"
        )
        return Finding(None, reason, rows=rows, advice="sweep more RTTs with both tools, and repetitions: 3")
    beyond = ": better, and by more than slightly" if interval.low > SLIGHTLY.high else ""
    reason = (
        f"{len(fast)} of {len(links)} links (RTTs within 10 %, same streams), the faster half of them, "
        f"{fast['rtt'].min():.3g} to {fast['rtt'].max():.3g} ms: {said(interval, SLIGHTLY)}{beyond}"
    )
    effect = Effect("throughput of XRootD HTTP-TPC over that of GridFTP on fast links", interval)
    return Finding(SLIGHTLY.decide(interval), reason, effect, rows)


def _links(cells: Cells) -> pd.DataFrame:
    """Give a row for each link and number of streams that has both tools: their mean throughputs and the ratio."""
    rows = cells.trusted[cells.trusted["throughput"] > 0]
    rtt = np.log(rows["rtt"].astype(float).clip(lower=0.01)) / math.log(SAME_LINK)
    rows = rows.assign(
        link=np.rint(rtt),
        kind=rows["tool"].map(lambda tool: "x" if tool in XROOTD else "g" if tool in GRIDFTP else ""),
    )
    links: list[dict[str, Any]] = []
    for (_, streams), part in rows.groupby(["link", "streams"]):
        ours, theirs = (part[part["kind"] == kind]["throughput"] for kind in ("x", "g"))
        if min(len(ours), len(theirs)) < 2:
            continue
        links.append(
            {
                "rtt": part["rtt"].mean(),
                "streams": streams,
                "xrootd_cells": len(ours),
                "gridftp_cells": len(theirs),
                "xrootd_gbit_s": ours.mean(),
                "gridftp_gbit_s": theirs.mean(),
                "ratio": ours.mean() / theirs.mean(),
                "error": math.hypot(
                    *(cells.std() / cells.mean() / math.sqrt(len(cells)) for cells in (ours, theirs))
                ),
                "together": math.sqrt(ours.mean() * theirs.mean()),
            }
        )
    columns = ["rtt", "streams", "xrootd_gbit_s", "gridftp_gbit_s", "ratio", "error", "together"]
    return pd.DataFrame(links) if links else pd.DataFrame(columns=columns)


_PAPER = "Systematic benchmarking of HTTPS third party copy on 100Gbps links using XRootD"

CLAIMS = (
    Claim(
        "nrp2021.xrootd_vs_gridftp",
        "over links with high throughput XRootD HTTP-TPC does slightly better than GridFTP on average",
        "mean ratio of XRootD to GridFTP over links (RTTs within 10 %) with the same streams, of the faster half of "
        f"them: {SLIGHTLY}",
        needs(
            tool=("[gfal-copy, globus-url-copy]", XROOTD, GRIDFTP),
            rtt=("[5 ms, 20 ms, 50 ms]", 3),
            streams=("8", 1),
        ),
        test=_xrootd_vs_gridftp,
        source=f"{_PAPER}, text",
    ),
)
