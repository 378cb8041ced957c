# SPDX-License-Identifier: Apache-2.0
"""How far a cell's figure can be trusted beside its interval: XRootD's own monitoring, how streams shared, and whether
the machine was as at other times; docs/measuring.md. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tpcsweep.measure.transfers import Columns
from tpcsweep.xrootd.monitoring import LATE

MONITORED = 0.01
"""XRootD's sum of bytes and that of the files may differ by this share: both count payload, so that they are equal
unless a record is lost."""
TAKEN = 0.1
"""Share of the machine's CPU time, by others or the hypervisor, from which on a cell is disturbed."""
SLOWED = 0.5
"""Share by which a piece of work takes longer than when the machine was fastest, from which on it is."""


def fairness(rates: Sequence[float] | NDArray[np.float64]) -> float:
    """Jain's index of what each stream got, in any unit: (Σx)² / (n Σx²); NaN where nobody got anything."""
    shares = np.asarray(rates, dtype=float)
    largest = shares.max(initial=0.0)
    if largest <= 0:
        return math.nan
    shares = shares / largest  # squares of bytes in an hour would lose digits
    return float(shares.sum() ** 2 / (shares.size * (shares**2).sum()))


def stream_bytes(
    ended: Columns, unfinished: Columns, streams: int, begin: float, end: float
) -> NDArray[np.float64]:
    """Bytes that each stream brought to the destination between two moments, (streams,).

    A transfer's bytes count as spread evenly from its first byte to its end, which matters only for those that begin
    or end the span; where nobody saw the first byte, from its `start`, or from `begin` on.

    Args:
        ended: transfers with `stream`, `start`, `first_byte`, `end` (s) and `size` (bytes).
        unfinished: the same without `start`.
        streams: how many there are.
        begin: of the span, s.
        end: of the span, s.
    """
    brought = np.zeros(streams)
    for rows in (ended, unfinished):
        first, last = rows["first_byte"], rows["end"]
        first = np.where(np.isnan(first), rows.get("start", np.full(first.shape, begin)), first)
        inside = np.minimum(last, end) - np.maximum(first, begin)
        share = np.clip(inside / np.maximum(last - first, 1e-9), 0.0, 1.0)
        np.add.at(brought, rows["stream"].astype(int), rows["size"] * share)
    return brought


def monitored_share(ended: Columns, heard: float) -> float:
    """Bytes of the transfers that ended well by XRootD's monitoring, over the bytes counted in their files.

    Transfers whose record may have been still to come count on neither side, one that should have come as nothing.
    NaN where none came at all: of tools that are no third-party copies by HTTP.

    Args:
        ended: transfers with `ok`, `end`, `size` and `xrootd_size`.
        heard: s since the cell's start until which records were heard.
    """
    told = np.isfinite(ended["xrootd_size"])
    counts = (ended["ok"] > 0) & (told | (ended["end"] <= heard - LATE))
    size = ended["size"][counts].sum()
    if not size or not told[counts].any():
        return math.nan
    return float(np.nansum(ended["xrootd_size"][counts]) / size)


def disagrees(share: float | None) -> bool:
    """Whether a `monitored_share` is another than it should be; not where there is none."""
    return share is not None and abs(share - 1) > MONITORED


def disturbed(others: float | None, steal: float | None, slowed: float | None) -> bool:
    """Whether a machine was not the deployment's own, by `machine_others`, `machine_steal` and `machine_slowed`.

    What is not known does not speak against it.
    """
    return (others or 0.0) + (steal or 0.0) >= TAKEN or (slowed or 0.0) >= SLOWED
