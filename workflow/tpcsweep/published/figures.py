"""All figures of publications."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tpcsweep.published import cambridge, chep2023, chep2024, nrp2021, usatlas2007
from tpcsweep.published.base import PublishedFigure

FIGURES: Mapping[str, PublishedFigure] = MappingProxyType(
    {
        figure.name: figure
        for publication in (chep2023, chep2024, nrp2021, usatlas2007, cambridge)
        for figure in publication.FIGURES
    }
)
"""Every figure by its name; `tpcsweep.published.NAMES` has the same ones."""

ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "chep2023.redirector_free": "in no figure; snakemake claims --config measure=true sweep=redirector",
        "chep2023.gfal_vs_curl": "in no figure; snakemake claims --config measure=true sweep=tools",
        "chep2023.tc_residue": "nothing that a dataset holds (docs/claims.md)",
        "terena2005.variants": "not tried: loss, MTU, queue and duration were not published (docs/tcp-dynamics.md)",
        "terena2005.disk": "not tried: it was a property of those servers' disks (docs/tcp-dynamics.md)",
    }
)
"""The claims that none of the figures carries, with where they are judged, or why they are not. Those of terena2005
that are judged at all are so in its own table: `tcp_dynamics.judged`."""
