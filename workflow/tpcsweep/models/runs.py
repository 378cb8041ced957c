# SPDX-License-Identifier: Apache-2.0
"""What differs from run to run of the same measurements: a random effect, of which the next run has another."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.models.base import Floats
from tpcsweep.models.observations import Observations


def new_run(off: Floats, observations: Observations) -> float:
    """By how much residuals scatter more in a run that was not seen than in those that were fitted together.

    Of residuals about what R runs have in common, the variance σ² between runs counts (1 - 1/R) times, and of those of
    a new run about the same (1 + 1/R) times. It is estimated point by point from the medians of each run there, less
    what these have of the scatter inside of runs (one-way analysis of variance).

    Args:
        off: residuals, a row for each observation, on whatever scale.
        observations: with the run of each.

    Returns:
        A factor, 1 where there is one run, or nothing differs between them.

    Source:
        S. R. Searle, G. Casella, C. E. McCulloch, Variance components, 1992, chapter 3
    """
    runs, total = observations.runs, float(np.var(off))
    if runs is None or total <= 0:
        return 1.0
    groups = pd.DataFrame({"point": observations.frame["point"], "run": runs, "off": off}).groupby(
        ["point", "run"]
    )
    cells = groups["off"].agg(["median", "var", "size"])
    points = cells.groupby("point")
    cells = cells[points["median"].transform("size") > 1]
    points = cells.groupby("point")
    freedom = len(cells) - points.ngroups
    means = float(((cells["median"] - points["median"].transform("mean")) ** 2).sum()) / freedom
    inside = cells[cells["size"] > 1]
    within = float(np.average(inside["var"], weights=inside["size"] - 1)) if len(inside) else 0.0
    between = max(means - within * float((1 / cells["size"]).mean()), 0.0)
    return math.sqrt(1 + 2 * between / total * float((1 / points.size()).mean()))
