# SPDX-License-Identifier: Apache-2.0
"""All figures of publications: a figure is one in `FIGURES` of the file of its publication, and one line here.

A figure is loaded when it is asked for: every job reads the rules, which need the names, and few jobs draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from tpcsweep.configuration.loading import Imported, Study

if TYPE_CHECKING:
    from tpcsweep.published.base import PublishedFigure

_NAMES = (
    "chep2023_fig3",
    "chep2023_fig4",
    "chep2024_fig2",
    "chep2024_fig3",
    "chep2024_fig4",
    "chep2024_fig5",
    "chep2024_fig6",
    "chep2024_fig7",
    "chep2024_fig8",
    "chep2024_across",
    "chep2024_buffers",
    "nrp2021",
    "usatlas2007",
    "cambridge",
)


class _Figures(Mapping[str, "PublishedFigure"]):
    def __getitem__(self, name: str) -> PublishedFigure:
        if name not in _NAMES:
            raise KeyError(name)
        publication = import_module(f"{__package__}.{name.split('_')[0]}")
        figures: dict[str, PublishedFigure] = {figure.name: figure for figure in publication.FIGURES}
        return figures[name]

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


FIGURES: Mapping[str, PublishedFigure] = _Figures()
"""Every figure by its name. The names load nothing."""


def figure_of(study: Study) -> str:
    """Return the name of the published figure that is made of a study; empty if there is none.

    It is the figure of the study's sweep, scaled or not, or of data from elsewhere.
    """
    if isinstance(study, Imported):
        return next((name for name, figure in FIGURES.items() if figure.source == study.name), "")
    name = study.name.partition("_scaled_")[0]
    return name if name in FIGURES else ""


_NOTHING = "nothing that claims are judged on (docs/claims.md says why)"

ELSEWHERE: Mapping[str, str] = {
    "chep2023.redirector_free": "in no figure; snakemake --config sweep=redirector",
    "chep2023.gfal_vs_curl": "in no figure; snakemake --config sweep=tools",
    "chep2023.tc_residue": _NOTHING,
    "chep2023.terabit": "in no figure: hosts and path of it are not known",
    "chep2024.tc_trend": _NOTHING,
    "chep2024.short_rtt_contradiction": _NOTHING,
    "usatlas2007.one_rate": _NOTHING,
    "cambridge.two_sources": _NOTHING,
    "cambridge.slow_starts": _NOTHING,
    "cambridge.straggler": _NOTHING,
    "cambridge.retransmits": _NOTHING,
    "terena2005.climb": _NOTHING,
    "terena2005.records": _NOTHING,
    "terena2005.variants": "not tried: loss, MTU, queue and duration were not published (docs/tcp-dynamics.md)",
    "terena2005.disk": "not tried: it was a property of those servers' disks (docs/tcp-dynamics.md)",
}
"""Claims that no figure carries, with where they are judged, or why they are not. Those of terena2005 that are judged
are in the table of its study."""
