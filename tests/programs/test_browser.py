# SPDX-License-Identifier: Apache-2.0
"""Every kind of page, used by an outsider on a phone and on a desktop, and read out: nothing looks broken."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import axe_playwright_python
import pytest
from tpcsweep.analysis.history.change_points import find_history
from tpcsweep.analysis.history.history_page import history_content
from tpcsweep.analysis.models import fit, saved_fits
from tpcsweep.analysis.page_sections import SECTIONS
from tpcsweep.data import folding, opening
from tpcsweep.data.labels import STATUS
from tpcsweep.pages import making
from tpcsweep.pages.rendering import render

from tests.support.blocks import made_up, written
from tests.support.browser import DESKTOP, PHONE, SETTLED, visiting
from tests.support.commands import tpcsweep
from tests.support.firefox import Marionette, in_firefox
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
PAGES = [*(f"{name}index.html" for name in ("sweep/", "blocks/", "", "history/", "begun/")), "alone.html"]
"""A sweep with models, one in blocks, the overview, histories of many runs and of one, and a shipped dataset alone."""

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
VIOLATIONS = "axe.run().then(seen => seen.violations.map(each => `${each.id}: ${each.nodes[0].html}`))"
"""What axe-core finds wrong for people who cannot see a page, or use a keyboard."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    file = results / "sweep/dataset.nc"
    folding.write(folding.fold(write_sweep(results, AXES, **HOLES), AXES), file)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tpcsweep.analysis.models.fit", partial(fit.fit, resamples=3))
        saved_fits.fit_all(opening.load(file), file.with_name("models.json"))
    making.make_page(file, file.with_name("index.html"), listed=True, analyses=SECTIONS)
    blocks = written(results / "blocks", made_up({"stock": 0.0, "fq": 0.3}, 4, seed=0, many_streams=0.4))
    making.make_page(blocks, blocks.with_name("index.html"), listed=True, analyses=SECTIONS)
    making.make_overview(results / "index.html")
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
    datasets = {f"{name}/index.html": results / f"{name}/dataset.nc" for name in ("sweep", "blocks")}
    datasets["alone.html"] = EXAMPLE
    assert broken(results / page, wide, datasets.get(page)) == []


@pytest.fixture(scope="module")
def firefox() -> Iterator[Marionette]:
    with in_firefox() as firefox:
        yield firefox


@pytest.mark.parametrize("page", [*PAGES, "sweep/index.html#view=limit", "alone.html#view=value"])
def test_axe_finds_no_violation_in_chromium(results: Path, page: str) -> None:
    path, mark, link = page.partition("#")
    for dark in (False, True):
        with visiting(results / path, dark=dark, link=mark + link) as visit:
            visit.run(AXE)
            assert visit.run(VIOLATIONS) == []


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_violation_in_firefox(results: Path, firefox: Marionette, page: str) -> None:
    firefox.ask("Navigate", url=(results / page).resolve().as_uri())
    assert firefox.run(f"await {SETTLED}; {AXE}; return await {VIOLATIONS}") == []
    drawn = firefox.run(
        "return [document.querySelectorAll('#picture a').length, document.querySelectorAll('#data').length]"
    )
    assert (drawn[0] > 0) == (drawn[1] > 0)
