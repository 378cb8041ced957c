# SPDX-License-Identifier: Apache-2.0
"""Pages: their sentences are true of the data, text stays text, and the first one bears 10⁴ cells."""

import base64
import hashlib
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from bs4 import BeautifulSoup
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nbconvert.filters import markdown2html
from scipy import stats
from tpcsweep.common.files import write_text
from tpcsweep.common.numbers import short
from tpcsweep.data import folding
from tpcsweep.data import tables as dataset
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.folding import Folded
from tpcsweep.data.labels import STATUS, flag_masks
from tpcsweep.data.places import LIVE_PAGE, RUN_UNDER_WAY
from tpcsweep.data.variables import LIMIT_NAMES, LIMIT_REMEDIES, LIMITS, REMEDIES
from tpcsweep.pages import making
from tpcsweep.pages.content import dataset_facts, page_content
from tpcsweep.pages.figures import limits
from tpcsweep.pages.figures.panels import as_table, as_text
from tpcsweep.pages.findings import findings
from tpcsweep.pages.gains import gains
from tpcsweep.pages.limit_colours import LIMIT_COLOURS, LIMIT_LETTERS
from tpcsweep.pages.rendering import LIBRARIES, as_json, percent, period, render
from tpcsweep.pages.series import cell_series

from tests.support.large import large
from tests.support.projects import study_of
from tests.support.synthetic import write_sweep
from tests.support.workflow import ROOT

