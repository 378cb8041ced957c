"""Models of throughput, by name. A new model is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tpcsweep.models import lu, window
from tpcsweep.models.base import Model, Parameter, Predictor
from tpcsweep.models.fit import Fit, fit
from tpcsweep.models.observations import Observations, observe

__all__ = ["MODELS", "Fit", "Model", "Observations", "Parameter", "Predictor", "fit", "observe"]

MODELS: Mapping[str, Model] = MappingProxyType({one.name: one for one in (window.MODEL, lu.MODEL)})
"""In the order in which tables show them."""
