# SPDX-License-Identifier: Apache-2.0
"""Pages: their sentences are true of the data, text stays text, and the first one bears 10⁴ cells."""

import base64
import json
import re
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
from tpcsweep.common.numbers import interval_ends, short
from tpcsweep.data import folding
from tpcsweep.data import tables as dataset
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.folding import Folded
from tpcsweep.data.labels import STATUS, flag_masks
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import LIMIT_NAMES, LIMITS, REMEDIES
from tpcsweep.pages import making
from tpcsweep.pages.content import page_content
from tpcsweep.pages.dataset_facts import dataset_facts
from tpcsweep.pages.figures import limits
from tpcsweep.pages.figures.panels import as_table, as_text
from tpcsweep.pages.gains import gains
from tpcsweep.pages.page_axes import first_places
from tpcsweep.pages.rendering import as_json, percent, period, render
from tpcsweep.pages.series import cell_series
from tpcsweep.running.overview import list_sweeps

from tests.support.large import large
from tests.support.projects import study_of
from tests.support.synthetic import doubts_of, findings_of, write_sweep

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
    told = [*findings_of(summary), *doubts_of(summary)]

    rates, limits, status = (summary[name].values.ravel() for name in ("throughput", "limit", "status"))
    loud = (summary.flags.values.ravel() & (masks["not_steady"] | masks["files_missing"])) > 0
    ok = status == STATUS.index("ok")
    trusted = ok & ~loud
    judged = trusted & (limits != "")
    assert len(told) <= 10
    for found in told:
        cells, text = list(found.settings), found.text
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
    few = told[0].text.startswith("Too few settings")
    assert few == (trusted.sum() < max(ok.sum() / 3, min(4, ok.sum() / 2)))
    assert few or bool(trusted.any()) == ("Gbit/s" in told[0].text)
    assert (bool(judged.any()) and not few) == any(" limits " in found.text for found in told)


def test_limits_are_named_with_their_region_and_remedy(summary: xr.Dataset) -> None:
    summary["limit"][:] = "window"
    summary["limit"].loc[{"cores": 1.0, "streams": [2, 4]}] = "cpu_destination"
    told = [found.text for found in findings_of(summary)]
    cpu = (
        "The destination's CPU limits every setting with 1 core and 2 streams or more (4 settings). "
        "A destination origin used up its CPU quota, or one of its threads a core."
    )
    gain = "Measured gain: more cores at the destination (2 instead of 1, on both sides), "
    assert any(text.startswith(f"{cpu}\n{gain}") for text in told)
    window = "TCP's window limits 8 of 12 settings, among them all 6 with 2 cores."
    assert any(text.startswith(window) for text in told)


def test_the_answer_names_what_fills_the_path(folded: Folded, summary: xr.Dataset) -> None:
    summary["limit"][:] = "bandwidth"
    summary["throughput"][:] = 0.99
    assert content(folded, summary)["answers"][0] == "The path of 1 Gbit/s limits every setting (12)."
    far = {"rtt": 50.0}
    summary["limit"].loc[far] = "window"
    summary["throughput"].loc[far] = 0.1 * summary["streams"]
    told = content(folded, summary)["answers"][0]
    # 0.1 Gbit/s for each stream with 4 MiB: 0.95 Gbit/s takes 9.5 streams, or 38 MiB in one.
    assert told.startswith(
        "At RTT 50 ms, TCP's window of 4 MiB limits 6 of 6 settings: 10 streams, or one with 38 MiB, fill 1 Gbit/s if "
        "nothing else limits; measured: 4 streams 0.4 Gbit/s. What helps there most: more streams. Measured gain: "
        "2 times the throughput for each doubling ("
    )
    summary["limit"].loc[far] = "cpu_destination"
    summary["destination_cpu"] = summary["throughput"] * 0.5
    assert (
        "limits 6 of 12 settings: it takes 0.5 cores for each Gbit/s; measured: at most 0.4"
        in content(folded, summary)["answers"][0]
    )
    # A cell at the path's rate counts like in the findings, and simulated rates are not called measured.
    summary["throughput"].loc[{**far, "streams": 4}] = 0.96
    simulated = content(folded, summary.assign_attrs(testbed_kind="simulation"))
    assert (
        "limits 6 of 12 settings" in simulated["answers"][0]
        and "simulated: at most 0.96" in simulated["answers"][0]
    )
    assert simulated["data"]["interval"] == "95 % of parameter sets"
    assert content(folded, summary)["data"]["interval"] == "95 % interval"
    assert all(axis["comment"] for axis in simulated["axes"])