AXES = {"cores": [1.0, 2.0], "rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1]}
CELLS = 12
READABLE = st.characters(exclude_categories=["C"])
TEXTS = st.text(READABLE, max_size=30) | st.text("<>&\"'=/ab `*_[](){}#!|~$\\:-\n", max_size=30)
SCRIPT = "<script>document.title = 'owned'</script>"
HOSTILE = "</script><script>document.body.id='owned'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Folded:
    return folding.fold(write_sweep(tmp_path_factory.mktemp("cells"), AXES), AXES)


@pytest.fixture
def summary(folded: Folded) -> xr.Dataset:
    """A copy of the summary, for tests that change it."""
    return folded.summary.copy(deep=True)


def content(folded: Folded, summary: xr.Dataset, *claims: dict[str, str]) -> dict[str, Any]:
    return page_content(summary, folded.samples, folded.transfers, claims=claims)


def shown(folded: Folded, summary: xr.Dataset, *claims: dict[str, str]) -> BeautifulSoup:
    return parsed(render("page", **content(folded, summary, *claims)))


def parsed(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


@settings(max_examples=20)
@given(data=st.data())
def test_every_sentence_is_true_of_the_data(folded: Folded, data: st.DataObject) -> None:
    summary = folded.summary.copy(deep=True)
    shape = summary.throughput.shape
    masks = flag_masks(summary)
    flags = [0, 0, 0, *(masks[flag] for flag in ("not_steady", "files_missing", "wide_interval"))]
    drawn = {"throughput": st.floats(0.001, 2), "status": st.sampled_from([0, 1, 1, 1, 2])}
    drawn |= {"flags": st.sampled_from(flags), "limit": st.sampled_from(["", "window", "cpu_destination"])}
    for name, values in drawn.items():
        cells = data.draw(st.lists(values, min_size=CELLS, max_size=CELLS))
        summary[name][:] = np.array(cells).reshape(shape)
    told = findings(summary)

    rates, limits, status = (summary[name].values.ravel() for name in ("throughput", "limit", "status"))
    loud = (summary.flags.values.ravel() & (masks["not_steady"] | masks["files_missing"])) > 0
    ok = status == STATUS.index("ok")
    trusted = ok & ~loud
    judged = trusted & (limits != "")
    assert len(told) <= 7
    for found in told:
        cells, text = list(found.cells), found.text
        if text.startswith("The highest"):
            assert max(rates[cells]) == rates[trusted].max()
            assert f"{short(rates[trusted].max())} Gbit/s" in text
        for limit in ("window", "cpu_destination"):
            if text.lower().startswith(f"{LIMIT_NAMES[limit]} limits".lower()):
                assert cells == np.flatnonzero(judged & (limits == limit)).tolist()
                assert all(remedy.words in text.lower().replace("tcp", "TCP") for remedy in REMEDIES[limit])
        if "carry a warning" in text:
            assert cells == np.flatnonzero(loud & (status > 0)).tolist()
        if re.search(r"[0-9] (failed|were not measured)\.", text):
            assert cells == np.flatnonzero(status != STATUS.index("ok")).tolist()
    few = told[0].text.startswith("Too few cells")
    assert few == (trusted.sum() < max(ok.sum() / 3, min(4, ok.sum() / 2)))
    assert few or bool(trusted.any()) == ("Gbit/s" in told[0].text)
    assert (bool(judged.any()) and not few) == any(" limits " in found.text for found in told)


def test_limits_are_named_with_their_region_and_remedy(summary: xr.Dataset) -> None:
    summary["limit"][:] = "window"
    summary["limit"].loc[{"cores": 1.0, "streams": [2, 4]}] = "cpu_destination"
    told = [found.text for found in findings(summary)]
    cpu = "The destination's CPU limits every cell with 1 core and 2 streams or more (4 cells)."
    assert any(text.startswith(f"{cpu}\nMore cores at the destination: ") for text in told)
    window = "TCP's window limits 8 of 12 cells, among them all 6 with 2 cores."
    assert any(text.startswith(window) for text in told)


def test_the_answer_names_what_fills_the_path(folded: Folded, summary: xr.Dataset) -> None:
    summary["limit"][:] = "bandwidth"
    summary["throughput"][:] = 0.99
    assert content(folded, summary)["answer"] == "The path of 1 Gbit/s limits every cell (12)."
    far = {"rtt": 50.0}
    summary["limit"].loc[far] = "window"
    summary["throughput"].loc[far] = 0.1 * summary["streams"]
    told = content(folded, summary)["answer"]
    # 0.1 Gbit/s for each stream with 4 MiB: 0.95 Gbit/s takes 9.5 streams, or 38 MiB in one.
    assert told.startswith(
        "At RTT 50 ms, TCP's window of 4 MiB limits 6 of 6 cells: 10 streams, or one with 38 MiB, fill 1 Gbit/s if "
        "nothing else limits; measured: 4 streams 0.4 Gbit/s. What helps: more streams, 2 times here for each step "
        "to the next measured value of streams ("
    )
    summary["limit"].loc[far] = "cpu_destination"
    summary["destination_cpu"] = summary["throughput"] * 0.5
    assert (
        "limits 6 of 12 cells: it takes 0.5 cores for each Gbit/s; measured: at most 0.4"
        in content(folded, summary)["answer"]
    )
    # A cell at the path's rate counts like in the findings, and simulated rates are not called measured.
    summary["throughput"].loc[{**far, "streams": 4}] = 0.96
    simulated = content(folded, summary.assign_attrs(testbed_kind="simulation"))
    assert "limits 6 of 12 cells" in simulated["answer"] and "simulated: at most 0.96" in simulated["answer"]
    assert simulated["data"]["interval"] == "95 % of parameter sets"
    assert content(folded, summary)["data"]["interval"] == "95 % interval"
    assert all(axis["comment"] for axis in simulated["data"]["axes"])


def test_the_first_lines_have_every_setting_that_no_axis_varies(summary: xr.Dataset) -> None:
    summary["duration"][:] = 9.0
    one = dataset_facts(summary.isel(rtt=0, cores=1, streams=2))["settings"]
    assert {"RTT 5 ms", "cores: 2", "streams 4", "origins 1", "cells of 9 s"} <= {*one}
    summary["duration"][0] = 76.4
    told = dataset_facts(summary)["settings"]
    assert "cells of 9 to 76 s" in told and not any("RTT" in text for text in told)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ("2026-11-29T10:53:07Z", "2026-11-29 10:53"),
        ("2026-11-29T11:02:07Z", "2026-11-29 10:53 to 11:02"),
        ("2026-11-30T00:02:07Z", "2026-11-29 10:53 to 2026-11-30 00:02"),
    ],
)
def test_a_period_says_nothing_twice(end: str, text: str) -> None:
    assert period("2026-11-29T10:53:01Z", end) == text


