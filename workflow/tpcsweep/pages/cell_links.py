# SPDX-License-Identifier: Apache-2.0
"""Links to single cells of a page: the part of its address after # that opens one; pure functions."""

from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.sweeps.parameters import LINK, link_text, name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION


class CellLink(NamedTuple):
    words: str
    address: str
    """Its setting: values of the axes, separated by commas."""
    repetition: str
    """"" of a dataset with a single one."""

    @property
    def href(self) -> str:
        repetition = f"&repetition={quote(self.repetition)}" if self.repetition else ""
        return f"#cell={quote(self.address, safe=',')}{repetition}"


def cell_links(summary: xr.Dataset, which: NDArray[np.bool_]) -> list[CellLink]:
    """Return a link to each of some cells, in the order of the grid; `which` has the dimensions of `throughput`."""
    sizes = summary["throughput"].sizes
    several = [str(name) for name, size in sizes.items() if size > 1 and name != REPETITION]
    return [
        _cell_link(summary, dict(zip(map(str, sizes), place, strict=True)), several)
        for place in zip(*np.nonzero(which), strict=True)
    ]


def _cell_link(summary: xr.Dataset, place: dict[str, int], several: list[str]) -> CellLink:
    texts = {name: value_text(name, summary[name].values[place[name]]) for name in (*several, REPETITION)}
    repeated = summary.sizes[REPETITION] > 1
    link = set(LINK) <= texts.keys()
    words = [link_text(*(texts[name] for name in LINK))] if link else []
    named = [*several, *([REPETITION] if repeated else [])]
    words += [f"{name_text(name)} {texts[name]}" for name in named if not (link and name in LINK)]
    address = ",".join(texts[name] for name in several)
    return CellLink(", ".join(words), address, texts[REPETITION] if repeated else "")