def test_the_first_lines_have_every_setting_that_no_axis_varies(summary: xr.Dataset) -> None:
    summary["duration"][:] = 9.0
    one = dataset_facts(summary.isel(rtt=0, cores=1, streams=2))["settings"]
    assert {"RTT 5 ms", "cores per side: 2", "streams 4", "origins per side: 1", "cells of 9 s"} <= {*one}
    assert "streams 4" in dataset_facts(summary.isel(streams=[2]))["settings"]
    summary["duration"][0] = 76.4
    told = dataset_facts(summary)["settings"]
    assert "cells of 9 to 76 s" in told and not any("RTT" in text for text in told)


def test_the_rtt_of_endpoints_is_that_of_their_pairs(summary: xr.Dataset) -> None:
    one = summary.isel(rtt=0).assign_attrs(testbed_kind="endpoints")
    for unset in (0.0, np.nan):
        mesh = one.assign_coords(rtt=unset)
        assert not any("RTT" in text for text in dataset_facts(mesh)["settings"])
        mesh["rtt_idle"] = mesh["throughput"] * 0 + 80.0
        mesh["rtt_idle"][0] = 12.2
        shown = dataset_facts(mesh)
        assert "RTT 12 to 80 ms declared" in shown["settings"]
        assert not any(name == "RTT" for name, _ in shown["facts"])
    assert "RTT 35 ms" in dataset_facts(one.assign_coords(rtt=35.0))["settings"]
    assert "RTT 0 ms" in dataset_facts(summary.isel(rtt=0).assign_coords(rtt=0.0))["settings"]


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
    [found] = [found for found in findings_of(summary) if found.changes]
    [change] = [change for change in found.changes if change.words == "4 streams instead of 1"]
    assert (change.ratio, change.low, change.high) == pytest.approx((np.exp(mean), low, high))
    assert change.pairs == 4
    # Cells that are in no pair are not named.
    summary["status"].loc[{"streams": 4, "cores": 1.0}] = STATUS.index("failed")
    summary["status"].loc[{"rtt": 50.0}] = STATUS.index("failed")
    [found] = [found for found in findings_of(summary) if found.changes]
    [change] = [change for change in found.changes if change.words == "4 streams instead of 1"]
    assert (change.ratio, change.pairs) == (pytest.approx(2), 1) and np.isnan(change.low)
    assert found.settings == (0, 1, 6, 7, 8)


def test_the_head_tells_whether_the_machine_was_quiet(folded: Folded, summary: xr.Dataset) -> None:
    summary["machine_others"][:], summary["machine_steal"][:] = 0.01, 0.0
    summary["machine_others"].values.flat[0] = 0.04
    state = shown(folded, summary).select_one(".state")
    assert state is not None and state.get_text().endswith(
        "machine quiet: other programs used at most 4 % of its CPU"
    )
    slow = summary.copy(deep=True).assign(machine_slowed=0 * summary["throughput"])
    slow["machine_slowed"].values.flat[:3] = 0.2, 0.41, 0.38
    assert dataset_facts(slow)["machine"] == (
        "machine at least 25 % slower than at its fastest in 2 cells, 41 % at worst; "
        "other programs used at most 4 % of its CPU"
    )
    slow["flags"].values.flat[1] = flag_masks(summary)["disturbed"]
    assert dataset_facts(slow)["machine"].startswith(
        "machine busy or slow in 1 cell; machine at least 25 % slower than at its fastest in 1 cell, 38 % at worst; "
        "other programs"
    )
    alone = dataset_facts(slow.drop_vars("machine_others"))["machine"]
    assert alone == "machine at least 25 % slower than at its fastest in 1 cell, 38 % at worst"
    summary["flags"].values.flat[0] = flag_masks(summary)["disturbed"]
    assert "machine busy or slow in 1 cell;" in dataset_facts(summary)["machine"]
    unknown = summary.assign(machine_others=summary["machine_others"] * np.nan)
    assert (
        dataset_facts(unknown)["machine"]
        == dataset_facts(summary.drop_vars("machine_others"))["machine"]
        == ""
    )


