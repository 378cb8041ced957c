# SPDX-License-Identifier: Apache-2.0
"""Every kind of page in Chromium, used by an outsider on a phone and on a desktop: nothing looks broken."""

from functools import partial
from pathlib import Path

import pytest
from tpcsweep import dataset, models, pages
from tpcsweep.dataset import STATUS
from tpcsweep.history import find_history
from tpcsweep.pages.history import history_content
from tpcsweep.planning.sections import SECTIONS
from tpcsweep.templates import render

from tests.support.browser import DESKTOP, PHONE
from tests.support.commands import tpcsweep
from tests.support.histories import folded, runs_of, times, weekly
from tests.support.outsider import broken
from tests.support.synthetic import write_sweep
from tests.support.workflow import ROOT

EXAMPLE = ROOT / "examples/surface.nc"
AXES = {"origins": [1, 2], "rtt": [5.0, 50.0, 100.0], "streams": [1, 2, 4, 8], "repetition": [1, 2]}
HOLES = {
    "missing": [{"rtt": 5.0, "streams": 2}, {"rtt": 100.0, "streams": 8, "repetition": 2}],
    "failed": [{"rtt": 50.0, "streams": 8}, {"origins": 2, "rtt": 5.0, "streams": 1}],
    "flagged": {"not_steady": [{"streams": 4}]},
}
PAGES = ["sweep/index.html", "index.html", "history/index.html", "begun/index.html", "alone.html"]
"""A sweep with models, the overview, histories of many runs and of one, and a shipped dataset alone."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    file = results / "sweep/dataset.nc"
    dataset.write(dataset.fold(write_sweep(results, AXES, **HOLES), AXES), file)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tpcsweep.models.fit", partial(models.fit, resamples=3))
        models.fit_all(dataset.load(file), file.with_name("models.json"))
    pages.make_page(file, file.with_name("index.html"), listed=True, analyses=SECTIONS)
    pages.make_overview(results / "index.html")
    runs = weekly(folded(results / "history"), 26)
    runs[12:20] = [times(summary, 0.8) for summary in runs[12:20]]
    for summary in (runs[5], runs[-1]):
        summary["status"][0, 0] = STATUS.index("failed")
        summary["throughput"][0, 0] = float("nan")
    (results / "begun").mkdir()
    for name, some in (("history", runs), ("begun", runs[:1])):
        told = find_history(runs_of(some), {})
        (results / name / "index.html").write_text(render("history", **history_content(told)))
    assert tpcsweep("page", EXAMPLE, "--output", results / "alone.html").exit_code == 0
    return results


@pytest.mark.parametrize("wide", [PHONE, DESKTOP])
@pytest.mark.parametrize("page", PAGES)
def test_nothing_looks_broken(results: Path, page: str, wide: int) -> None:
    datasets = {"sweep/index.html": results / "sweep/dataset.nc", "alone.html": EXAMPLE}
    assert broken(results / page, wide, datasets.get(page)) == []
