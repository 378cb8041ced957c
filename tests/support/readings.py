# SPDX-License-Identifier: Apache-2.0
"""A reading of nothing, for tests that change a figure or two of it."""

import math

from tpcsweep.measure.readings import Reading

ZERO = Reading(0.0, 0, 0, 0, (0.0, 0.0), (0.0,), *[0] * 11, math.nan, math.nan, 0, *[math.nan] * 3, 0, 0)
