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
from tpcsweep.models.base import Model, Parameter, Predictor
from tpcsweep.models.baseline import GaussianProcess, fit_process
from tpcsweep.models.choice import Choice, choose
from tpcsweep.models.fit import Fit, fit
from tpcsweep.models.observations import Observations, observe

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

MODELS: Mapping[str, Model] = MappingProxyType(
    {
        one.name: one
        for one in (
            combined.MODEL,
            window.MODEL,
            mathis.MODEL,
            pftk.MODEL,
            hacker.MODEL,
            lu.MODEL,
            yildirim.MODEL,
            yildirim_newton.MODEL,
            usl.MODEL,
            rao_sigmoid.MODEL,
            rao_ramp.MODEL,
            ranges.MODEL,
            constant.MODEL,
        )
    }
)
"""In the order in which tables show them."""
