# SPDX-License-Identifier: Apache-2.0
"""The list of all sweeps: their state, and runs under way, which it follows without reading a dataset."""

import json
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from tpcsweep.common.files import write_text
from tpcsweep.data import folding
from tpcsweep.data.folding import Folded
from tpcsweep.data.places import LIVE_PAGE, RUN_UNDER_WAY
from tpcsweep.pages import making
from tpcsweep.running import live, progress, run_lock
from tpcsweep.running.overview import REFRESH, list_sweeps
from tpcsweep.sweeps.study import SweepStudy

from tests.support.projects import study_of
from tests.support.synthetic import write_sweep

AXES = {"cores": [1.0, 2.0], "rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1]}
CELLS = 12


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Folded:
    return folding.fold(write_sweep(tmp_path_factory.mktemp("cells"), AXES), AXES)


@pytest.fixture
def study(tmp_path: Path) -> SweepStudy:
    """A sweep of four cells in two deployments, of which a run is under way to the end of this process."""
    study = study_of(tmp_path, parameters={"rtt": [5, 50], "streams": [1, 2]})
    run_lock.lock_results(study.folder)
    progress.begin_progress(study.folder, 4)
    live.begin_page(study)
    return study


def seen(results: Path) -> BeautifulSoup:
    return BeautifulSoup((results / "index.html").read_text(), "html.parser")


def test_sweeps_and_comparisons_are_listed_unreadable_ones_too(folded: Folded, tmp_path: Path) -> None:
    folding.write(folded, tmp_path / "whole/dataset.nc")
    write_text(tmp_path / "whole/history/index.html", "")
    write_text(tmp_path / "damaged/dataset.nc", "no dataset")
    write_text(tmp_path / "against/comparison.json", json.dumps({"summary": "1.2 times as fast"}))
    write_text(tmp_path / "stopped" / LIVE_PAGE, "")
    assert making.comparisons(tmp_path) == []  # without its page there is nothing to link
    write_text(tmp_path / "against/compare.html", "")
    list_sweeps(tmp_path)
    page = seen(tmp_path)
    for text in (
        f"complete: {CELLS} cells",
        "Gbit/s without a warning",
        "TCP buffer 4 MiB",
        "tpcsweep page whole",
        "cannot be read",
        "1.2 times as fast",
        "no dataset yet",
    ):
        assert text in page.get_text()
    links = {str(link["href"]) for link in page.select("a[href]")}
    assert links >= {"against/compare.html", "stopped/live.html", "whole/history/index.html"}
    assert all((tmp_path / link).exists() for link in links)
    assert page.find("meta", {"http-equiv": "refresh"}) is None
    [line] = page.select(".sparkline")
    drawn = json.loads(str(line["data-line"]))
    assert drawn["axis"] == "streams" and drawn["values"][0] == "1" and drawn["rates"][0] > 0


def test_the_list_follows_a_run_without_reading_a_dataset(
    study: SweepStudy, folded: Folded, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = study.folder.parent
    folding.write(folded, results / "whole/dataset.nc")
    list_sweeps(results)
    monkeypatch.delattr(making, "entries")
    first = study.grid.cells[0]
    with progress.JobProgress(study.name, first.deployment.path, study.folder) as shown:
        shown.end(first.path, "ok", 0.4711, [])
    live.update_page(study, {first.path: ("ok", 0.4711, False)})
    page = seen(results)
    running, other = page.select(".sweeps > li")
    text = " ".join(running.get_text(" ").split())
    assert "running 1 of 4 cells, until about" in text
    assert f"last cell: 0.471 Gbit/s, {first.path}" in text
    assert running.find("a", href=f"{study.folder.name}/live.html")
    assert f"complete: {CELLS} cells" in other.get_text()
    assert page.find("meta", {"http-equiv": "refresh"})["content"] == str(REFRESH)


def test_the_list_shows_no_run_that_has_ended(study: SweepStudy) -> None:
    results = study.folder.parent
    assert "running" in seen(results).get_text()
    live.end_page(study, "stopped by you: 1 of 4 cells kept")
    page = seen(results)
    assert "running" not in page.get_text()
    assert page.find("meta", {"http-equiv": "refresh"}) is None
    assert page.find("a", href=f"{study.folder.name}/live.html")


def test_a_run_that_was_killed_is_not_called_running(tmp_path: Path) -> None:
    write_text(tmp_path / "killed" / RUN_UNDER_WAY, json.dumps({"line": "3 of 4 cells", "outcomes": {}}))
    write_text(tmp_path / "killed" / LIVE_PAGE, "")
    list_sweeps(tmp_path)
    page = seen(tmp_path)
    assert "A run began and has not ended: 3 of 4 cells" in page.get_text()
    assert page.find("meta", {"http-equiv": "refresh"}) is None
