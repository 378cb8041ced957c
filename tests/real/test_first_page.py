# SPDX-License-Identifier: Apache-2.0
"""The first page in Chromium: its pictures, its cells, by mouse and keyboard, on a phone, in the dark, and links."""

import re
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from tpcsweep.analysis.models.choice import choose
from tpcsweep.analysis.models.fit import fit
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.observations import observe
from tpcsweep.analysis.models.saved_fits import save_fits
from tpcsweep.analysis.plans.forecast import forecast
from tpcsweep.data import folding
from tpcsweep.data.labels import flag_masks
from tpcsweep.pages.content import page_content
from tpcsweep.pages.rendering import render

from tests.support.browser import PHONE, visiting
from tests.support.large import large
from tests.support.synthetic import FOUR_AXES, write_sweep

KEYS = """() => {
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const heading = () => document.querySelector("#cell h2").textContent;
  const first = document.querySelector("#picture a[tabindex='0']"), begun = heading();
  const from = first.getAttribute("href");
  first.focus();
  press(first, "ArrowLeft");
  press(document.activeElement, "ArrowDown");
  const at = document.activeElement.getAttribute("href"), label = document.activeElement.ariaLabel, focused = heading();
  press(document.activeElement, "Enter");
  const panel = document.activeElement.id, opened = heading();
  const command = document.querySelector("#command").textContent;
  const line = document.querySelector("#cell svg.goodput .line path").getAttribute("d");
  press(document.activeElement, "Escape");
  return { begun, from, at, label, focused, panel, opened, command, line, address: location.hash,
    back: document.activeElement.getAttribute("href") };
}"""
EDGED = """() => [...document.querySelectorAll("#picture [data-mark=text] text")]
  .map(text => [getComputedStyle(text).fill, getComputedStyle(text).stroke]).filter(([, edge]) => edge !== "none")"""
LAYOUT = """() => ({
  wide: document.scrollingElement.scrollWidth, cells: document.querySelectorAll("#picture a").length,
  table: document.querySelector("#table").scrollWidth })"""
SHOWN = """() => {
  const [one, many] = document.querySelectorAll(".findings button");
  one.click();
  const first = document.querySelectorAll("#picture a.shown").length;
  many.click();
  const cells = [...document.querySelectorAll("#picture a.shown")].map(link => link.getAttribute("href"));
  many.click(); // none is chosen
  return { first, panels: new Set(cells.map(cell => cell.split(",").slice(0, 2).join())).size };
}"""
EVIDENCE = """() => {
  go({ view: "limit", cell: "1,1,100 ms,1" });
  return { letters: document.querySelectorAll("#picture [data-mark=text] text").length,
    legend: document.querySelector("#legend").textContent,
    shares: document.querySelector("#cell .shares").textContent,
    advice: document.querySelector("#cell .advice").textContent,
    hatched: document.querySelectorAll("#picture [fill='url(#warning)'] rect").length,
    cell: document.querySelector("#cell").textContent };
}"""
FILTERED = """() => {
  const count = chosen => document.querySelectorAll(chosen).length;
  go({ view: "lines", "only.rtt": "50 ms" });
  const some = [count("#picture a"), count("#table tbody tr"), document.querySelector("#drawn").textContent];
  go({ "only.rtt": null, columns: "rtt", x: "cores", y: "streams" });
  const panels = count("#picture [data-mark='fx-axis tick label'] text");
  go({ columns: null, x: null, y: null, sort: "throughput down" });
  const column = [...document.querySelectorAll("#table tbody tr td:nth-child(5)")];
  const rates = column.map(cell => Number(cell.textContent)).filter(Boolean);
  const shared = document.querySelector("#shared").textContent;
  const carried = [...document.querySelectorAll("#table td:last-child")].map(cell => cell.textContent).filter(Boolean);
  return { some, panels, shared, repeated: carried.filter(text => shared.includes(text)).length, many: rates.length,
    sorted: rates.every((rate, at) => !at || rate <= rates[at - 1]) };
}"""
PLANNED = """() => {
  const form = document.getElementById("plan"), told = () => document.getElementById("planned").textContent;
  const ask = (target, rtt) => {
    form.elements.target.value = target;
    form.elements.rtt.value = rtt;
    form.dispatchEvent(new Event("input"));
    return told();
  };
  return [ask("0.5", "20"), ask("9", "20"), ask("0.5", "5000"), ask("", "20")];
}"""
COLOURS = """() => {
  const style = getComputedStyle(document.body);
  return [style.color, style.backgroundColor].map(colour => colour.match(/\\d+/g).slice(0, 3).map(Number));
}"""


@pytest.fixture(scope="module")
def first_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    axes = {**FOUR_AXES, "repetition": [1]}
    folded = folding.fold(write_sweep(folder, axes, failed=[{"rtt": 50.0, "streams": 8, "cores": 2.0}]), axes)
    again = {"command": "snakemake", "cells": "results/demo/cells", "repeat": "cells"}
    file = folder / "index.html"
    summary = folded.summary.assign_attrs(again)
    masks = flag_masks(summary)
    summary["flags"][:] = masks["too_short"]
    doubted = {"rtt": 5.0, "streams": 1}
    summary["flags"].loc[doubted] = masks["not_steady"]
    summary["throughput_high"].loc[doubted] = 2 * summary["throughput"].loc[doubted]  # pale, too
    for limit, share in (("window", 0.7), ("bandwidth", 0.3)):
        summary[f"share_{limit}"] = xr.full_like(summary["throughput"], share)
    observations, models = observe(summary), {name: MODELS[name] for name in ("usl", "constant")}
    fits = {name: fit(model, observations) for name, model in models.items()}
    save_fits(folder / "models.json", "made up", fits, choose(models, observations, fits, learned={}))
    made = forecast(summary, folder / "models.json")
    file.write_text(render("page", **page_content(summary, folded.samples, folded.transfers, forecast=made)))
    return file