def test_an_effect_is_the_mean_over_settings_with_its_interval(summary: xr.Dataset) -> None:
    ratios = np.array([1.0, 1.5, 2.0, 3.0])  # of four streams to one, a setting each
    summary["throughput"][:] = 0.1 * summary.cores
    summary["throughput"].loc[{"streams": 4}] *= ratios.reshape(2, 2, 1)
    mean, error = np.log(ratios).mean(), stats.sem(np.log(ratios))
    low, high = np.exp(stats.t.interval(0.95, 3, mean, error))
    [found] = [found for found in findings(summary) if found.changes]
    [change] = [change for change in found.changes if change.words == "4 streams instead of 1"]
    assert (change.ratio, change.low, change.high) == pytest.approx((np.exp(mean), low, high))
    assert change.pairs == 4
    # Cells that are in no pair are not named.
    summary["status"].loc[{"streams": 4, "cores": 1.0}] = STATUS.index("failed")
    summary["status"].loc[{"rtt": 50.0}] = STATUS.index("failed")
    [found] = [found for found in findings(summary) if found.changes]
    [change] = [change for change in found.changes if change.words == "4 streams instead of 1"]
    assert (change.ratio, change.pairs) == (pytest.approx(2), 1) and np.isnan(change.low)
    assert found.cells == (0, 1, 6, 7, 8)


def test_each_limit_has_letters_a_colour_a_remedy_and_a_name_for_people() -> None:
    tables: tuple[Any, ...] = LIMIT_LETTERS, LIMIT_COLOURS, LIMIT_REMEDIES, LIMIT_NAMES
    assert not [table for table in tables if not set(LIMITS) <= set(table)]
    assert all(len({*table.values()}) == len(table) for table in (LIMIT_LETTERS, LIMIT_NAMES))
    assert not any("_" in name for name in LIMIT_NAMES.values())


@pytest.mark.parametrize(("count", "warned"), [(2, False), (3, True)])
def test_a_busy_machine_comes_first(folded: Folded, summary: xr.Dataset, count: int, warned: bool) -> None:
    summary["flags"].values.flat[:count] = flag_masks(summary)["machine_saturated"]
    banner = shown(folded, summary).select_one("main > :first-child")
    assert banner is not None and ("banner" in banner.get_attribute_list("class")) == warned
    assert not warned or f"{count} of {CELLS} cells: machine saturated ({count})" in banner.get_text()


def test_what_is_above_the_paths_rate_is_no_headline(folded: Folded, summary: xr.Dataset) -> None:
    summary["throughput"].values.flat[3] = 1.03
    summary["flags"].values.flat[3] |= flag_masks(summary)["beyond_path"]
    made = content(folded, summary)
    assert "1.03" not in made["findings"][0]["text"]
    [flag] = [flag for flag in made["data"]["flags"] if flag["words"] == "beyond the path's rate"]
    assert [at for at, value in enumerate(made["data"]["cells"]["flags"]) if value & flag["mask"]] == [3]


def test_a_number_is_the_same_on_the_page_in_the_table_and_in_figures(tmp_path: Path) -> None:
    summary, samples, transfers = large(tmp_path, 8, 9)
    dataset.write_table(summary, tmp_path / "cells.csv")
    table = pd.read_csv(tmp_path / "cells.csv")
    made = page_content(summary, samples, transfers)
    for column, name in (("value", "throughput"), ("low", "throughput_low"), ("high", "throughput_high")):
        assert made["data"]["cells"][column] == [short(value) for value in table[name]]
    drawn = {text.get_text() for axes in limits(summary).axes for text in axes.texts}
    assert {short(value) for value in table["throughput"]} <= {text.split("\n")[-1] for text in drawn}
    highest = table["throughput"][table["flags"].isna()].max()
    assert f"is {short(highest)} Gbit/s" in made["findings"][0]["text"]


