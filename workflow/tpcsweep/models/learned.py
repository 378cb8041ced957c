# SPDX-License-Identifier: Apache-2.0
"""What predicts by the cells that it has seen rather than by a formula alone. A new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tpcsweep.models import baseline, hybrid, table
from tpcsweep.models.observations import Observations
from tpcsweep.models.places import Predictor


class Learner(Protocol):
    """Gives a fitted predictor; raises ValueError where the observations are not enough."""

    def __call__(self, observations: Observations, *, seed: int = 0) -> Predictor: ...


LEARNED: Mapping[str, Learner] = {
    hybrid.NAME: hybrid.fit_hybrid,
    baseline.NAME: baseline.fit_process,
    table.NAME: table.fit_table,
}
"""By name; of those that predict equally well the first is preferred."""
