# SPDX-License-Identifier: Apache-2.0
"""What is said of cells that were not measured."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import pytest
from bs4 import BeautifulSoup
from docutils.core import publish_parts
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tpcsweep.configuration.loading import Configuration, load, wanted
from tpcsweep.running import holes, results
from tpcsweep.running.holes import Hole

ROOT = Path(__file__).resolve().parents[2]
SIGNS = "<>&{}%#\\*`_|:.@[]()-=+'\"\0\x1b\n"
WORDS = st.text(max_size=40) | st.text(SIGNS + "ab 1", max_size=40)


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    return load({"sweep": "smoke", "testbed": "netns", "results": str(tmp_path / "with space")}, ROOT)


def leave_out(configuration: Configuration, number: int, why: str) -> None:
    cell = configuration.grid.cells[number]
    spec = wanted(configuration, cell)
    results.leave_out(configuration.cell_file(cell), spec, why)


def test_cells_that_were_left_out_are_told_by_deployment(configuration: Configuration) -> None:
    assert holes.holes(configuration, configuration.grid.cells) == []
    for number in range(len(configuration.grid.cells)):
        leave_out(configuration, number, "rtt asked 5 ms, found 9 ms")
    found = holes.holes(configuration, configuration.grid.cells)
    assert [hole.deployment for hole in found] == list(configuration.grid.deployments)
    assert {hole.why for hole in found} == {"rtt asked 5 ms, found 9 ms"}
    file = configuration.cell_file(configuration.grid.cells[0])
    assert found[0].command == (
        f"snakemake --config sweep=smoke testbed=netns 'results={configuration.results}' -- '{file}'"
    )


def test_a_cell_that_was_left_out_is_stale(configuration: Configuration) -> None:
    leave_out(configuration, 0, "no path")
    cell = configuration.grid.cells[0]
    file = configuration.cell_file(cell)
    assert results.left_out(file)
    assert results.stale(file, wanted(configuration, cell))
    assert not results.left_out(file.with_name("absent"))


@settings(max_examples=50)
@given(words=st.lists(WORDS, min_size=1, max_size=3))
@example(
    words=[".. include:: /etc/passwd", ".. raw:: html <b>", "`x <javascript:alert(1)>`_", "a::", "- 1. a"]
)
@example(words=["{{ cycler }}", "{% raw %}{#", "</script><script>alert(1)</script>", ":raw:`<b>`", ">>> a"])
def test_the_front_page_has_every_word_whatever_it_is(words: list[str]) -> None:
    found = [
        Hole(f"rtt={number}", ("a", "b"), why, "snakemake -- x_y.json") for number, why in enumerate(words)
    ]
    text = holes.table(found, 7)
    page = publish_parts(
        jinja2.Template(text).render(), writer="html", settings_overrides={"report_level": 5}
    )
    shown = BeautifulSoup(page["html_body"], "html.parser")
    assert "system-message" not in page["html_body"]
    assert f"Not measured: {2 * len(words)} of 7 cells" in shown.get_text()
    rows = [[cell.get_text().strip() for cell in row.find_all("td")] for row in shown.find_all("tr")[1:]]
    assert [row[2] for row in rows] == [readable(word) for word in words]
    known = {"div", "main", "p", "strong", "table", "colgroup", "col", "thead", "tbody", "tr", "th", "td"}
    assert {tag.name for tag in shown.find_all(name=True)} <= known


def readable(text: str) -> str:
    """A text as a page shows it: in one line, without signs that are none to see."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def test_files_say_what_was_left_out(tmp_path: Path) -> None:
    front, page, file = (tmp_path / name for name in ("front.rst", "page.rst", "not_measured.json"))
    front.write_text("All about it.\n")
    holes.write([], 7, file, page, front)
    assert (json.loads(file.read_text()), page.read_text()) == ([], "All about it.\n")
    holes.write([Hole("rtt=5", ("rtt=5/streams=1",), "no path", "snakemake")], 7, file, page, front)
    [one] = json.loads(file.read_text())
    assert one == {
        "deployment": "rtt=5",
        "cells": ["rtt=5/streams=1"],
        "why": "no path",
        "command": "snakemake",
    }
    assert page.read_text().endswith("All about it.\n")


def test_the_front_page_of_a_report_is_made_of_what_is_listed(
    configuration: Configuration, tmp_path: Path
) -> None:
    front, page = tmp_path / "front.rst", tmp_path / "page.rst"
    front.write_text("All about it.\n")
    page.write_text("{{ whatever came with the results }}")
    holes.renew(configuration, page, front)
    assert page.read_text() == "All about it.\n"
    hole = Hole("rtt=5", ("rtt=5/streams=1",), "no path", "snakemake")
    holes.write([hole], 7, configuration.folder / holes.FILE, page, front)
    written = page.read_text()
    page.unlink()
    holes.renew(configuration, page, front)
    assert page.read_text() == written.replace("1 of 7 cells", "1 of 2 cells")


def test_what_is_said_at_the_end_steers_no_terminal() -> None:
    said = holes.listed([Hole("rtt=5", ("a",), "no\x1b[2Jpath\nat all", "snakemake")])
    assert said == "  rtt=5 (1 cell): no [2Jpath\nat all\n    snakemake"