def test_endpoints_name_a_full_measuring_machine_before_the_monitoring_of_servers(
    folded: Folded, summary: xr.Dataset
) -> None:
    summary["machine_cpu"], summary["limit"][:] = summary["throughput"] * 0 + 0.998, "not_visible"
    assert "measuring machine" not in shown(folded, summary).get_text()  # a flag says it elsewhere
    summary = summary.assign_attrs(testbed_kind="endpoints")
    page = shown(folded, summary)
    state, banner = page.select_one(".state"), page.select_one("main > :first-child")
    assert state is not None and state.get_text().endswith(
        "measuring machine full: at least 99 % of its CPU in 12 of 12 cells"
    )
    assert banner is not None and "rates may be its own" in banner.get_text()
    made = content(folded, summary)
    for text in (made["answers"][-1], *made["data"]["points"]["advice"]["texts"]):
        assert re.search(
            r"on an idle machine first: .*What shows it: a look at the servers'", text, re.DOTALL
        )
    summary["machine_cpu"].values.flat[:10] = 0.5
    made = content(folded, summary)
    assert made["about"]["machine"].endswith("99 % of its CPU in 2 of 12 cells") and not made["banner"]
    assert sum("idle" in text for text in made["data"]["points"]["advice"]["texts"]) == 1


def test_axes_with_one_value_have_no_place_in_the_picture(summary: xr.Dataset) -> None:
    assert first_places(summary, ["cores", "rtt", "streams"]) == {
        "x": "streams",
        "y": "rtt",
        "columns": "cores",
    }
    one = summary.isel(cores=[0], streams=[0])
    assert first_places(one, ["rtt"]) == {"x": "rtt", "y": "none", "columns": "none"}


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
    marks = made["data"]["cells"]["marks"]
    carried = [marks["texts"][at] for at in marks["at"]]
    assert carried[2:5] == ["", "beyond the path's rate", ""] and carried.count("") == CELLS - 1


def test_a_number_is_the_same_on_the_page_in_the_table_and_in_figures(tmp_path: Path) -> None:
    summary, samples, transfers = large(tmp_path, 8, 9)
    dataset.write_table(summary, tmp_path / "cells.csv")
    table = pd.read_csv(tmp_path / "cells.csv")
    made = page_content(summary, samples, transfers)
    columns = made["data"]["cells"]
    assert columns["value"] == [short(value) for value in table["throughput"]]
    ends = zip(table["throughput_low"].clip(0), table["throughput_high"], strict=True)
    assert [*zip(columns["low"], columns["high"], strict=True)] == [interval_ends(*pair) for pair in ends]
    drawn = {text.get_text() for axes in limits(summary).axes for text in axes.texts}
    assert {short(value) for value in table["throughput"]} <= {text.split("\n")[-1] for text in drawn}
    highest = table["throughput"][table["flags"].isna()].max()
    assert f"is {short(highest)} Gbit/s" in made["findings"][0]["text"]


@pytest.mark.parametrize("value", [0.94549996, 0.0894999, 1.00499999, 12345678.9, 999.4999999])
def test_a_number_read_from_a_table_is_rounded_as_the_number_itself(value: float) -> None:
    assert short(float(f"{value:.6g}") if value < 1e6 else value) == short(value)


def test_shares_of_time_are_evidence_of_each_cell(folded: Folded, summary: xr.Dataset) -> None:
    assert content(folded, summary)["data"]["points"]["shares"] is None
    for limit, share in (("bandwidth", 0.2), ("window", 0.8)):
        summary[f"share_{limit}"] = xr.full_like(summary["throughput"], share)
    shares = content(folded, summary)["data"]["points"]["shares"]
    place = list(LIMITS).index
    assert shares == [[[place("window"), 80], [place("bandwidth"), 20]]] * CELLS


