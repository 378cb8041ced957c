# SPDX-License-Identifier: Apache-2.0
"""Slow links of a mesh that were measured at the same time, which has another cause than the links; pure functions.

An event of a minute, such as a full network or a busy client, slows the links that are measured then. Slow
links that are as close in time as chance hardly brings them are one event.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpcsweep.analysis.links.link_rates import TOGETHER
from tpcsweep.analysis.links.verdicts import LinkEffect, MeshEffects
from tpcsweep.common.numbers import CONFIDENCE, counted

FEWEST = 3  # slow links of an event: two are often close by chance
CAUSE = "An event of that time is the likely cause, not the links: measure them again."


@dataclass(frozen=True)
class SlowTime:
    """Slow links whose cells began within `TOGETHER`."""

    links: Sequence[LinkEffect]
    measured: int  # links that were compared and measured in that time, slow or not

    @property
    def words(self) -> str:
        """Say how many links were measured when, without a full stop."""
        starts = [link.started for link in self.links]
        ends = (np.datetime64(round(end), "s") for end in (min(starts), max(starts)))
        times = " and ".join(dict.fromkeys(str(end)[11:16] for end in ends))
        when = f"between {times}" if " and " in times else f"at {times}"
        rest = self.measured - len(self.links)
        others = f", as were {counted(rest, 'link')} that are not slow" if rest else ""
        return f"{len(self.links)} slow links were all measured {when} UTC{others}"


def slow_times(found: MeshEffects) -> list[SlowTime]:
    """Return the times with more slow links than chance brings, the first one first."""
    compared = [link for link in found.links if np.isfinite(link.ratio + link.started)]
    slow = sorted((link for link in compared if link.verdict == "slow"), key=lambda link: link.started)
    times = []
    while slow:
        group = [link for link in slow if link.started <= slow[0].started + TOGETHER]
        first, last = group[0].started, group[-1].started
        measured = sum(first <= link.started <= last for link in compared)
        if len(group) >= FEWEST and _chance(len(group), measured, len(compared)) < 1 - CONFIDENCE:
            times.append(SlowTime(group, measured))
            slow = slow[len(group) :]
        else:
            slow = slow[1:]
    return times


def _chance(slow: int, measured: int, compared: int) -> float:
    """Return an upper bound of the probability that some time with so many measured links has so many slow ones.

    Each of the compared links may be the first one of such a time (Bonferroni).
    """
    return compared * math.comb(measured, slow) / math.comb(compared, slow)