@pytest.mark.parametrize("value", [0.94549996, 0.0894999, 1.00499999, 12345678.9, 999.4999999])
def test_a_number_read_from_a_table_is_rounded_as_the_number_itself(value: float) -> None:
    assert short(float(f"{value:.6g}") if value < 1e6 else value) == short(value)


def test_shares_of_time_are_evidence_of_each_cell(folded: Folded, summary: xr.Dataset) -> None:
    assert content(folded, summary)["data"]["cells"]["shares"] is None
    for limit, share in (("bandwidth", 0.2), ("window", 0.8)):
        summary[f"share_{limit}"] = xr.full_like(summary["throughput"], share)
    shares = content(folded, summary)["data"]["cells"]["shares"]
    place = list(LIMITS).index
    assert shares == [[[place("window"), 80], [place("bandwidth"), 20]]] * CELLS


def test_a_gain_is_that_of_the_model_along_the_axis_that_relieves_the_limit(summary: xr.Dataset) -> None:
    summary["limit"][:] = "window"
    fitted = (summary["streams"] * xr.ones_like(summary["throughput"])).isel(repetition=0, drop=True)
    told = gains(summary, fitted)
    at = np.ravel_multi_index((0, 1, 0, 0), summary["throughput"].shape)
    assert told.text[at] == "streams 4 instead of 1: +300 % at RTT 50 ms" and told.factor[at] == 4
    assert told.text[at + 2] == "" and np.isnan(told.factor[at + 2])


@pytest.mark.parametrize(("status", "word"), [(0, "were not measured"), (2, "failed")])
def test_an_axis_value_without_a_measured_cell_is_named_with_its_reason(
    summary: xr.Dataset, status: int, word: str
) -> None:
    lost = {"streams": 4}
    summary["status"].loc[lost] = status
    summary["message"].loc[lost] = "the door is dead"
    [told] = [found.text for found in findings(summary) if word in found.text]
    assert told.endswith(f"{word}. All cells with streams 4 are among them: the door is dead.")
    summary["message"].loc[{**lost, "rtt": summary["rtt"][0]}] = "another reason"
    [told] = [found.text for found in findings(summary) if word in found.text]
    assert told.endswith("All cells with streams 4 are among them.")


def test_a_page_without_measured_cells_says_so(folded: Folded, summary: xr.Dataset) -> None:
    summary["status"][:] = 0
    summary["throughput"][:] = np.nan
    assert [found.text for found in findings(summary)] == ["12 cells: 12 were not measured."]
    assert "not measured" in shown(folded, summary).get_text()


@settings(max_examples=40)
@given(st.lists(st.text() | st.integers() | st.none(), max_size=5))
def test_no_text_ends_the_script_that_it_is_in(values: object) -> None:
    text = str(as_json(values))
    assert json.loads(text) == values
    assert not set(text) & set("<>&\u2028\u2029")


def test_text_of_data_stays_text_and_nothing_is_loaded(folded: Folded, summary: xr.Dataset) -> None:
    texts = dict.fromkeys(("sweep", "host", "testbed", "cells", "command"), HOSTILE)
    summary["message"][:] = HOSTILE
    claim = {"published": HOSTILE, "source": HOSTILE, "verdict": "holds", "reason": HOSTILE}
    soup = shown(folded, summary.assign_attrs(texts, repeat="cells"), claim)
    assert len(soup.find_all("script")) == 3
    assert not soup.select("img, [src], link")
    assert soup.h1 is not None and soup.h1.get_text() == HOSTILE
    sweep = {"folder": HOSTILE, "page": True, "problem": HOSTILE, "line": "", "live": ""}
    listed = parsed(render("overview", comparisons=[], sweeps=[sweep]))
    assert len(listed.find_all("script")) == 2 and listed.find("img") is None