def test_a_gain_is_that_of_the_model_along_the_axis_that_relieves_the_limit(summary: xr.Dataset) -> None:
    summary["limit"][:] = "window"
    fitted = (summary["streams"] * xr.ones_like(summary["throughput"])).isel(repetition=0, drop=True)
    told = gains(settings_of(summary), fitted)
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
    [told] = [found.text for found in doubts_of(summary) if word in found.text]
    assert told.endswith(f"{word}. All cells with streams 4 are among them: the door is dead.")
    summary["message"].loc[{**lost, "rtt": summary["rtt"][0]}] = "another reason"
    [told] = [found.text for found in doubts_of(summary) if word in found.text]
    assert told.endswith("All cells with streams 4 are among them.")


def test_a_page_without_measured_cells_says_so(folded: Folded, summary: xr.Dataset) -> None:
    summary["status"][:] = 0
    summary["throughput"][:] = np.nan
    [found] = doubts_of(summary)
    assert not findings_of(summary)
    assert found.text.startswith("12 cells: 12 were not measured. Nothing is recorded")
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
    sweep = {"folder": HOSTILE, "page": "index.html", "live": "live.html", "problem": HOSTILE}
    run = {"line": HOSTILE, "last": HOSTILE, "under_way": True}
    known = {"sweeps": [sweep], "runs": {HOSTILE: run}, "comparisons": []}
    listed = parsed(render("overview", **known, refresh=20, now=HOSTILE))
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
    assert (again["results"], again["command"]) == (str(one.folder), one.command)
    assert again["log_folders"] == [f"logs/{deployment}" for deployment in again["deployments"]]


def test_a_page_of_many_cells_stays_small(tmp_path: Path) -> None:
    summary, samples, transfers = large(tmp_path)
    summary.attrs |= {"cells": "results/large/cells", "command": "snakemake", "repeat": "cells"}
    page = render("page", **page_content(summary, samples, transfers))
    assert len(page.encode()) < 10e6


def test_every_flag_that_occurs_is_counted(folded: Folded, summary: xr.Dataset) -> None:
    summary["flags"][:] = sum(flag_masks(summary).values())
    made = content(folded, summary)
    rows = made["flags"]
    grades = sorted((flag.grade for flag in FLAGS.values()), key=["invalid", "warning", "note"].index)
    assert [(row["count"], row["grade"]) for row in rows] == [(CELLS, grade) for grade in grades]
    # A cell's flags have the same names and order.
    told = [f"{flag['grade']}: {flag['words']}" for flag in made["data"]["flags"]]
    assert told == [
        each.get_text() for each in parsed(render("page", **made)).select("#h-doubts ~ div .grade")
    ]


def test_rows_of_the_table_do_not_repeat_a_note_of_nearly_all_settings(
    folded: Folded, summary: xr.Dataset
) -> None:
    masks = flag_masks(summary)
    summary["flags"].values.flat[:] = [masks["not_steady"], *[masks["wide_interval"]] * (CELLS - 1)]
    made = content(folded, summary)
    words = FLAGS["wide_interval"].label
    assert made["frequent"].startswith(f"91 % of all settings carry the note: {words}. Rows do not repeat it")
    flags = made["data"]["points"]["flags"]
    assert [flags["texts"][at] for at in flags["at"]] == [FLAGS["not_steady"].label, *[""] * (CELLS - 1)]
    names = [made["data"]["flags"][flag["flag"]]["words"] for flag in flags["sets"][flags["at"][1]]]
    assert names == [words]


@pytest.mark.parametrize("listed", [False, True])
def test_no_link_of_a_page_is_dead(folded: Folded, tmp_path: Path, listed: bool) -> None:
    again = {"command": "snakemake", "cells": "results/one/cells", "repeat": "cells"}
    made = tmp_path / "one/dataset.nc"
    folding.write(replace(folded, summary=folded.summary.assign_attrs(again)), made)
    if listed:
        list_sweeps(tmp_path)
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
