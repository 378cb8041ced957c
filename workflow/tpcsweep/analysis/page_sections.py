# SPDX-License-Identifier: Apache-2.0
"""Sections that analyses add to the page of a dataset. The page itself knows none of them: list a new one here."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import xarray as xr

from tpcsweep.common.extras import missing_extras
from tpcsweep.common.files import is_up_to_date
from tpcsweep.data.places import DATASET
from tpcsweep.pages.making import Analysis, Section


def claims_section(dataset: Path, summary: xr.Dataset) -> Section:
    """Return the verdicts on published claims: those next to a study's dataset, or new ones with the extra `models`."""
    verdicts = dataset.with_name("claims.json")
    if dataset.name == DATASET and is_up_to_date(verdicts, dataset):
        return {"claims": orjson.loads(verdicts.read_bytes())}
    if missing_extras(["models"]):
        return {}
    from tpcsweep.analysis.claims.judging import judge

    return {"claims": [verdict.to_dict() for verdict in judge(summary)]}


def models_section(dataset: Path, summary: xr.Dataset) -> Section:
    """Return the fitted models and plans of a dataset whose fits are next to it, and nothing for other datasets.

    Without the extra `models` a page has none.
    """
    if missing_extras(["models"]):
        return {}
    from tpcsweep.analysis.models.saved_fits import current
    from tpcsweep.analysis.plans.forecast import forecast

    models = current(dataset)
    return {"forecast": forecast(summary, models) if models else None}


SECTIONS: Sequence[Analysis] = (claims_section, models_section)
