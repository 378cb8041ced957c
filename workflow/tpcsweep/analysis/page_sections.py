# SPDX-License-Identifier: Apache-2.0
"""Sections that analyses add to the page of a dataset. The page itself knows none of them: list a new one here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
import xarray as xr

from tpcsweep.common.extras import missing_extras
from tpcsweep.common.files import is_file, is_up_to_date, write_text
from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.labels import is_mesh
from tpcsweep.data.places import DATASET, GOALS
from tpcsweep.pages.content import Links
from tpcsweep.pages.contract import EffectRow
from tpcsweep.pages.making import Analysis, Section
from tpcsweep.pages.trust import lost_links
from tpcsweep.sweeps.parameters import LINK, name_text
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.sweep import REPETITION

if TYPE_CHECKING:
    from tpcsweep.analysis.block_effects import BlockEffects, Row


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

    A page has none without the extra `models`, and for a mesh of which nothing but the links was varied: no formula
    follows from one setting of each.
    """
    varied = {str(name) for name, size in summary["throughput"].sizes.items() if size > 1} - {REPETITION}
    if missing_extras(["models"]) or (is_mesh(summary) and varied <= set(LINK)):
        return {}
    from tpcsweep.analysis.models.saved_fits import current
    from tpcsweep.analysis.plans.forecast import forecast

    models = current(dataset)
    return {"forecast": forecast(summary, models) if models else None}


def links_section(_dataset: Path, summary: xr.Dataset) -> Section:
    """Return slow sites and links of a mesh, and nothing for other datasets or without the extra `models`."""
    if not is_mesh(summary) or missing_extras(["models"]):
        return {}
    from tpcsweep.analysis.links.goals import links_on_full_machine
    from tpcsweep.analysis.links.headline import headline, slowest
    from tpcsweep.analysis.links.link_rates import mesh_of
    from tpcsweep.analysis.links.sentences import CRITERION, link_matrix, sentences, site_rows
    from tpcsweep.analysis.links.verdicts import mesh_effects

    found = mesh_effects(mesh_of(summary))
    texts = sentences(found, links_on_full_machine(summary), lost_links(summary))
    return {
        "links": Links(
            headline(found), texts, site_rows(found), CRITERION, link_matrix(found), slowest(found)
        )
    }


def goals_section(table: Path) -> Analysis:
    """Return the analysis that judges the goals of a table."""

    def section(dataset: Path, summary: xr.Dataset) -> Section:
        from tpcsweep.analysis.links import goals

        results = goals.judged_with_history(dataset, summary, table)
        rows = [*goals.texts(results)]
        streams = ", ".join(map(str, np.unique(summary.coords.get("streams", 1)).tolist()))
        text = goals.in_a_sentence(results)
        return {"goals": {"text": text, "heads": goals.HEADS, "rows": rows, "streams": streams}}

    return section


def kept_goals_section(dataset: Path, summary: xr.Dataset) -> Section:
    """Return the verdicts on the goals next to a study's dataset, which `keep_goals` wrote; nothing without any."""
    table = dataset.with_name(GOALS)
    if dataset.name != DATASET or not is_file(table):
        return {}
    return goals_section(table)(dataset, summary)


def keep_goals(tables: Iterable[str], dataset: Path) -> None:
    """Copy the table of a study's goals next to its dataset for every later page, or delete a copy without a table."""
    kept = dataset.with_name(GOALS)
    kept.unlink(missing_ok=True)
    for table in tables:
        write_text(kept, Path(table).read_text(encoding="utf-8-sig"))


def effects_section(_dataset: Path, summary: xr.Dataset) -> Section:
    """Return the effects of settings in a sweep with order: blocks, and nothing if they cannot be estimated."""
    if summary.attrs.get("order") != "blocks" or missing_extras(["models"]):
        return {"effects": None}
    from tpcsweep.analysis.block_effects import block_effects, default_settings, reference_text
    from tpcsweep.analysis.effects_headline import best_two, headline

    if not default_settings(summary):
        return {"effects": None}
    try:
        found = block_effects(summary)
    except ConfigurationError:  # such as fewer than two measured blocks, in the page of a partial run
        return {"effects": None}
    return {
        "effects": {
            "headline": "\n".join(filter(None, [headline(found), best_two(summary, found)])),
            "over": reference_text(found),
            "wanted": 1 + found.at_least,
            "notes": found.notes,
            "rows": _effect_rows(found),
        }
    }


def _effect_rows(found: BlockEffects) -> list[EffectRow]:
    from tpcsweep.analysis.block_effects import MEASURES, THROUGHPUT, row_label, verdict_text

    rows: list[EffectRow] = []
    for row in found.rows:
        times, interval = short(row.ratio), between(row.low, row.high)
        verdict = _opposite_effects(row, found) or verdict_text(row, found.at_least)
        text = f"{times} times ({interval}, {counted(row.blocks, 'block')}); {verdict}"
        rows.append(
            {
                "setting": row.setting,
                "value": row.value,
                "axis": row.axis,
                "at": row.at,
                "words": row_label(found, row),
                "measure": MEASURES[row.measure],
                "drawn": row.measure == THROUGHPUT,
                "ratio": row.ratio,
                "low": row.low,
                "high": row.high,
                "times": times,
                "interval": interval,
                "pairs": row.blocks,
                "each": "",
                "verdict": verdict,
                "text": text,
            }
        )
    return rows


def _opposite_effects(row: Row, found: BlockEffects) -> str:
    """Return the axis along which a value both gains and does not, in place of a verdict over all cells; or ""."""
    parts = [
        part
        for part in found.rows
        if part.axis and (part.setting, part.value, part.measure) == (row.setting, row.value, row.measure)
    ]
    is_opposite = not row.axis and {"gain", "less"} <= {part.verdict for part in parts}
    return f"depends on {name_text(parts[0].axis)}" if is_opposite else ""


SECTIONS: Sequence[Analysis] = (
    claims_section,
    models_section,
    links_section,
    kept_goals_section,
    effects_section,
)
