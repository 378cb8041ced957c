# SPDX-License-Identifier: Apache-2.0
"""Counts of cells in words that are true of measured cells, and links to single cells."""

from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest
import xarray as xr
from bs4 import BeautifulSoup
from tpcsweep.data import folding
from tpcsweep.data.labels import flag_masks
from tpcsweep.pages.cell_links import cell_links
from tpcsweep.pages.content import page_content
from tpcsweep.pages.dataset_facts import dataset_facts
from tpcsweep.pages.rendering import render

from tests.support import synthetic

AXES = {"cores": [0.4, 1.0], "streams": [1, 4], "repetition": [1, 2]}


@pytest.fixture
def folded(tmp_path: Path) -> folding.Folded:
    return folding.fold(synthetic.write_sweep(tmp_path, AXES), AXES)


def page(folded: folding.Folded, summary: xr.Dataset) -> BeautifulSoup:
    content = page_content(summary, folded.samples, folded.transfers)
    return BeautifulSoup(render("page", **content), "html.parser")


def test_notes_are_no_warnings_and_the_head_and_the_findings_name_them(folded: folding.Folded) -> None:
    summary = folded.summary.copy(deep=True)
    summary["flags"][:] = 0
    assert dataset_facts(summary)["state"].endswith("8 cells, all measured: 8 without warnings")
    assert "All 8 cells with a throughput are without a warning." in [
        one.text for one in synthetic.doubts_of(summary)
    ]
    summary["flags"].values.flat[:5] = flag_masks(summary)["wide_interval"]
    summary["flags"].values.flat[0] |= flag_masks(summary)["disturbed"]
    assert dataset_facts(summary)["state"].endswith("7 without warnings (4 with notes), 1 with warnings")
    summary["flags"].values.flat[0] = flag_masks(summary)["wide_interval"]
    text = "All 8 cells with a throughput are without a warning; 5 of them have notes."
    assert text in [one.text for one in synthetic.doubts_of(summary)]


def test_shares_of_flags_are_those_of_measured_cells(folded: folding.Folded) -> None:
    summary = folded.summary.copy(deep=True)
    summary["flags"][:] = 0
    summary["flags"].values.flat[:3] = flag_masks(summary)["wide_interval"]
    summary["status"].values.flat[[0, 4, 5, 6]] = 0  # not measured, one of them with the flag
    shown = page(folded, summary)
    [row] = shown.select("section[aria-labelledby=h-doubts] tbody tr")
    assert [cell.get_text() for cell in row.select(".number")] == ["2", "50 %"]
    assert "Shares are of the 4 measured cells." in shown.get_text()


def test_cells_on_a_slower_machine_have_links_that_open_them(folded: folding.Folded) -> None:
    slow = folded.summary.assign(machine_slowed=0 * folded.summary["throughput"])
    slow["flags"][:] = 0
    slow["machine_slowed"].loc[{"cores": 1.0, "streams": 4, "repetition": 2}] = 0.4
    [link] = page(folded, slow).select("header a")
    assert link.get_text() == "cores 1, streams 4, repetition 2"
    assert parse_qs(str(link["href"])[1:]) == {"cell": ["1,4"], "repetition": ["2"]}
    quiet = folded.summary.assign(machine_slowed=0 * folded.summary["throughput"])
    assert not page(folded, quiet).select("header a")


def test_a_link_quotes_the_words_of_values() -> None:
    axes = {"tuning": ["a & b", "c,d"], "repetition": [1]}
    summary = synthetic.bare(np.ones((2, 1)), 0.1, axes)
    links = cell_links(summary, np.ones((2, 1), bool))
    assert [link.href for link in links] == ["#cell=a%20%26%20b", "#cell=c,d"]
