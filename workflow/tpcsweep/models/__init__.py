# SPDX-License-Identifier: Apache-2.0
"""Models of throughput, by name. A new model is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from tpcsweep.models import combined, connection, constant, parallel, ranges, rao
from tpcsweep.models.base import Model
from tpcsweep.models.baseline import fit_process
from tpcsweep.models.choice import choose
from tpcsweep.models.fit import Fit, fit
from tpcsweep.models.hybrid import fit_hybrid
from tpcsweep.models.observations import Observations, observe
from tpcsweep.models.places import Predictor
from tpcsweep.models.table import fit_table

__all__ = [
    "MODELS",
    "Fit",
    "Model",
    "Observations",
    "Predictor",
    "choose",
    "fit",
    "fit_hybrid",
    "fit_process",
    "fit_table",
    "observe",
]

_MODELS = (combined.MODEL, *connection.MODELS, *parallel.MODELS, *rao.MODELS, ranges.MODEL, constant.MODEL)

MODELS: Mapping[str, Model] = {model.name: model for model in _MODELS}
"""In the order in which tables show them."""
