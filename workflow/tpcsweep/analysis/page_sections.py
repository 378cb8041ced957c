# SPDX-License-Identifier: Apache-2.0
"""Sections that analyses add to the page of a dataset. The page itself knows none of them: list a new one here."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import xarray as xr

from tpcsweep.analysis.block_effects import (
    MEASURES,
    THROUGHPUT,
    BlockEffects,
    block_effects,
    default_settings,
    verdict_text,
)
from tpcsweep.analysis.claims.judging import judge
from tpcsweep.analysis.effects_plots import reference_text, row_label
from tpcsweep.analysis.models.saved_fits import current
from tpcsweep.analysis.plans.forecast import forecast
from tpcsweep.common.extras import missing_extras
from tpcsweep.common.files import is_up_to_date
from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.places import DATASET
from tpcsweep.pages.contract import EffectRow
from tpcsweep.pages.making import Analysis, Section
from tpcsweep.sweeps.problems import ConfigurationError


def claims_section(dataset: Path, summary: xr.Dataset) -> Section:
    """Return the verdicts on published claims: those next to a study's dataset, or new ones."""
    verdicts = dataset.with_name("claims.json")
    if dataset.name == DATASET and is_up_to_date(verdicts, dataset):
        return {"claims": orjson.loads(verdicts.read_bytes())}
    return {"claims": [verdict.to_dict() for verdict in judge(summary)]}


def models_section(dataset: Path, summary: xr.Dataset) -> Section:
    """Return the fitted models and plans of a dataset whose fits are next to it, and nothing for other datasets.

    Without the extra `models` a page has none: the best model may be a process, which needs it.
    """
    models = None if missing_extras(["models"]) else current(dataset)
    return {"forecast": forecast(summary, models) if models else None}


def effects_section(_dataset: Path, summary: xr.Dataset) -> Section:
    """Return the effects of settings in a sweep with order: blocks, and nothing if they cannot be estimated."""
    if summary.attrs.get("order") != "blocks" or not default_settings(summary):
        return {"effects": None}
    try:
        found = block_effects(summary)
    except (
        ConfigurationError
    ):  # such as fewer than two blocks that were measured, in the page of a partial run
        return {"effects": None}
    rows, over = _effect_rows(found), reference_text(found)
    return {"effects": {"over": over, "wanted": 1 + found.at_least, "notes": found.notes, "rows": rows}}


def _effect_rows(found: BlockEffects) -> list[EffectRow]:
    rows: list[EffectRow] = []
    for row in found.rows:
        times, interval = short(row.ratio), between(row.low, row.high)
        verdict = verdict_text(row, found.at_least)
        text = f"{times} times ({interval}, {counted(row.blocks, 'block')}); {verdict}"
        rows.append(
            {
                "words": row_label(found, row),
                "measure": MEASURES[row.measure],
                "drawn": row.measure == THROUGHPUT,
                "ratio": row.ratio,
                "low": row.low,
                "high": row.high,
                "times": times,
                "interval": interval,
                "pairs": row.blocks,
                "verdict": verdict,
                "text": text,
            }
        )
    return rows


SECTIONS: Sequence[Analysis] = (claims_section, models_section, effects_section)
