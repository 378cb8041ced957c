# SPDX-License-Identifier: Apache-2.0
"""Words on redirectors in the effects of origins: where the change adds one, and only there."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
import xarray as xr
from tpcsweep.analysis.block_effects import block_effects, row_label
from tpcsweep.analysis.effects_headline import headline
from tpcsweep.analysis.effects_plots import forest
from tpcsweep.data.repetitions import settings_of
from tpcsweep.pages.cell_columns import grid_cells
from tpcsweep.pages.gains import gains
from tpcsweep.pages.remedies import Remedies

from tests.support.blocks import made_up
from tests.support.synthetic import bare, findings_of

ADDED = "+ redirector"


def over_origins(origins: Sequence[int], endpoint: str | Sequence[str], change: float = 0.9) -> xr.Dataset:
    """A sweep in which each doubling of the origins changes the throughput by a factor."""
    axes = {"origins": [*origins], "streams": [1, 2, 4, 8], "repetition": [1, 2]}
    if not isinstance(endpoint, str):
        axes = {"endpoint": [*endpoint], **axes}
    shape = tuple(map(len, axes.values()))
    rates = (change ** np.log2(origins))[:, None, None] * np.ones(shape)
    limit = (tuple(axes), np.full(shape, "cpu_destination", object))
    empty = (tuple(axes), np.full(shape, "", object))
    fixed = {"bandwidth": 10.0} | ({"endpoint": endpoint} if isinstance(endpoint, str) else {})
    summary = bare(rates, 0.01 * rates, axes).assign(limit=limit, limit_second=empty, message=empty)
    return summary.assign_coords(fixed)


def effect_words(summary: xr.Dataset) -> list[str]:
    changes = [change.words for found in findings_of(summary) for change in found.changes]
    return [words for words in changes if re.search(r"\borigins? ", words)]


def remedy_lines(summary: xr.Dataset) -> list[str]:
    """Lines on origins of the findings, and of the advice for single settings."""
    cells = grid_cells(settings_of(summary))
    texts = [*(found.text for found in findings_of(summary)), *Remedies(cells).of_settings()]
    return [line for text in texts for line in text.split("\n") if "more origins" in line and "times" in line]


@pytest.mark.parametrize(
    ("origins", "endpoint", "adds"),
    [
        ([1, 2], "redirector", True),
        ([1, 2, 4], "redirector", True),
        ([2, 4], "redirector", False),
        ([1, 2], "direct", False),
    ],
)
@pytest.mark.parametrize("change", [0.8, 1.3])
def test_the_effect_of_origins_names_a_redirector_that_it_contains(
    origins: Sequence[int], endpoint: str, adds: bool, change: float
) -> None:
    summary = over_origins(origins, endpoint, change)
    [words] = effect_words(summary)
    assert words == f"{origins[-1]} origins{adds * ' + redirector'} instead of {origins[0]}"
    assert any("redirector" in line for line in remedy_lines(summary)) == adds


def test_a_remedy_names_the_redirector_of_those_pairs_alone_that_add_one() -> None:
    lines = remedy_lines(over_origins([1, 2, 4], "redirector", 1.3))
    from_here = {line.split("(")[1].split(")")[0] for line in lines if "from this setting" in line}
    assert from_here == {"2 + redirector instead of 1", "4 instead of 2"}
    assert any(
        "more origins (+ redirector in 4 of 8 pairs), 1.3 times in these settings" in line for line in lines
    )


def test_pairs_without_redirector_do_not_count() -> None:
    summary = over_origins([1, 2], ["redirector", "direct"])
    [words] = effect_words(summary)
    assert words == "2 origins (+ redirector in 4 of 8 pairs) instead of 1"
    differing = summary.copy(deep=True)
    differing["throughput"].loc[{"origins": 2, "endpoint": "redirector"}] *= 0.5
    _, redirector, direct = effect_words(differing)
    assert redirector == "endpoint redirector: 2 origins + redirector instead of 1"
    assert direct == "endpoint direct: 2 origins instead of 1"


def test_fewer_origins_remove_the_redirector() -> None:
    assert effect_words(over_origins([2, 1], "redirector")) == ["1 origin without redirector instead of 2"]


def test_the_fitted_gain_of_origins_names_the_redirector() -> None:
    settings = settings_of(over_origins([1, 2, 4], ["redirector", "direct"], 1.5))
    found = gains(settings, settings["throughput"])
    texts = np.array(found.text, object).reshape(settings["throughput"].shape)  # endpoint, origins, streams
    assert set(texts[0, 0]) == {"origins 4 + redirector instead of 1: +125 %"}
    assert set(texts[1, 0]) == {"origins 4 instead of 1: +125 %"}
    assert {*texts[0, 1], *texts[1, 1]} == {"origins 4 instead of 2: +50 %"}
    alone = settings.isel(endpoint=0, streams=0, drop=True).assign_coords(endpoint="redirector")
    assert [*gains(alone, alone["throughput"]).text] == [texts[0, 0, 0], texts[0, 1, 0], ""]


@pytest.mark.parametrize(
    ("endpoint", "values", "adds"),
    [("redirector", (1, 2), True), ("redirector", (2, 4), False), ("direct", (1, 2), False)],
)
def test_an_effect_inside_blocks_names_the_redirector(
    endpoint: str, values: tuple[int, int], adds: bool
) -> None:
    renamed = made_up({"one": 0.0, "two": -0.3}, 6, seed=3).rename(tuning="origins")
    summary = renamed.assign_coords(origins=list(values), endpoint=endpoint)
    summary = summary.assign_attrs(sweep="origins", testbed="netns")
    found = block_effects(summary, "origins")
    labels = {row_label(found, row) for row in found.rows}
    figure = forest(summary, found)
    drawn = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert all((ADDED in text) == adds for text in (*labels, *drawn, headline(found)))
