"""Published claims as predicates on a dataset: each holds, does not hold, is not decided, or not testable.

`docs/claims.md` says how each is read. A claim is one in `CLAIMS` of the file of its publication, and one line in
`configuration/claim_names.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import get_args

import xarray as xr

from tpcsweep.claims.base import Claim, Outcome, Verdict, judge_claim
from tpcsweep.claims.cells import cells_of
from tpcsweep.configuration.claim_names import ClaimName

__all__ = ["CLAIMS", "Claim", "Outcome", "Verdict", "judge"]

_PUBLICATIONS = dict.fromkeys(name.split(".")[0] for name in get_args(ClaimName))

CLAIMS: Mapping[str, Claim] = {
    claim.name: claim
    for publication in _PUBLICATIONS
    for claim in import_module(f"{__name__}.{publication}").CLAIMS
}
"""Every claim by its identifier."""


def judge(ds: xr.Dataset) -> list[Verdict]:
    """Give the verdict on every claim, in the order of `CLAIMS`, on a dataset as `docs/dataset.md` describes it.

    Raises:
        KeyError: for a dataset without throughput, status or flags.
    """
    cells = cells_of(ds)
    return [judge_claim(claim, ds, cells) for claim in CLAIMS.values()]
