# SPDX-License-Identifier: Apache-2.0
"""One ratio has one interval on a page: in a sweep with order: blocks that of its blocks."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tpcsweep.analysis.page_sections import effects_section
from tpcsweep.data.repetitions import settings_of
from tpcsweep.pages.cell_columns import grid_cells
from tpcsweep.pages.contract import SettingEffects
from tpcsweep.pages.remedies import Remedies

from tests.support.blocks import made_up
from tests.support.synthetic import bare, findings_of

LINE = re.compile(r"tuning \((\w+) instead of stock\), ([\d.]+) times (.*?) \(([\d.]+ to [\d.]+), 6 blocks\)")


def measured(gains: Mapping[str, float], **about: Any) -> tuple[xr.Dataset, SettingEffects]:
    """Six blocks of cells that no known cause limits, and the effects of their settings."""
    made = made_up(gains, 6, seed=2, **about)
    axes = {str(name): made[name].values.tolist() for name in made["throughput"].dims}
    rates = made["throughput"].values
    summary = bare(rates, 0.03 * rates, axes).assign_attrs(made.attrs, order="blocks")
    words = {"limit": "none_found", "limit_second": "", "message": ""}
    content = {name: made[name] for name in ("source_cpu", "destination_cpu", "duration", "retransmits")}
    content |= {name: (tuple(axes), np.full(rates.shape, text, object)) for name, text in words.items()}
    summary = summary.assign_coords(bandwidth=100.0).assign(content)
    effects = effects_section(Path(), summary)["effects"]
    assert effects is not None
    return summary, effects


@pytest.mark.parametrize("gains", [{"stock": 0.0, "fq": 0.4}, {"stock": 0.0, "fq": 0.4, "rmem": -0.1}])
def test_findings_have_the_interval_of_the_blocks(gains: Mapping[str, float]) -> None:
    summary, effects = measured(gains)
    [overall] = [
        row for row in effects["rows"] if (row["value"], row["axis"], row["drawn"]) == ("fq", "", True)
    ]
    told = findings_of(summary, None, effects["rows"])
    [named] = LINE.findall("\n".join(found.text for found in told))
    assert named == ("fq", overall["times"], "in all cells", overall["interval"])
    assert not any("tuning" in change.words for found in told for change in found.changes)
    alone = findings_of(summary)  # without the section
    assert not LINE.search("\n".join(found.text for found in alone))
    assert any("fq instead of stock" in change.words for found in alone for change in found.changes) == (
        len(gains) == 2
    )


def test_the_advice_for_a_setting_has_the_interval_of_the_blocks() -> None:
    summary, effects = measured({"stock": 0.0, "fq": 0.4}, many_streams=0.8)
    rows = {(row["axis"], row["at"]): row for row in effects["rows"] if row["drawn"]}
    assert ("streams", "16") in rows
    cells = grid_cells(settings_of(summary))
    advice = [*Remedies(cells, None, effects["rows"]).of_settings()]
    for cell, text in enumerate(advice):
        streams = str(cells.axes["streams"][cells.places["streams"][cell]])
        if cells.places["tuning"][cell]:
            assert not LINE.search(text)
        else:
            row = rows["streams", streams]
            [named] = LINE.findall(text)
            assert named == ("fq", row["times"], f"with streams {streams}", row["interval"])
