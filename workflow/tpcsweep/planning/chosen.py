"""The model that the choice fell on, for the part of the data that a question is about."""

from __future__ import annotations

import numpy as np

from tpcsweep.configuration.problems import ConfigurationError, Problem
from tpcsweep.configuration.question import Given
from tpcsweep.models import Fit, Observations, fit
from tpcsweep.models.saved import Saved


def chosen(saved: Saved, observations: Observations, given: Given) -> tuple[Fit, str]:
    """Give the chosen fit, and what it is of.

    It is fitted anew to the cells with the words that are given, if not all have them: models tell no words apart.

    Raises:
        ConfigurationError: for a word that no cell has.
        SavedError: where no model was chosen.
    """
    frame, label = observations.frame, saved.label
    rows, problems = np.ones(len(frame), bool), []
    for name, word in given.items():
        if not isinstance(word, str) or name not in frame:
            continue
        values = frame[name].astype(str)
        if not (values == word).any():
            problems.append(Problem(name, repr(word), f"what the data have: {', '.join(values.unique())}"))
        rows &= (values == word).to_numpy()
    if problems:
        raise ConfigurationError(problems)
    if rows.all():
        return saved.best, label
    words = ", ".join(f"{name} {word}" for name, word in given.items() if isinstance(word, str))
    return fit(saved.best.model, observations.take(rows)), f"{label}, {words} alone"
