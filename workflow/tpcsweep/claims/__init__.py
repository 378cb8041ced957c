"""Published claims as predicates on a dataset: each holds, does not hold, is not decided, or not testable.

`docs/claims.md` says how each is read. A claim of another publication is one file and one line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import xarray as xr

from tpcsweep.claims import cambridge, chep2023, chep2024, nrp2021, terena2005, usatlas2007
from tpcsweep.claims.base import Claim, Outcome, Verdict, judge_claim
from tpcsweep.claims.cells import cells_of

__all__ = ["CLAIMS", "Claim", "Outcome", "Verdict", "judge"]

_PUBLICATIONS = (chep2023, chep2024, nrp2021, usatlas2007, cambridge, terena2005)

CLAIMS: Mapping[str, Claim] = MappingProxyType(
    {claim.name: claim for publication in _PUBLICATIONS for claim in publication.CLAIMS}
)
"""Every claim by its identifier."""


def judge(ds: xr.Dataset) -> list[Verdict]:
    """Give the verdict on every claim, in the order of `CLAIMS`, on a dataset as `docs/dataset.md` describes it.

    Raises:
        KeyError: for a dataset without throughput.
    """
    cells = cells_of(ds)
    return [judge_claim(claim, ds, cells) for claim in CLAIMS.values()]
