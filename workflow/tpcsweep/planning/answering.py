# SPDX-License-Identifier: Apache-2.0
"""A question about a dataset answered: the plan for a target, and the table of recommendations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.configuration.problems import ConfigurationError
from tpcsweep.extras import MissingExtraError
from tpcsweep.models import MODELS, observe, saved
from tpcsweep.models.observations import NothingMeasuredError
from tpcsweep.planning.plan import Plan, asked, chosen, plan
from tpcsweep.planning.question import Question
from tpcsweep.planning.recommendations import as_dict, measured_rtts, recommend

EXPECTED = (ConfigurationError, saved.SavedError, NothingMeasuredError, MissingExtraError)
"""Errors of `answer`."""


@dataclass(frozen=True)
class Answer:
    """The answer to a question."""

    question: Question
    model: str
    data: str
    """The data that the model was fitted to."""
    plan: Plan | None
    """None without a target."""
    table: pd.DataFrame | None
    """Recommendations with the columns `recommendations.COLUMNS`; None unless they were asked for."""

    def recommendations(self) -> dict[str, Any]:
        """Return the table as JSON has it, with the question."""
        assert self.table is not None
        about = {"data": self.data, "model": self.model, "probability": self.question.probability}
        return as_dict(self.table, {**about, "given": self.question.given})

    def to_dict(self) -> dict[str, Any]:
        """Return the plan with the recommendations, or these alone, as JSON has them."""
        if self.plan is None:
            return self.recommendations()
        return {**self.plan.to_dict(), "recommendations": self.recommendations()}


def answer(dataset: Path, models: Path, content: Mapping[str, Any], recommendations: bool) -> Answer:
    """Answer a question by the model that predicted left-out cells best.

    Args:
        dataset: the dataset.
        models: the file with the fits of the dataset.
        content: target, probability and parameters, as `plan.asked` checks them.
        recommendations: whether to tabulate recommendations too.

    Raises:
        Exception: one of `EXPECTED`.
    """
    question = asked(**content)
    observations = observe(xr.load_dataset(dataset))
    model, data = chosen(saved.read(models, MODELS), observations, question.given)
    planned = None if question.target is None else plan(model, data=data, **question.content)
    table = recommend(model, measured_rtts(observations), **question.content) if recommendations else None
    return Answer(question, model.name, data, planned, table)
