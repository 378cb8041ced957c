# SPDX-License-Identifier: Apache-2.0
"""The first page in Chromium: its map, its cells, by mouse and keyboard, on a phone, in the dark, and the surface."""

import re
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from tpcsweep import dataset
from tpcsweep.dataset import flag_masks
from tpcsweep.models import MODELS, choose, fit, observe, save_fits
from tpcsweep.pages.content import page_content
from tpcsweep.pages.forecast import forecast
from tpcsweep.templates import render

from tests.support.browser import framed
from tests.support.large import large
from tests.support.synthetic import FOUR_AXES, write_sweep

KEYS = """(page, window) => {
  const press = (element, key) => element.dispatchEvent(new window.KeyboardEvent("keydown", { key, bubbles: true }));
  const heading = () => page.querySelector("#cell h3").textContent;
  const first = page.querySelector("td[tabindex='0']"), begun = heading();
  first.focus();
  press(first, "ArrowRight");
  press(page.activeElement, "ArrowDown");
  const at = page.activeElement.dataset.cell, said = page.activeElement.ariaLabel, focused = heading();
  press(page.activeElement, "Enter");
  const panel = page.activeElement.id, opened = heading();
  const command = page.querySelector("#cell pre").textContent;
  const line = page.querySelector("#cell svg .line").getAttribute("d");
  press(page.activeElement, "Escape");
  return { begun, from: first.dataset.cell, at, said, focused, panel, opened, command, line,
    back: page.activeElement.dataset.cell };
}"""
LAYOUT = """(page, window) => ({
  wide: page.scrollingElement.scrollWidth, cells: page.querySelectorAll("td[data-cell]").length })"""
SHOWN = """(page, window) => {
  const [one, many] = page.querySelectorAll(".findings button");
  one.click();
  const first = page.querySelectorAll("td.shown").length;
  many.click();
  const panels = [...page.querySelectorAll(".map")].filter(panel => panel.querySelector("td.shown")).length;
  return { first, panels };
}"""
EVIDENCE = """(page, window) => {
  const cell = page.querySelector("td[tabindex='0']");
  cell.focus();
  const shares = [...page.querySelectorAll("#cell .shares span")];
  return { letters: page.querySelectorAll(".map td b").length, legend: page.querySelector("#legend").textContent,
    shares: shares.map(share => share.title), advice: page.querySelector("#cell .advice").textContent,
    hatched: page.querySelectorAll(".map td.warning").length, cell: page.querySelector("#cell").textContent };
}"""
PLANNED = """(page, window) => {
  const form = page.getElementById("plan"), told = () => page.getElementById("planned").textContent;
  const ask = (target, rtt) => {
    form.elements.target.value = target;
    form.elements.rtt.value = rtt;
    form.dispatchEvent(new window.Event("input"));
    return told();
  };
  return [ask("0.5", "20"), ask("9", "20"), ask("0.5", "5000"), ask("", "20")];
}"""
COLOURS = """(page, window) => {
  const style = window.getComputedStyle(page.body);
  return [style.color, style.backgroundColor].map(colour => colour.match(/\\d+/g).slice(0, 3).map(Number));
}"""
SURFACE = """(page, window) => {
  page.getElementById("draw").click();
  return { library: typeof window.Plotly, shown: !page.getElementById("surface").hidden };
}"""


@pytest.fixture(scope="module")
def first_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    axes = {**FOUR_AXES, "repetition": [1]}
    folded = dataset.fold(write_sweep(folder, axes, failed=[{"rtt": 50.0, "streams": 8, "cores": 2.0}]), axes)
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
def seen(first_page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the scripts find that use the page, one after the other, in one browser."""
    scripts = {"evidence": EVIDENCE, "keys": KEYS, "planned": PLANNED, "shown": SHOWN, "surface": SURFACE}
    each = ", ".join(f"{name}: ({script})(page, window)" for name, script in scripts.items())
    found: dict[str, Any] = framed(
        first_page, tmp_path_factory.mktemp("seen"), 1200, f"(page, window) => ({{{each}}})"
    )
    return found


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


def test_nothing_is_wider_than_a_phone(first_page: Path, tmp_path: Path) -> None:
    layout = framed(first_page, tmp_path, 390, LAYOUT)
    assert layout["wide"] <= 390
    assert layout["cells"] == 64


def test_it_is_dark_for_who_asks(first_page: Path, tmp_path: Path) -> None:
    for how, is_dark in (((), False), (("--blink-settings=preferredColorScheme=0",), True)):
        ink, paper = map(sum, framed(first_page, tmp_path, 1200, COLOURS, *how))
        dark, light = (paper, ink) if is_dark else (ink, paper)
        assert light > 600 > 200 > dark


def test_ten_thousand_cells_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text(render("page", **page_content(*large(tmp_path))))
    assert framed(file, tmp_path, 1200, LAYOUT)["cells"] == 10_000
