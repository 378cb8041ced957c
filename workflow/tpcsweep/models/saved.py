# SPDX-License-Identifier: Apache-2.0
"""All fits of a study in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpcsweep.configuration.sides import DATASET
from tpcsweep.files import is_made_of, write_json
from tpcsweep.models.choice import LEARNED, Choice
from tpcsweep.models.fit import Fit
from tpcsweep.models.observations import Observations
from tpcsweep.models.predictor import Predictor

FORMAT = 5

FILE = "models.json"
"""Name of the file with fits next to a study's dataset."""


class SavedError(ValueError):
    """The file has no fits of this format; the text names the file and the fix."""


@dataclass(frozen=True)
class Saved:
    """Content of a file of fits."""

    label: str
    """Description of the data, such as "sweep demo, measured on netns"."""
    fits: Mapping[str, Fit]
    choice: Mapping[str, Any]
    """Result of `Choice.to_dict`."""

    @property
    def chosen(self) -> bool:
        """Whether a model was chosen; otherwise the choice's `problems` contain the reason."""
        return self.choice["formula"] in self.fits

    @property
    def formula(self) -> Fit:
        """Fit to all cells of the formula that predicted left-out cells best.

        Raises:
            SavedError: If no model could be fitted, or no fold was possible.
        """
        name = self.choice["formula"]
        if name not in self.fits or not self.fits[name].ok:
            raise SavedError(f"{self.label}: no model was chosen: {'; '.join(self.choice['problems'])}")
        return self.fits[name]

    def best(self, observations: Observations) -> Predictor:
        """Return the predictor for settings inside the data; a learned one is fitted to `observations`.

        Raises:
            SavedError: If no model was chosen.
        """
        learner = LEARNED.get(self.choice["best"])
        return self.formula if learner is None else learner(observations)


def save_fits(path: str | Path, label: str, fits: Mapping[str, Fit], choice: Choice) -> None:
    """Write fits and choice to a file, replacing it atomically."""
    content = {
        "format": FORMAT,
        "label": label,
        "fits": {name: fit.to_dict() for name, fit in fits.items()},
        "choice": choice.to_dict(),
    }
    write_json(Path(path), content)


def read(path: str | Path) -> Saved:
    """Read a file that `save_fits` wrote.

    Raises:
        SavedError: If the file has another format.
        OSError: If the file cannot be read.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise KeyError("format")
        fits = {name: Fit.from_dict(about) for name, about in content["fits"].items()}
        return Saved(content["label"], fits, content["choice"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise SavedError(
            f"{path}: no fits of format {FORMAT} ({error!r}). Delete the file and run snakemake again."
        ) from error


def current(dataset: Path) -> Path | None:
    """Return the file with the fits of a study's dataset, or None if missing, outdated or unreadable."""
    file = dataset.with_name(FILE)
    if dataset.name != DATASET or not is_made_of(file, dataset):
        return None
    try:
        read(file)
    except SavedError:
        return None
    return file
