# SPDX-License-Identifier: Apache-2.0
"""CPU quotas: how much CPU time a group has in each scheduling period. Pure.

Source: Linux kernel, Documentation/scheduler/sched-bwc.rst: a quota is at least 1 ms, a period 1 ms to 1 s. What a
period leaves of a quota is lost, and who has used his up waits for the next one: the longer the period, the longer the
wait. CPUs take quotas in slices of 5 ms (sched_cfs_bandwidth_slice_us), so that one may have all of a small one.
"""

from __future__ import annotations

from typing import NamedTuple

PERIOD = 100_000
"""The usual period, in µs: the kernel's default, and what Kubernetes has."""
SHORTEST_QUOTA = 1_000
LONGEST_PERIOD = 1_000_000
ENOUGH = 10_000
"""What a quota should be, in µs: of a smaller one many streams get less than few, the more so the smaller it is."""

FEWEST_CORES = SHORTEST_QUOTA / LONGEST_PERIOD
"""The fewest cores that a quota can be."""


class Quota(NamedTuple):
    """CPU time in each period, both in µs."""

    time: int
    period: int

    @property
    def cores(self) -> float:
        """The CPU cores that it is."""
        return self.time / self.period


def quota(cores: float) -> Quota:
    """Choose the quota of so many cores. It is counted in whole µs, and so within 0.05 % of them.

    Its period is the usual one wherever that leaves a quota of ENOUGH, from a tenth of a core on. Below that it is as
    long as makes it that, and at most what the kernel takes. Source: `python -m benchmarks.quotas`.

    Raises:
        ValueError: for less than FEWEST_CORES.
    """
    if round(cores * LONGEST_PERIOD) < SHORTEST_QUOTA:
        raise ValueError(f"{cores:g} cores are no quota: the kernel has none of less than {FEWEST_CORES:g}")
    period = min(max(PERIOD, round(ENOUGH / cores)), LONGEST_PERIOD)
    return Quota(round(cores * period), period)
