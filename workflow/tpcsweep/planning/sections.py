# SPDX-License-Identifier: Apache-2.0
"""Sections that analyses add to the page of a dataset. The page itself knows none of them: list a new one here."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import xarray as xr

from tpcsweep.claims.judging import judge
from tpcsweep.configuration.places import DATASET
from tpcsweep.files import is_up_to_date
from tpcsweep.models import current
from tpcsweep.pages import Analysis, Section
from tpcsweep.planning.forecast import forecast


def claims_section(dataset: Path, summary: xr.Dataset) -> Section:
    """Return the verdicts on published claims: those next to a study's dataset, or new ones."""
    verdicts = dataset.with_name("claims.json")
    if dataset.name == DATASET and is_up_to_date(verdicts, dataset):
        return {"claims": orjson.loads(verdicts.read_bytes())}
    return {"claims": [verdict.to_dict() for verdict in judge(summary)]}


def models_section(dataset: Path, summary: xr.Dataset) -> Section:
    """Return the fitted models and plans of a dataset whose fits are next to it, and nothing for other datasets."""
    models = current(dataset)
    return {"forecast": forecast(summary, models) if models else None}


SECTIONS: Sequence[Analysis] = (claims_section, models_section)
