# SPDX-License-Identifier: Apache-2.0
"""The first page in Chromium: its map, its cells, by mouse and keyboard, on a phone, in the dark, and the surface."""

from pathlib import Path

import pytest
from tpcsweep import dataset
from tpcsweep.pages.content import Beside, content
from tpcsweep.templates import render

from tests.support.browser import assert_dark_for_who_asks, framed
from tests.support.large import large
from tests.support.synthetic import FOUR_AXES, write_sweep

KEYS = """(page, window) => {
  const press = (element, key) => element.dispatchEvent(new window.KeyboardEvent("keydown", { key, bubbles: true }));
  const heading = () => page.querySelector("#cell h3").textContent;
  const first = page.querySelector("td[tabindex='0']"), begun = heading();
  first.focus();
  press(first, "ArrowRight");
  press(page.activeElement, "ArrowDown");
  const at = [page.activeElement.dataset.x, page.activeElement.dataset.y], said = page.activeElement.ariaLabel;
  press(page.activeElement, "Enter");
  const panel = page.activeElement.id, opened = heading();
  const command = page.querySelector("#cell pre").textContent;
  const line = page.querySelector("#cell svg .line").getAttribute("d");
  press(page.activeElement, "Escape");
  return { begun, from: [first.dataset.x, first.dataset.y], at, said, panel, opened, command, line,
    back: [page.activeElement.dataset.x, page.activeElement.dataset.y] };
}"""
LAYOUT = """(page, window) => ({
  wide: page.scrollingElement.scrollWidth, cells: page.querySelectorAll("td[data-x]").length })"""
SHOWN = """(page, window) => {
  page.querySelectorAll(".findings button")[0].click();
  return page.querySelectorAll("td.shown").length;
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
    file.write_text(render("page", **content(summary, folded.samples, folded.transfers, Beside())))
    return file


def test_arrows_move_enter_opens_and_escape_returns(first_page: Path, tmp_path: Path) -> None:
    seen = framed(first_page, tmp_path, 1200, KEYS)
    assert (seen["from"], seen["at"]) == (["0", "3"], ["1", "2"])
    assert "RTT 50 ms, streams 2" in seen["said"] and "Gbit/s" in seen["said"]
    assert seen["panel"] == "cell" and seen["opened"].endswith("RTT 50 ms, streams 2") != seen["begun"]
    assert seen["command"].startswith("rm -f results/demo/cells/origins=")
    assert seen["command"].endswith("rtt=50/streams=2/repetition=1.json && snakemake")
    assert seen["line"].startswith("M") and seen["back"] == seen["at"]


def test_nothing_is_wider_than_a_phone(first_page: Path, tmp_path: Path) -> None:
    seen = framed(first_page, tmp_path, 390, LAYOUT)
    assert seen["wide"] <= 390
    assert seen["cells"] == 16


def test_it_is_dark_for_who_asks(first_page: Path, tmp_path: Path) -> None:
    assert_dark_for_who_asks(first_page, tmp_path)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [(SHOWN, 1), (SURFACE, {"library": "object", "shown": True})],
    ids=["cells", "surface"],
)
def test_what_is_asked_for_is_shown(first_page: Path, tmp_path: Path, asked: str, shown: object) -> None:
    assert framed(first_page, tmp_path, 1200, asked) == shown


def test_ten_thousand_cells_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text(render("page", **content(*large(tmp_path), Beside())))
    assert framed(file, tmp_path, 1200, LAYOUT)["cells"] == 10_000
