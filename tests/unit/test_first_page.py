# SPDX-License-Identifier: Apache-2.0
"""The first page: its sentences are true of the data, its text stays text, and it bears 10⁴ cells."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep import dataset
from tpcsweep.configuration.loading import load
from tpcsweep.dataset import STATUS, Folded, flagged, masks_of
from tpcsweep.flags import FLAGS
from tpcsweep.numbers import short
from tpcsweep.pages import making
from tpcsweep.pages.content import Beside, content
from tpcsweep.pages.findings import findings
from tpcsweep.templates import as_json, percent, render
from tpcsweep.variables import LIMIT_NAMES, LIMITS

from tests.support.large import large
from tests.support.synthetic import write_sweep
from tests.support.workflow import ROOT

AXES = {"cores": [1.0, 2.0], "rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1]}
CELLS = 12
HOSTILE = "</script><script>document.body.id='owned'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Folded:
    return dataset.fold(write_sweep(tmp_path_factory.mktemp("cells"), AXES), AXES)


def shown(folded: Folded, summary: xr.Dataset | None = None, beside: Beside | None = None) -> str:
    summary = folded.summary if summary is None else summary
    return render("page", **content(summary, folded.samples, folded.transfers, beside or Beside()))


@settings(max_examples=20)
@given(data=st.data())
def test_every_sentence_is_true_of_the_data(folded: Folded, data: st.DataObject) -> None:
    summary = folded.summary.copy(deep=True)
    shape = summary.throughput.shape
    masks = masks_of(summary)
    flags = [0, 0, 0, *(masks[flag] for flag in ("not_steady", "files_missing", "wide_interval"))]
    drawn = {
        "throughput": st.floats(0.001, 2),
        "status": st.sampled_from([0, 1, 1, 1, 2]),
        "flags": st.sampled_from(flags),
        "limit": st.sampled_from(["", "window", "cpu_destination"]),
    }
    for name, values in drawn.items():
        cells = data.draw(st.lists(values, min_size=CELLS, max_size=CELLS))
        summary[name][:] = np.array(cells).reshape(shape)
    told = findings(summary)

    throughput = summary.throughput.values
    names = ("throughput", "limit", "status", "streams", "cores")
    rates, limits, status, streams, cores = (
        summary[name].broadcast_like(summary.status).values.ravel() for name in names
    )
    trusted = (status == STATUS.index("ok")) & ~flagged(summary, "files_missing").values.ravel()
    every_cell = r"With (\d) cores? (.*) binds every cell(?: from (\d) streams on)? \((\d+) cells\)"
    more_streams = r"With 4 streams instead of 1 .* of (\d+) pairs .* \((\S+) to (\S+) times\)"
    for found in told:
        cells, text = list(found.cells), found.text
        if text.startswith("The highest"):
            assert rates[cells[0]] == rates[trusted].max()
            assert f"{short(rates[cells[0]])} Gbit/s" in text
        if binds := re.match(every_cell, text):
            of, limit, least, count = binds.groups()
            held = trusted & (limits != "") & (cores == float(of)) & (streams >= int(least or 0))
            assert cells == np.flatnonzero(held).tolist() and len(cells) == int(count)
            assert {LIMIT_NAMES[name] for name in limits[held]} == {limit}
        if often := re.match(r"With (\d) cores? (.*) binds most often: (\d+) of (\d+) cells", text):
            of, limit, count, every = often.groups()
            judged = trusted & (limits != "") & (cores == float(of))
            named = np.array([LIMIT_NAMES.get(name, "") for name in limits]) == limit
            assert cells == np.flatnonzero(judged & named).tolist()
            assert (len(cells), judged.sum()) == (int(count), int(every)) and 2 * len(cells) >= int(every)
        if pairs := re.match(more_streams, text):
            both = trusted.reshape(shape)[:, :, [0, -1]].all(axis=2)
            ratios = (throughput[:, :, -1] / throughput[:, :, 0])[both]
            ends = [short(end, 2) for end in (ratios.min(), ratios.max())]
            assert [str(len(ratios)), *ends] == list(pairs.groups())
        if "carry a warning" in text:
            loud = (summary.flags.values.ravel() & (masks["not_steady"] | masks["files_missing"])) > 0
            assert cells == np.flatnonzero(loud & (status > 0)).tolist()
        for end, name in (("cells failed.", "failed"), ("were not measured.", "not_measured")):
            if text.endswith(end):
                assert cells == np.flatnonzero(status == STATUS.index(name)).tolist()
    assert bool(trusted.any()) == any(found.text.startswith("The highest") for found in told)


def test_what_binds_from_some_streams_on_is_said(folded: Folded) -> None:
    summary = folded.summary.copy(deep=True)
    summary["limit"][:] = "window"
    summary["limit"].loc[{"cores": 1.0, "streams": [2, 4]}] = "cpu_destination"
    told = [found.text for found in findings(summary)]
    assert "With 1 core the destination's CPU binds every cell from 2 streams on (4 cells)." in told
    assert "With 2 cores TCP's window binds every cell (6 cells)." in told


def test_nothing_measured_is_said_too(folded: Folded) -> None:
    summary = folded.summary.copy(deep=True)
    summary["status"][:] = 0
    summary["throughput"][:] = np.nan
    assert [found.text for found in findings(summary)] == ["12 of 12 cells were not measured."]
    assert "not measured" in shown(folded, summary)


@settings(max_examples=40)
@given(st.lists(st.text() | st.integers() | st.none(), max_size=5))
def test_no_text_ends_the_script_that_it_is_in(values: object) -> None:
    text = str(as_json(values))
    assert json.loads(text) == values
    assert not set(text) & set("<>&\u2028\u2029")


def test_text_of_data_stays_text_and_nothing_is_loaded(folded: Folded) -> None:
    summary = folded.summary.copy(deep=True).assign_attrs(
        sweep=HOSTILE, host=HOSTILE, testbed=HOSTILE, cells=HOSTILE, command=HOSTILE, repeat="cells"
    )
    summary["message"][:] = HOSTILE
    claim = {"published": HOSTILE, "source": HOSTILE, "verdict": "holds", "reason": HOSTILE}
    soup = BeautifulSoup(shown(folded, summary, Beside(claims=[claim])), "html.parser")
    assert len(soup.find_all("script")) == 3
    assert not soup.select("img, [src], link")
    assert soup.h1 is not None and soup.h1.get_text() == HOSTILE
    listed = render("overview", sweeps=[{"folder": HOSTILE, "page": True, "problem": HOSTILE, "line": ""}])
    assert BeautifulSoup(listed, "html.parser").find(["img", "script"]) is None


def test_some_of_very_many_cells_are_not_none() -> None:
    shares = (0, 0), (0, 9), (1, 1000), (1, 200), (1, 100), (9, 9)
    assert [percent(*share) for share in shares] == ["0", "0", "< 1", "< 1", "1", "100"]


def test_a_series_is_kept_as_means(folded: Folded) -> None:
    made = content(folded.summary, folded.samples, folded.transfers, Beside())["data"]["series"]
    levels = np.frombuffer(base64.b64decode(made["bytes"]), np.uint8).reshape(CELLS, made["points"])
    goodput = folded.samples.goodput.values.reshape(CELLS, -1)
    assert made["points"] == goodput.shape[1]
    again = levels / 254 * np.array(made["top"])[:, None]
    assert np.nanmax(np.abs(again - goodput)) <= np.nanmax(goodput) / 254


@pytest.mark.parametrize("repeat", ["cells", "deployments"])
def test_each_cell_can_be_measured_again(folded: Folded, tmp_path: Path, repeat: str) -> None:
    axes = {name: values for name, values in AXES.items() if name != "repetition"}
    text = {"parameters": axes, "repetitions": 1, "repeat": repeat}
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(text))
    one = load({"sweep": str(tmp_path / "one.yaml"), "testbed": "netns", "results": str(tmp_path)}, ROOT)
    summary = folded.summary.assign_attrs(one.attributes)
    again = content(summary, folded.samples, folded.transfers, Beside())["data"]["again"]
    places = zip(again["deployment"], again["cell"], strict=True)
    paths = [f"{again['deployments'][at]}/{cell}" for at, cell in places]
    assert paths == [cell.path for cell in one.grid.cells]
    assert (again["folder"], again["command"]) == (f"{one.folder}/cells", one.command)


def test_limits_have_names_for_people_and_each_a_different_one() -> None:
    assert set(LIMIT_NAMES) == set(LIMITS) and len(set(LIMIT_NAMES.values())) == len(LIMITS)
    assert not any("_" in name for name in LIMIT_NAMES.values())


def test_all_sweeps_are_listed_those_that_cannot_be_read_too(folded: Folded, tmp_path: Path) -> None:
    dataset.write(folded, tmp_path / "whole/dataset.nc")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/dataset.nc").write_text("no dataset")
    listed = {entry["folder"]: entry for entry in making.entries(tmp_path)}
    assert listed["whole"]["count"] == CELLS and listed["whole"]["line"]
    assert "cannot be read" in listed["damaged"]["problem"]
    seen = BeautifulSoup(render("overview", sweeps=list(listed.values())), "html.parser").get_text()
    assert f"complete: {CELLS} cells" in seen and "tpcsweep page whole" in seen


def test_a_page_of_many_cells_stays_small(tmp_path: Path) -> None:
    summary, samples, transfers = large(tmp_path)
    summary.attrs |= {"cells": "results/large/cells", "command": "snakemake", "repeat": "cells"}
    page = render("page", **content(summary, samples, transfers, Beside()))
    assert len(page.encode()) < 10e6


def test_every_flag_that_occurs_is_counted(folded: Folded) -> None:
    summary = folded.summary.copy(deep=True)
    summary["flags"][:] = sum(masks_of(summary).values())
    doubts = content(summary, folded.samples, folded.transfers, Beside())["doubts"]
    grades = sorted((flag.grade for flag in FLAGS.values()), key=["invalid", "warning", "note"].index)
    assert [(doubt["count"], doubt["grade"]) for doubt in doubts] == [(CELLS, grade) for grade in grades]
