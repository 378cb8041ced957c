# SPDX-License-Identifier: Apache-2.0
"""All that was fitted to a sweep, as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpcsweep.files import write_json
from tpcsweep.models.base import Model
from tpcsweep.models.choice import Choice
from tpcsweep.models.fit import Fit
from tpcsweep.models.learned import LEARNED
from tpcsweep.models.observations import Observations
from tpcsweep.models.places import Predictor

FORMAT = 4


class SavedError(ValueError):
    """A file that holds no fits of this format; the text names the file and what to do."""


@dataclass(frozen=True)
class Saved:
    """What was read from a file of fits."""

    label: str
    """What the fits are of: sweep demo, measured on netns."""
    fits: Mapping[str, Fit]
    choice: Mapping[str, Any]
    """What `Choice.to_dict` gave."""

    @property
    def chosen(self) -> bool:
        """Whether a model was chosen; the choice's `problems` contain the reason otherwise."""
        return self.choice["formula"] in self.fits

    @property
    def formula(self) -> Fit:
        """The fit of the formula that predicted left-out cells best, of those to all cells at once.

        Raises:
            SavedError: where no model could be fitted, or nothing could be left out to choose one.
        """
        name = self.choice["formula"]
        if name not in self.fits or not self.fits[name].ok:
            raise SavedError(f"{self.label}: no model was chosen: {'; '.join(self.choice['problems'])}")
        return self.fits[name]

    def best(self, observations: Observations) -> Predictor:
        """Give what predicted left-out cells best: a fit, or what learns the cells anew.

        Args:
            observations: those that the fits are of.

        Raises:
            SavedError: as `formula`.
        """
        learner = LEARNED.get(self.choice["best"])
        return self.formula if learner is None else learner(observations)


def write(path: str | Path, label: str, fits: Mapping[str, Fit], choice: Choice) -> None:
    """Write fits and choice: beside their place, then renamed."""
    content = {
        "format": FORMAT,
        "label": label,
        "fits": {name: fit.to_dict() for name, fit in fits.items()},
        "choice": choice.to_dict(),
    }
    write_json(Path(path), content)


def read(path: str | Path, models: Mapping[str, Model]) -> Saved:
    """Read what `write` wrote; `models` is `tpcsweep.models.MODELS`.

    Raises:
        SavedError: for a file of another format.
        OSError: for a file that cannot be read.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise KeyError("format")
        fits = {name: Fit.from_dict(about, models) for name, about in content["fits"].items()}
        return Saved(content["label"], fits, content["choice"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise SavedError(
            f"{path}: no fits of format {FORMAT} ({error!r}). Delete the file and run snakemake again."
        ) from error
