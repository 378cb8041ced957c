# SPDX-License-Identifier: Apache-2.0
"""The first page in Chromium: its map, its cells, by mouse and keyboard, on a phone, in the dark, and the surface."""

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
  const heading = () => document.querySelector("#cell h3").textContent;
  const first = document.querySelector("td[tabindex='0']"), begun = heading();
  first.focus();
  press(first, "ArrowRight");
  press(document.activeElement, "ArrowDown");
  const at = document.activeElement.dataset.cell, said = document.activeElement.ariaLabel, focused = heading();
  press(document.activeElement, "Enter");
  const panel = document.activeElement.id, opened = heading();
  const command = document.querySelector("#cell pre").textContent;
  const line = document.querySelector("#cell svg .line").getAttribute("d");
  press(document.activeElement, "Escape");
  return { begun, from: first.dataset.cell, at, said, focused, panel, opened, command, line,
    back: document.activeElement.dataset.cell };
}"""
LAYOUT = """() => ({
  wide: document.scrollingElement.scrollWidth, cells: document.querySelectorAll("td[data-cell]").length })"""
SHOWN = """() => {
  const [one, many] = document.querySelectorAll(".findings button");
  one.click();
  const first = document.querySelectorAll("td.shown").length;
  many.click();
  const panels = [...document.querySelectorAll(".map")].filter(panel => panel.querySelector("td.shown")).length;
  return { first, panels };
}"""
EVIDENCE = """() => {
  const cell = document.querySelector("td[tabindex='0']");
  cell.focus();
  const shares = [...document.querySelectorAll("#cell .shares span")];
  return { letters: document.querySelectorAll(".map td b").length,
    legend: document.querySelector("#legend").textContent,
    shares: shares.map(share => share.title), advice: document.querySelector("#cell .advice").textContent,
    hatched: document.querySelectorAll(".map td.warning").length,
    cell: document.querySelector("#cell").textContent };
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
SURFACE = """() => {
  document.getElementById("draw").click();
  return { library: typeof window.Plotly, shown: !document.getElementById("surface").hidden };
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
    summary["flags"].loc[{"rtt": 5.0, "streams": 1}] = masks["not_steady"]
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
    scripts = {"evidence": EVIDENCE, "keys": KEYS, "planned": PLANNED, "shown": SHOWN, "surface": SURFACE}
    with visiting(first_page) as visit:
        return {name: visit.run(script) for name, script in scripts.items()}


def test_arrows_move_enter_opens_and_escape_returns(seen: dict[str, Any]) -> None:
    keys = seen["keys"]
    assert int(keys["at"]) - int(keys["from"]) == 1 - 4  # a stream more, and the RTT before
    assert keys["focused"] == keys["opened"]
    assert "RTT 50 ms, streams 2" in keys["said"] and "Gbit/s" in keys["said"]
    assert keys["panel"] == "cell" and keys["opened"].endswith("RTT 50 ms, streams 2") != keys["begun"]
    assert keys["command"].startswith("rm -f results/demo/cells/origins=")
    assert keys["command"].endswith("rtt=50/streams=2/repetition=1.json && snakemake")
    assert keys["line"].startswith("M") and keys["back"] == keys["at"]


def test_cells_of_a_finding_and_the_surface_are_shown_when_asked_for(seen: dict[str, Any]) -> None:
    assert seen["shown"]["first"] > 1 and seen["shown"]["panels"] == 4
    assert seen["surface"] == {"library": "object", "shown": True}


def test_a_cell_shows_its_evidence_and_what_to_change(seen: dict[str, Any]) -> None:
    evidence = seen["evidence"]
    assert evidence["letters"] == 62 and "W" in evidence["legend"] and "TCP's window" in evidence["legend"]
    assert evidence["shares"] == ["TCP's window 70 %", "the path's bandwidth 30 %"]
    assert re.match(r"More streams \(2 instead of 1\): [\d.]+ times from here \(", evidence["advice"])
    assert "Limited by TCP's window for 70 % of its time: TCP's windows were too small" in evidence["cell"]
    assert evidence["hatched"] == 4


def test_a_target_is_answered_on_the_page(seen: dict[str, Any]) -> None:
    reached, not_reached, far, unasked = seen["planned"]
    assert reached.startswith("streams ") and "at RTT 20 ms" in reached and "probability of 95 %" in reached
    assert "Not reached" in not_reached and "extrapolates" in far and "Type a throughput" in unasked


def test_nothing_is_wider_than_a_phone(first_page: Path) -> None:
    with visiting(first_page, PHONE) as visit:
        layout = visit.run(LAYOUT)
    assert layout["wide"] <= PHONE
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