def test_a_series_is_kept_as_means(folded: Folded) -> None:
    series = content(folded, folded.summary)["data"]["series"]
    made = series | series["quantities"][0]
    assert [each["key"] for each in series["quantities"]] == ["goodput", "source_cpu", "destination_cpu"]
    levels = np.frombuffer(base64.b64decode(made["bytes"]), np.uint8).reshape(CELLS, made["points"])
    goodput = folded.samples.goodput.values.reshape(CELLS, -1)
    assert made["points"] == goodput.shape[1]
    assert made["step"] * made["points"] == pytest.approx(float(folded.samples.time[-1]))
    again = levels / 254 * np.array(made["top"], float)[:, None]
    assert np.nanmax(np.abs(again - goodput)) <= np.nanmax(goodput) / 150
    # Simulated samples are rare and not equally spaced.
    times = [0.2, 0.4, 0.8, 1.6]
    rare = folded.samples.isel(time=slice(4)).assign_coords(time=times)
    series = cell_series(folded.summary, rare)
    assert series["points"] * series["step"] == pytest.approx(1.6) and series["step"] == pytest.approx(0.2)
    made = series | series["quantities"][0]
    levels = np.frombuffer(base64.b64decode(made["bytes"]), np.uint8).reshape(CELLS, made["points"])
    assert (levels[:, [0, 1, 2, 3, 4, 7]] == levels[:, [0, 1, 3, 3, 7, 4]]).all()


def test_libraries_are_those_of_the_lock() -> None:
    libraries = tomllib.loads((LIBRARIES / "libraries.toml").read_text())["library"]
    locked = json.loads((ROOT / "tests/npm/package-lock.json").read_text())["packages"]
    for each in libraries:
        assert hashlib.sha256((LIBRARIES / each["file"]).read_bytes()).hexdigest() == each["sha256"]
        assert locked[f"node_modules/{each['package']}"]["version"] == each["version"]
        assert each["file"] in (LIBRARIES / "LICENSE.txt").read_text()
    assert {each["file"] for each in libraries} == {file.name for file in LIBRARIES.glob("*.js")}


def test_some_of_very_many_cells_are_not_none() -> None:
    shares = (0, 0), (0, 9), (1, 1000), (1, 200), (1, 100), (9, 9)
    assert [percent(*share) for share in shares] == ["0", "0", "< 1", "< 1", "1", "100"]


@pytest.mark.parametrize("repeat", ["cells", "deployments"])
def test_each_cell_can_be_measured_again(folded: Folded, tmp_path: Path, repeat: str) -> None:
    axes = {name: values for name, values in AXES.items() if name != "repetition"}
    one = study_of(tmp_path, parameters=axes, repetitions=1, repeat=repeat)
    again = content(folded, folded.summary.assign_attrs(one.attributes))["data"]["again"]
    places = zip(again["deployment"], again["cell"], strict=True)
    paths = [f"{again['deployments'][at]}/{cell}" for at, cell in places]
    assert paths == [cell.path for cell in one.grid.cells]
    assert (again["folder"], again["command"]) == (f"{one.folder}/cells", one.command)


def test_a_page_of_many_cells_stays_small(tmp_path: Path) -> None:
    summary, samples, transfers = large(tmp_path)
    summary.attrs |= {"cells": "results/large/cells", "command": "snakemake", "repeat": "cells"}
    page = render("page", **page_content(summary, samples, transfers))
    assert len(page.encode()) < 10e6


