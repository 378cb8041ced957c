# SPDX-License-Identifier: Apache-2.0
"""Models of throughput, by name. A new model is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from tpcsweep.configuration.sides import DATASET
from tpcsweep.files import is_made_of
from tpcsweep.linux import signals
from tpcsweep.models import combined, connection, constant, parallel, ranges, rao, saved
from tpcsweep.models.base import Model
from tpcsweep.models.baseline import fit_process
from tpcsweep.models.choice import Choice, choose
from tpcsweep.models.fit import Fit, fit
from tpcsweep.models.hybrid import fit_hybrid
from tpcsweep.models.observations import NothingMeasuredError, Observations, observe
from tpcsweep.models.places import Predictor
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
    "fit_hybrid",
    "fit_process",
    "fit_table",
    "observe",
]

_MODELS = (combined.MODEL, *connection.MODELS, *parallel.MODELS, *rao.MODELS, ranges.MODEL, constant.MODEL)

MODELS: Mapping[str, Model] = {model.name: model for model in _MODELS}
"""In the order in which tables show them."""


FILE = "models.json"
"""The fits beside a study's dataset."""


def current(dataset: Path) -> Path | None:
    """Return the file with the fits of a study's dataset; None if it is missing, older or of another format."""
    file = dataset.with_name(FILE)
    if dataset.name != DATASET or not is_made_of(file, dataset):
        return None
    try:
        saved.read(file, MODELS)
    except saved.SavedError:
        return None
    return file


def fit_all(summary: xr.Dataset, path: Path, processes: int = 1) -> None:
    """Fit every model to a dataset, choose between them, and write both to a file, which `saved.read` reads.

    So many `processes` fit models. If no cell was measured well, the file contains no fits, and the reason.
    """
    try:
        observations = observe(summary)
    except NothingMeasuredError as error:
        nothing = pd.DataFrame()
        saved.write(
            path, str(summary.attrs["title"]), {}, Choice(nothing, nothing, nothing, "", (str(error),))
        )
        return
    with (
        threadpool_limits(1),
        signals.workers(processes) as pool,
    ):  # otherwise each worker uses all cores
        fits = dict(
            zip(MODELS, pool.map(partial(fit, observations=observations), MODELS.values()), strict=True)
        )
        choice = choose(MODELS, observations, fits, pool=pool)
    saved.write(path, observations.label, fits, choice)
