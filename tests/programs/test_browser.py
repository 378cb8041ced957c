# SPDX-License-Identifier: Apache-2.0
"""Every kind of page, used by an outsider on a phone and on a desktop, and read out: nothing looks broken."""

import itertools
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import axe_playwright_python
import numpy as np
import pytest
from tpcsweep.analysis.history.change_points import find_history
from tpcsweep.analysis.history.history_page import history_content
from tpcsweep.analysis.models import fit, saved_fits
from tpcsweep.analysis.page_sections import SECTIONS, goals_section
from tpcsweep.common.numbers import short
from tpcsweep.data import folding, opening
from tpcsweep.data.labels import STATUS
from tpcsweep.data.variables import SUMMARY
from tpcsweep.pages import making
from tpcsweep.pages.rendering import render
from tpcsweep.running.overview import list_sweeps
from tpcsweep.sweeps.study import log_folder

from tests.support import meshes
from tests.support.blocks import made_up, written
from tests.support.browser import DESKTOP, PHONE, SETTLED, Visit, visiting
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
PAGES = [
    *(f"{name}index.html" for name in ("sweep/", "blocks/", "mesh/", "", "history/", "begun/")),
    "alone.html",
]
"""A sweep with models, one in blocks, a mesh, the overview, histories of many runs and of one, and a dataset alone."""

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
VIOLATIONS = "axe.run().then(seen => seen.violations.map(each => `${each.id}: ${each.nodes[0].html}`))"
"""What axe-core finds wrong for people who cannot see a page, or use a keyboard."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    file = results / "sweep/dataset.nc"
    folding.write(folding.fold(write_sweep(results, AXES, **HOLES), AXES), file)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tpcsweep.analysis.models.saved_fits.fit", partial(fit.fit, resamples=3))
        saved_fits.fit_all(opening.load(file), file.with_name("models.json"))
    making.make_page(file, file.with_name("index.html"), listed=True, analyses=SECTIONS)
    blocks = written(results / "blocks", made_up({"stock": 0.0, "fq": 0.3}, 4, seed=0, many_streams=0.4))
    making.make_page(blocks, blocks.with_name("index.html"), listed=True, analyses=SECTIONS)
    sites = meshes.names(12)
    truth = meshes.truth(sites, 4, receives={"S02": 0.4}, links={("S03", "S04"): 3.0}, site_spread=0.05)
    hidden = np.full((12, 12), "not_visible", object)
    made = meshes.measured(truth.logs, sites, 4, streams={4: 1.0}, limit=hidden, missing=[("S06", "S05")])
    mesh = meshes.folded(results / "mesh", meshes.waited(made, "S01", "S05", 0.003))
    making.make_page(mesh, mesh.with_name("index.html"), listed=True, analyses=SECTIONS)
    (results / "goals.csv").write_text("source,destination,Gbit/s\nS01,S03,1\nS01,S02,1.5\n")
    goals = [*SECTIONS, goals_section(results / "goals.csv")]
    making.make_page(mesh, results / "goals.html", listed=True, analyses=goals)
    list_sweeps(results)
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
    datasets = {f"{name}/index.html": results / f"{name}/dataset.nc" for name in ("sweep", "blocks", "mesh")}
    datasets["alone.html"] = EXAMPLE
    assert broken(results / page, wide, datasets.get(page)) == []


@pytest.fixture(scope="module")
def firefox() -> Iterator[Marionette]:
    with in_firefox() as firefox:
        yield firefox


@pytest.mark.parametrize(
    "page", [*PAGES, "sweep/index.html#view=limit", "mesh/index.html#view=limit", "alone.html#view=value"]
)
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


TICKS = """([box, axis]) =>
  [...document.querySelectorAll(`${box} [data-mark='${axis}-axis tick label'] text`)].map(text => {
    const { left, right, top } = text.getBoundingClientRect();
    return { text: text.textContent, left, right, top };
  })"""
ALONE = """at => {
  document.getElementById("picture").scrollIntoView();
  const places = [...document.querySelectorAll("#picture [data-mark=dot] a")].map(link => {
    const { x, y, width, height } = link.getBoundingClientRect();
    return [link.getAttribute("href"), x + width / 2, y + height / 2];
  });
  const isAlone = ([href, x, y]) =>
    places.every(other => other[0] === href || Math.hypot(other[1] - x, other[2] - y) > 30);
  return places.filter(isAlone).at(at);
}"""
"""Address and place on the screen of a point that is far from others."""
LOOKS = """() => [...document.querySelectorAll("#picture [data-mark=line] path")].map(path => {
  const { stroke, strokeDasharray } = getComputedStyle(path);
  return `${stroke} ${strokeDasharray}`;
})"""


def ticks(visit: Visit, box: str, axis: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = visit.run(TICKS, [box, axis])
    return found


def test_both_maps_of_a_mesh_have_one_order_and_a_pressed_link_selects_its_cell(results: Path) -> None:
    with visiting(results / "mesh/index.html") as visit:
        orders = [
            [each["text"].split()[0] for each in sorted(ticks(visit, box, "y"), key=lambda each: each["top"])]
            for box in ("#picture", "#links")
        ]
        assert orders[0] == orders[1] == meshes.names(12)
        heading = visit.page.locator("#cell h2")
        visit.page.locator("#links a[aria-label^='S03 → S07']").click()
        assert heading.inner_text() == "source S03, destination S07"
        for key, link in (("ArrowRight", "S03,S08"), ("ArrowDown", "S04,S08"), ("ArrowUp", "S03,S08")):
            visit.page.locator("#links a[tabindex='0']").focus()
            visit.page.keyboard.press(key)
            source, destination = link.split(",")
            assert heading.inner_text() == f"source {source}, destination {destination}"
            assert visit.page.locator("#links a.chosen").get_attribute("href") == f"#cell={link}"
        visit.page.locator("#picture a[tabindex='0']").focus()
        visit.page.keyboard.press("ArrowUp")  # the setting above, where the first site is on top
        assert heading.inner_text() == "source S02, destination S08"


@pytest.mark.parametrize("page", ["blocks/index.html", "goals.html", "alone.html"])
def test_tables_of_verdicts_are_whole_on_a_phone(results: Path, page: str) -> None:
    with visiting(results / page, PHONE) as visit:
        boxes = visit.run(
            "[...document.querySelectorAll('.scroll:has(> .stacked)')].map(box => [box.scrollWidth, box.clientWidth])"
        )
        assert boxes and all(inner <= outer for inner, outer in boxes)


@pytest.mark.parametrize("page", ["sweep/index.html", "blocks/index.html", "mesh/index.html", "alone.html"])
def test_a_phone_shows_answer_and_picture_at_once_and_unfolds_what_is_cut(results: Path, page: str) -> None:
    cut = "[...document.querySelectorAll('.fold > summary')].filter(one => one.scrollHeight > one.clientHeight + 1)"
    with visiting(results / page, PHONE) as visit:
        assert visit.run("document.querySelector('.board').getBoundingClientRect().top") < 750
        count = visit.run(f"{cut}.length")
        assert count > 0
        for nth in range(visit.page.locator(".fold").count()):
            visit.page.locator(".fold > summary").nth(nth).click()
        assert visit.run(f"{cut}.length") == 0
    with visiting(results / page, DESKTOP) as visit:
        assert visit.run(f"{cut}.length") == 0


def test_an_axis_has_one_place_in_the_picture(results: Path) -> None:
    """The place that held it gets the axis that it replaces."""
    with visiting(results / "mesh/index.html") as visit:
        chosen = lambda: [visit.page.locator(f"[name='{key}']").input_value() for key in ("x", "y")]  # noqa: E731
        assert chosen() == ["destination", "source"]
        visit.page.locator("[name='x']").select_option("source")
        assert chosen() == ["source", "destination"]
        visit.page.locator("[name='y']").select_option("source")
        assert chosen() == ["destination", "source"]


@pytest.mark.parametrize("wide", [PHONE, DESKTOP])
def test_a_press_near_a_point_of_the_lines_opens_its_setting(results: Path, wide: int) -> None:
    """On a phone by a finger. The second press is elsewhere: the tip of the first one does not stay."""
    with visiting(results / "sweep/index.html", wide, link="#view=lines") as visit:
        for at in (0, -1):
            href, x, y = visit.run(ALONE, at)
            if wide == PHONE:
                visit.page.touchscreen.tap(x + 7, y - 10)
            else:
                visit.page.mouse.click(x + 7, y - 10)
            origins, rtt, streams = unquote(href.partition("=")[2]).split(",")
            heading = visit.run("document.querySelector('#cell h2').innerText")
            assert heading == f"origins per side {origins}, RTT {rtt}, streams {streams}"


def test_a_line_below_the_picture_names_the_marks_that_it_has(results: Path) -> None:
    marks = "document.getElementById('marks').innerText"
    with visiting(results / "sweep/index.html", link="#view=lines") as visit:
        assert "Hollow: a warning, in no finding." in visit.run(marks)
        visit.page.locator("[name='flag']").select_option("none")
        assert "Hollow" not in visit.run(marks) and "Mean throughput in Gbit/s; bars: " in visit.run(marks)
        visit.page.locator("[value='value']").check()
        assert visit.run(marks).startswith("Numbers: mean throughput in Gbit/s; ±: half the 95 % interval.")


def test_a_finding_shows_all_of_its_settings_after_a_filter(results: Path) -> None:
    """Outlined in the picture, and alone in the table until the button is pressed again."""
    rows = "document.querySelectorAll('#table tbody tr').length"
    with visiting(results / "sweep/index.html", link="#view=lines") as visit:
        every = visit.run(rows)
        visit.page.locator("[name='only.streams']").select_option(index=1)
        assert visit.run(rows) < every
        button = visit.page.locator(".findings button").first
        button.click()
        assert visit.page.locator("[name='only.streams']").input_value() == ""
        settings = (button.get_attribute("data-settings") or "").split()
        outlined = visit.run("document.querySelectorAll('#picture .shown').length")
        assert outlined == visit.run(rows) == len(settings) < every
        assert "Ringed: " in visit.page.locator("#marks").inner_text()
        assert visit.page.locator("#of-finding").is_visible()
        visit.page.locator("[name='only.streams']").select_option(index=1)
        assert not visit.page.locator("#of-finding").is_visible(), "a filter ends it"
        button.click()
        button.click()
        assert "finding" not in visit.run("location.hash")
        assert visit.run(rows) == every
        assert not visit.page.locator("#of-finding").is_visible()


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [(0.07, 85, ["0.25", "1", "4", "16", "64"]), (0.9, 1.3, None), (0.5, 2.2, None), (0.3, 9, None)],
)
def test_every_tick_of_effects_has_its_number(
    results: Path, low: float, high: float, labels: list[str] | None
) -> None:
    """Also over three orders of magnitude, where a logarithmic axis by itself leaves most of them out."""
    change = f"[{{ words: 'a', text: '', ratio: 1, low: {low}, high: {high} }}]"
    names = "[...drawn.querySelectorAll('[data-mark=\\'x-axis tick label\\'] text')].map(text => text.textContent)"
    with visiting(results / "sweep/index.html") as visit:
        drawn = visit.run(f"(drawn => {names})(drawEffects({change}, 560, null))")
    assert all(drawn) and len(drawn) >= 3
    assert labels in (None, drawn)


def test_settings_without_an_interval_have_no_bars(results: Path) -> None:
    shown = "[document.querySelectorAll('#picture .interval line').length, document.getElementById('marks').innerText]"
    with visiting(results / "sweep/index.html", link="#view=lines") as visit:
        bars, marks = visit.run(shown)
        assert bars > 10 and "bars: " in marks
        visit.run("settings.forEach(row => { row.low = row.high = null; }), drawAll()")
        assert visit.run(shown)[0] == 0 and "bars: " not in visit.run(shown)[1]


def test_links_to_flags_and_cells_show_what_they_lead_to(results: Path) -> None:
    """A flag is chosen and the picture is in sight; a cell that the filters hide ends them."""
    with visiting(results / "sweep/index.html", link="#view=lines") as visit:
        visit.page.locator("a.grade").first.click()
        assert visit.page.locator("[name='flag']").input_value() != ""
        assert abs(visit.run("document.getElementById('map').getBoundingClientRect().top")) < 5
        visit.page.locator("[name='only.streams']").select_option("1")
        visit.page.locator("section[aria-labelledby='h-doubts'] .findings a[href*='cell=']").first.click()
        assert visit.page.locator("[name='only.streams']").input_value() == ""
        assert visit.run("document.querySelectorAll('#picture .chosen').length") == 1


def test_settings_without_a_rate_come_last_in_both_orders_and_are_not_without_warning(results: Path) -> None:
    rates = "[...document.querySelectorAll('#table tbody tr')].map(row => row.children[3].textContent)"
    with visiting(results / "sweep/index.html") as visit:
        for _ in range(2):
            visit.page.locator("#table thead button", has_text="Gbit/s").click()
            texts = visit.run(rates)
            first = next(at for at, text in enumerate(texts) if not text[0].isdigit())
            assert 0 < first < len(texts) and not any(text[0].isdigit() for text in texts[first:])
        visit.page.locator("[name='flag']").select_option("none")
        assert all(text[0].isdigit() for text in visit.run(rates))


def test_the_panel_of_a_link_has_its_rate_against_the_expectation(results: Path) -> None:
    with visiting(results / "mesh/index.html", link="#cell=S03,S04") as visit:
        assert "times the expectation from both sites" in visit.page.locator("#of-link").inner_text()
    with visiting(results / "sweep/index.html") as visit:
        assert not visit.page.locator("#of-link").is_visible()


def test_a_row_of_the_table_opens_its_setting(results: Path) -> None:
    with visiting(results / "mesh/index.html") as visit:
        row = visit.page.locator("#table tbody tr").nth(3)
        source, destination, rate = (row.locator("td, th").nth(place).inner_text() for place in range(3))
        row.locator("td").nth(2).click()
        assert visit.page.locator("#cell h2").inner_text() == f"source {source}, destination {destination}"
        assert visit.page.locator("#cell .value").inner_text().startswith(rate)


def test_the_panel_has_the_numbers_of_all_repetitions_side_by_side(tmp_path: Path) -> None:
    summary = made_up({"stock": 0.0, "fq": 0.3}, 2, seed=0)
    file = written(tmp_path, summary)
    used = opening.load(file)["source_cpu"].sel(tuning="fq", rtt=5.0, streams=4).values.tolist()
    making.make_page(file, file.with_name("index.html"))
    with visiting(file.with_name("index.html"), link="#cell=fq,5 ms,4") as visit:
        read = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        rows = visit.page.locator("#numbers tr").evaluate_all(read)
    assert rows[0] == ["repetition", "1", "2"]
    assert used[0] != used[1]
    assert [f"{SUMMARY['source_cpu'].meaning} (cores)", *map(short, used)] in rows


def test_the_panel_of_a_setting_has_the_paths_of_its_logs_and_cells(tmp_path: Path) -> None:
    """Paths lead from the folder of the run; those next to the page are links."""
    summary = made_up({"stock": 0.0, "fq": 0.3}, 2, seed=0)
    summary["throughput"].loc[{"tuning": "stock", "repetition": 2}] = np.nan
    file = written(tmp_path, summary, command="snakemake", cells="results/tuning/cells")
    deployments = [f"tuning=fq/rtt=5/deployment={number}" for number in (1, 2)]
    here = file.parent / log_folder(deployments[1])
    here.mkdir(parents=True)
    making.make_page(file, file.with_name("index.html"))
    paths = [f"results/tuning/logs/{each}/" for each in deployments]
    paths += [
        f"results/tuning/cells/{each}/streams=4/repetition={at}.json"
        for at, each in enumerate(deployments, 1)
    ]
    with visiting(file.with_name("index.html"), link="#cell=fq,5 ms,4") as visit:
        assert visit.page.locator("#cell .paths li").all_inner_texts() == paths
        links = visit.page.locator("#cell .paths a").all()
        assert [link.inner_text() for link in links] == paths[1:2]
        assert unquote(str(links[0].get_attribute("href"))) == f"{here.relative_to(file.parent)}/"
    with visiting(file.with_name("index.html"), link="#cell=stock,5 ms,4") as visit:
        assert len(visit.page.locator("#cell .paths li").all()) == 2


@pytest.mark.parametrize("wide", [PHONE, DESKTOP])
def test_names_of_sites_do_not_overlap(results: Path, wide: int) -> None:
    for view in ("value", "lines"):
        with visiting(results / "mesh/index.html", wide, link=f"#view={view}") as visit:
            names = sorted(ticks(visit, "#picture", "x"), key=lambda each: each["left"])
            assert len(names) >= 6
            assert all(one["right"] <= other["left"] + 1 for one, other in itertools.pairwise(names))


def test_no_two_lines_look_alike(results: Path) -> None:
    with visiting(results / "mesh/index.html", link="#view=lines") as visit:
        looks = visit.run(LOOKS)
        swatches = visit.page.locator("#legend span").all_inner_texts()
    assert len(looks) == len(set(looks)) == 12
    assert swatches[-12:] == meshes.names(12)


def test_a_limit_without_a_cause_is_dim_in_the_dark(results: Path) -> None:
    fill = 'getComputedStyle(document.querySelector("#picture [data-mark=cell] a rect")).fill'
    for dark in (False, True):
        with visiting(results / "mesh/index.html", dark=dark, link="#view=limit") as visit:
            colour = sum(map(int, re.findall(r"\d+", visit.run(fill))))
        assert colour < 300 if dark else colour > 600
