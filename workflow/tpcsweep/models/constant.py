# SPDX-License-Identifier: Apache-2.0
"""No axis matters: what every other model has to beat."""

import numpy as np

from tpcsweep.models.base import Floats, Model, Parameter, Points


def _constant(_points: Points, rate: float) -> Floats:
    return np.asarray(rate)


MODEL = Model(
    name="constant",
    title="Constant",
    formula="r",
    source="the null model; no paper",
    axes=(),
    parameters=(Parameter("rate", "Gbit/s", "throughput of every cell", 1e-4, 1e4, 1.0, "log"),),
    function=_constant,
)
