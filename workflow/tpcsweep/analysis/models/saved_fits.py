# SPDX-License-Identifier: Apache-2.0
"""Throughput models: formulas, a Gaussian process and a lookup table, fitted to cells and compared."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from tpcsweep.analysis.models.choice import Choice, choose
from tpcsweep.analysis.models.fit import Fit, fit
from tpcsweep.analysis.models.formula import Model
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.learned import LEARNED, Kernel, fit_process, fit_table
from tpcsweep.analysis.models.observations import NothingMeasuredError, Observations, observe
from tpcsweep.analysis.models.predictor import Predictor
from tpcsweep.common import signals
from tpcsweep.common.files import checksum, is_file, write_json
from tpcsweep.data.places import DATASET

__all__ = ["MODELS", "Fit", "Model", "Observations", "Predictor"]
__all__ += ["choose", "fit", "fit_process", "fit_table", "observe"]

FORMAT = 2

_MOST_FORMULAS = 4

FILE = "models.json"  # name of the file with fits next to a study's dataset


def fit_all(summary: xr.Dataset, path: Path, processes: int = 1, dataset: Path | None = None) -> None:
    """Fit every model to a dataset, choose the best, and write fits and choice to `path` for `read_fits`.

    The fits run in `processes` worker processes. If no cell was measured well, the file has the reason and no fits.
    `dataset` is the file that the summary was read from, as in `save_fits`.
    """
    try:
        observations = observe(summary)
    except NothingMeasuredError as error:
        save_fits(path, str(summary.attrs["title"]), {}, Choice(problems=(str(error),)), dataset)
        return
    # Without a limit on threads each worker uses all cores.
    with threadpool_limits(1), signals.workers(processes) as pool:
        learning = pool.submit(_learned, observations)
        fitted = pool.map(partial(fit, observations=observations), MODELS.values())
        fits, learned = dict(zip(MODELS, fitted, strict=True)), learning.result()
        kernels = {name: Kernel.from_dict(saved["kernel"]) for name, saved in learned.items()}
        choice = choose(MODELS, observations, fits, kernels=kernels, pool=pool)
    save_fits(path, observations.label, fits, choice, dataset, learned)


def _learned(observations: Observations) -> dict[str, dict[str, Any]]:
    """Return `Learned.to_dict` of each learner after all observations, without learners that these do not suffice."""
    learned = {}
    for name, learner in LEARNED.items():
        with contextlib.suppress(ValueError, np.linalg.LinAlgError):
            learned[name] = learner(observations).to_dict()
    return learned


class SavedError(ValueError):
    """The file has no fits of this format; the text names the file and the fix."""


@dataclass(frozen=True)
class Saved:
    """Content of a file of fits."""

    label: str  # description of the data, such as "sweep demo, measured on netns"
    fits: Mapping[str, Fit]
    choice: Mapping[str, Any]  # result of `Choice.to_dict`
    dataset: str = ""  # checksum of the file with the cells
    learned: Mapping[str, Any] = field(default_factory=dict)  # results of `Learned.to_dict`

    @property
    def chosen(self) -> bool:
        """Whether a model was chosen; otherwise the choice's `problems` contain the reason."""
        return self.choice["formula"] in self.fits

    @property
    def formula(self) -> Fit:
        """Fit to all cells of the formula that predicted left-out cells best. Raises SavedError without one."""
        name = self.choice["formula"]
        if name not in self.fits or not self.fits[name].ok:
            raise SavedError(f"{self.label}: no model was chosen: {'; '.join(self.choice['problems'])}")
        return self.fits[name]

    @property
    def formulas(self) -> list[Fit]:
        """Fits of the best formula, and of at most three others whose difference from the best may be chance."""
        tied = [row["model"] for row in self.choice.get("scores", ()) if row["tied"]]
        others = [self.fits[name] for name in tied if name in self.fits and name != self.choice["formula"]]
        return [self.formula, *(fit for fit in others if fit.ok)][:_MOST_FORMULAS]

    def best(self, observations: Observations) -> Predictor:
        """Return the predictor inside the data, of `observations` if learned. Raises SavedError without one."""
        return self._predictor(self.choice["best"], observations)

    def winner(self, observations: Observations) -> Predictor:
        """Return the predictor with the best score of all, as `best` does."""
        return self._predictor(self.choice["winner"], observations)

    def _predictor(self, name: str, observations: Observations) -> Predictor:
        if name not in LEARNED:
            return self.formula
        learner = LEARNED[name]
        return (
            learner.again(observations, self.learned[name]) if name in self.learned else learner(observations)
        )


def save_fits(
    path: Path,
    label: str,
    fits: Mapping[str, Fit],
    choice: Choice,
    dataset: Path | None = None,
    learned: Mapping[str, Any] | None = None,
) -> None:
    """Write fits and choice to a file, replacing it atomically.

    `learned` has the results of `Learned.to_dict`. The file contains the checksum of the fitted `dataset`, by default
    of the study's dataset next to it.
    """
    dataset = dataset or path.with_name(DATASET)
    content = {
        "format": FORMAT,
        "dataset": checksum(dataset) if is_file(dataset) else "",
        "label": label,
        "fits": {name: fit.to_dict() for name, fit in fits.items()},
        "choice": choice.to_dict(),
        "learned": dict(learned or {}),
    }
    write_json(path, content)


def read_fits(path: str | Path) -> Saved:
    """Read a file that `save_fits` wrote. Raises SavedError if it has another format, OSError if unreadable."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise KeyError("format")
        fits = {name: Fit.from_dict(about) for name, about in content["fits"].items()}
        return Saved(content["label"], fits, content["choice"], content["dataset"], content["learned"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise SavedError(
            f"{path}: no fits of format {FORMAT} ({error!r}). Delete the file and run snakemake again."
        ) from error


def file_of(dataset: Path) -> Path:
    """Return the place of a dataset's fits: models.json next to a study's dataset, NAME.models.json next to NAME.nc."""
    return dataset.with_name(FILE if dataset.name == DATASET else f"{dataset.stem}.{FILE}")


def current(dataset: Path, file: Path | None = None) -> Path | None:
    """Return the file with the fits of a dataset, or None if it is missing, unreadable or of other cells.

    By default it is `file_of(dataset)`. The dataset's checksum decides, because copies have new times.
    """
    file = file or file_of(dataset)
    try:
        return file if read_fits(file).dataset == checksum(dataset) else None
    except (SavedError, OSError, UnicodeDecodeError):
        return None