@pytest.fixture(scope="module")
def seen(first_page: Path) -> dict[str, Any]:
    """What the scripts find that use the page, one after the other, in one browser."""
    scripts = {"keys": KEYS, "planned": PLANNED, "shown": SHOWN, "evidence": EVIDENCE, "filtered": FILTERED}
    with visiting(first_page) as visit:
        return {name: visit.run(script) for name, script in scripts.items()}


def test_arrows_move_enter_opens_and_escape_returns(seen: dict[str, Any]) -> None:
    keys = seen["keys"]
    (rtt, streams), (rtt_before, streams_before) = (
        each.split(",")[2:4] for each in (keys["at"], keys["from"])
    )
    assert int(streams) * 2 == int(streams_before) and float(rtt.split("%")[0]) <= float(
        rtt_before.split("%")[0]
    )
    assert keys["focused"] == keys["opened"] != keys["begun"]
    assert "streams" in keys["label"] and "Gbit/s" in keys["label"]
    assert keys["panel"] == "cell" and keys["address"] == keys["back"] == keys["at"]
    assert keys["command"].startswith("rm -f results/demo/cells/origins=")
    assert keys["command"].endswith("/repetition=1.json && snakemake")
    assert keys["line"].startswith("M")


def test_cells_of_a_finding_are_outlined_when_asked_for(seen: dict[str, Any]) -> None:
    assert seen["shown"]["first"] > 1 and seen["shown"]["panels"] == 4


def test_filters_of_the_table_and_places_of_axes_change_the_picture(seen: dict[str, Any]) -> None:
    filtered = seen["filtered"]
    assert filtered["some"] == [16, 16, "16 of 64 settings, by the filters of the table."]
    assert filtered["panels"] == 4 and filtered["sorted"] and filtered["many"] > 50


def test_a_note_of_nearly_all_settings_is_written_once(seen: dict[str, Any]) -> None:
    filtered = seen["filtered"]
    assert (
        filtered["shared"].startswith("93 % of all settings carry the note: ") and filtered["repeated"] == 0
    )


def test_a_cell_shows_its_evidence_and_what_to_change(seen: dict[str, Any]) -> None:
    evidence = seen["evidence"]
    assert evidence["letters"] == 62 and "W TCP's window" in evidence["legend"]
    assert (
        evidence["shares"]
        == "Its time was limited by TCP's window (W) for 70 %, by the path's bandwidth (B) for 30 %."
    )
    assert re.match(
        r"Measured gain: more streams \(2 instead of 1\), [\d.]+ times from this setting \(",
        evidence["advice"],
    )
    assert "Limited by TCP's window for 70 % of its time: TCP's windows were too small" in evidence["cell"]
    assert evidence["hatched"] == 4


def test_a_link_leads_to_a_cell_in_a_view(first_page: Path) -> None:
    with visiting(first_page, link="#view=value&cell=2,1,20%20ms,4") as visit:
        heading = visit.run("document.querySelector('#cell h2').textContent")
        assert heading == "origins per side 2, cores per side 1, RTT 20 ms, streams 4"
        assert visit.run("document.querySelector('#choices input:checked').value") == "value"


def test_a_link_to_a_cell_shows_it_on_a_phone(first_page: Path) -> None:
    with visiting(first_page, PHONE, link="#cell=2,1,20%20ms,4") as visit:
        assert visit.run("document.getElementById('cell').getBoundingClientRect().top / innerHeight") < 0.5


@pytest.mark.parametrize("dark", [False, True])
def test_numbers_of_pale_and_hatched_cells_can_be_read(first_page: Path, dark: bool) -> None:
    with visiting(first_page, link="#view=limit", dark=dark) as visit:
        edged = visit.run(EDGED)
    assert len(edged) == 4 and all(text != edge for text, edge in edged)


def test_a_target_is_answered_on_the_page(seen: dict[str, Any]) -> None:
    reached, not_reached, far, unasked = seen["planned"]
    assert reached.startswith("streams ") and "at RTT 20 ms" in reached and "probability of 95 %" in reached
    assert "Not reached" in not_reached and "extrapolates" in far and "Type a throughput" in unasked


def test_nothing_is_wider_than_a_phone(first_page: Path) -> None:
    with visiting(first_page, PHONE) as visit:
        layout = visit.run(LAYOUT)
    assert max(layout["wide"], layout["table"]) <= PHONE
    assert layout["cells"] == 64


def test_the_page_is_dark_on_request(first_page: Path) -> None:
    for is_dark in (False, True):
        with visiting(first_page, dark=is_dark) as visit:
            ink, paper = map(sum, visit.run(COLOURS))
        dark, light = (paper, ink) if is_dark else (ink, paper)
        assert light > 600 > 200 > dark


def test_ten_thousand_cells_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text(render("page", **page_content(*large(tmp_path))))
    with visiting(file) as visit:
        assert visit.run(LAYOUT)["cells"] == 10_000