def test_every_flag_that_occurs_is_counted(folded: Folded, summary: xr.Dataset) -> None:
    summary["flags"][:] = sum(flag_masks(summary).values())
    made = content(folded, summary)
    doubts = made["doubts"]
    grades = sorted((flag.grade for flag in FLAGS.values()), key=["invalid", "warning", "note"].index)
    assert [(doubt["count"], doubt["grade"]) for doubt in doubts] == [(CELLS, grade) for grade in grades]
    # A cell's flags have the same names and order.
    told = [f"{flag['grade']}: {flag['words']}" for flag in made["data"]["flags"]]
    assert told == [
        each.get_text() for each in parsed(render("page", **made)).select("#h-doubts ~ div .grade")
    ]


def test_sweeps_and_comparisons_are_listed_unreadable_ones_too(folded: Folded, tmp_path: Path) -> None:
    folding.write(folded, tmp_path / "whole/dataset.nc")
    write_text(tmp_path / "damaged/dataset.nc", "no dataset")
    write_text(tmp_path / "against/comparison.json", json.dumps({"summary": "1.2 times as fast"}))
    assert making.comparisons(tmp_path) == []  # without its page there is nothing to link
    write_text(tmp_path / "against/compare.html", "")
    for name in (LIVE_PAGE, RUN_UNDER_WAY):
        write_text(tmp_path / "begun" / name, "")
    making.make_overview(tmp_path / "index.html")
    seen = parsed((tmp_path / "index.html").read_text())
    assert seen.find("a", href="begun/live.html")
    for text in (
        f"complete: {CELLS} cells",
        "Gbit/s without a warning",
        "TCP buffer 4 MiB",
        "tpcsweep page whole",
        "cannot be read",
        "1.2 times as fast",
    ):
        assert text in seen.get_text()
    assert seen.find("a", href="against/compare.html")
    assert all((tmp_path / str(link["href"])).exists() for link in seen.select("a[href]"))
    [line] = seen.select(".sparkline")
    drawn = json.loads(str(line["data-line"]))
    assert drawn["axis"] == "streams" and drawn["values"][0] == "1" and drawn["rates"][0] > 0


@pytest.mark.parametrize("listed", [False, True])
def test_no_link_of_a_page_is_dead(folded: Folded, tmp_path: Path, listed: bool) -> None:
    again = {"command": "snakemake", "cells": "results/one/cells", "repeat": "cells"}
    made = tmp_path / "one/dataset.nc"
    folding.write(replace(folded, summary=folded.summary.assign_attrs(again)), made)
    if listed:
        making.make_overview(tmp_path / "index.html")
    for page in (made.with_name("index.html"), tmp_path / "elsewhere.html"):
        making.make_page(made, page)
        soup = parsed(page.read_text())
        names = {tag["id"] for tag in soup.find_all(id=True)}
        for link in soup.find_all("a", href=True):
            target, _, name = str(link["href"]).partition("#")
            assert (page.parent / target).exists() and (not name or name in names), (page, link)
        links = json.loads(soup.find(id="data").get_text())["again"]
        assert not any(links["logs"] + links["files"])  # there are none, and the page links none


@given(TEXTS)
@example(SCRIPT)
@example("[x](javascript:alert)")
@example("$$a$$")
@example("http://x.example/")
@example("`a`")
@example("&lt;b&gt;")
def test_text_in_markdown_is_shown_as_it_is(text: str) -> None:
    page = parsed(markdown2html(f"*Found:* {as_text(text)}."))
    assert {tag.name for tag in page.find_all(name=True)} <= {"p", "em"}
    # As browsers do, runs of white space count as one.
    assert page.get_text().split() == f"Found: {' '.join(text.split())}.".split()


def test_no_text_of_a_table_is_html() -> None:
    frame = pd.DataFrame({SCRIPT: [SCRIPT, "b"], "x": [0.12345, float("nan")]})
    page = parsed(as_table(frame.rename_axis(index=SCRIPT).rename_axis(columns=f"2{SCRIPT}")).to_html())
    assert page.find("script") is None
    assert page.get_text().count(SCRIPT) == 4
    assert [cell.get_text() for cell in page.select("td.col1")] == ["0.123", ""]
    assert as_table(frame, index=False).to_html().count(">0.123<") == 1
