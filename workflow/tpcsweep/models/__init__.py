# SPDX-License-Identifier: Apache-2.0
"""Throughput models: formulas, a Gaussian process and a lookup table, fitted to cells and compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import xarray as xr
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from tpcsweep.linux import signals
from tpcsweep.models import saved
from tpcsweep.models.base import Model
from tpcsweep.models.choice import Choice, choose
from tpcsweep.models.fit import Fit, fit
from tpcsweep.models.formulas import MODELS
from tpcsweep.models.observations import NothingMeasuredError, Observations, observe
from tpcsweep.models.predictor import Predictor
from tpcsweep.models.process import fit_process
from tpcsweep.models.saved import current
from tpcsweep.models.table import fit_table

__all__ = [
    "MODELS",
    "Fit",
    "Model",
    "Observations",
    "Predictor",
    "choose",
    "current",
    "fit",
    "fit_all",
    "fit_process",
    "fit_table",
    "observe",
]


def fit_all(summary: xr.Dataset, path: Path, processes: int = 1) -> None:
    """Fit every model to a dataset, choose the best, and write fits and choice to `path` for `saved.read`.

    The fits run in `processes` worker processes. If no cell was measured well, the file contains no fits but the
    reason.
    """
    try:
        observations = observe(summary)
    except NothingMeasuredError as error:
        saved.save_fits(path, str(summary.attrs["title"]), {}, Choice.none(str(error)))
        return
    # Without a limit on threads each worker uses all cores.
    with threadpool_limits(1), signals.workers(processes) as pool:
        fitted = pool.map(partial(fit, observations=observations), MODELS.values())
        fits = dict(zip(MODELS, fitted, strict=True))
        choice = choose(MODELS, observations, fits, pool=pool)
    saved.save_fits(path, observations.label, fits, choice)
