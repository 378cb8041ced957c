"""Models of throughput, by name. A new model is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tpcsweep.models import (
    combined,
    constant,
    hacker,
    lu,
    mathis,
    pftk,
    ranges,
    rao_ramp,
    rao_sigmoid,
    usl,
    window,
    yildirim,
    yildirim_newton,
)
from tpcsweep.models.base import Model, Parameter
from tpcsweep.models.baseline import GaussianProcess, fit_process
from tpcsweep.models.choice import Choice, choose
from tpcsweep.models.fit import Fit, fit
from tpcsweep.models.observations import Observations, observe
from tpcsweep.models.places import Predictor

__all__ = [
    "MODELS",
    "Choice",
    "Fit",
    "GaussianProcess",
    "Model",
    "Observations",
    "Parameter",
    "Predictor",
    "choose",
    "fit",
    "fit_process",
    "observe",
]

_FILES = (
    *(combined, window, mathis, pftk, hacker, lu, yildirim, yildirim_newton, usl),
    *(rao_sigmoid, rao_ramp, ranges, constant),
)

MODELS: Mapping[str, Model] = MappingProxyType({file.MODEL.name: file.MODEL for file in _FILES})
"""In the order in which tables show them."""
