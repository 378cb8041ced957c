# SPDX-License-Identifier: Apache-2.0
"""Histories: changes that were planted are found at their dates, and what is told of them is true of the data."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bs4 import BeautifulSoup
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tpcsweep.analysis.comparison import compare
from tpcsweep.analysis.history import change_points, runs
from tpcsweep.analysis.history.change_points import (
    changes,
    failures,
    find_history,
    sentence,
)
from tpcsweep.analysis.history.history_page import history_content
from tpcsweep.analysis.history.runs import join_runs
from tpcsweep.data.labels import flag_masks
from tpcsweep.data.made_with import Difference
from tpcsweep.pages.rendering import render

from tests.support.histories import CELLS, folded, runs_of, times, week, weekly, with_software

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    return folded(tmp_path_factory.mktemp("once"))


def noise(count: int, cells: int, seed: int) -> np.ndarray:
    """Runs × cells, with something in each run that all its cells have."""
    generator = np.random.default_rng(seed)
    return 0.02 * (generator.normal(size=(count, cells)) + generator.normal(size=(count, 1)))


@settings(max_examples=8)
@given(st.integers(4, 40), st.integers(4, 40), st.integers(1, 12), st.integers(0, 10**6))
def test_a_planted_change_is_found_at_its_place(before: int, after: int, cells: int, seed: int) -> None:
    logs = noise(before + after, cells, seed)
    logs[before:] += -0.5 if seed % 2 else 0.5
    assert before in changes(logs)


@pytest.mark.parametrize(
    ("shape", "where", "step", "found"),
    [
        ((30, 6), np.s_[12:18], -0.3, [12, 18]),
        ((30, 24), np.s_[20:, :3], -0.3, [20]),
        ((20, 6), np.s_[10], -1.0, []),
        ((20, 6), np.s_[[10, -1]], -1.0, []),
        ((3, 1), np.s_[2], 5.0, []),
        ((9, 2), np.s_[:], np.nan, []),
    ],
)
def test_steps_are_changes_and_one_run_apart_is_none(shape: Any, where: Any, step: float, found: Any) -> None:
    logs = noise(*shape, 1)
    logs[where] += step
    assert list(changes(logs)) == found


def test_histories_without_a_change_have_none() -> None:
    """Neither of equal weeks, nor with slow cells or runs; `benchmarks/history.py` has the rates of false alarms."""
    generator = np.random.default_rng(7)
    for shape in ((40, 24), (40, 1), (0, 0)):
        logs = noise(40, 24, 1000)
        logs += np.log(1 - 0.3 * (generator.random(shape) < 0.05)) if shape[0] else 0.0
        assert not changes(logs)


@settings(max_examples=5)
@example(seed=308515, share=0.25)  # medians of cells with holes lie on both sides of a change in the middle
@example(seed=39, share=0.25)
@given(st.integers(0, 10**6), st.floats(0, 0.3))
def test_holes_are_no_changes_and_hide_none(seed: int, share: float) -> None:
    logs = noise(24, 6, seed)
    logs[12:] += 0.5
    logs[np.random.default_rng(seed).random(logs.shape) < share] = np.nan
    assert any(abs(place - 12) < change_points.FEWEST_RUNS_BETWEEN for place in changes(logs))


def test_a_run_is_kept_once_under_its_date(tmp_path: Path) -> None:
    folded(tmp_path)
    given = tmp_path / "dataset.nc"
    kept = runs.keep_run(given, tmp_path / "history")
    assert kept.name == "2026-01-02T030437Z.nc"
    assert kept.read_bytes() == given.read_bytes()
    before = kept.stat()
    assert (runs.keep_run(given, tmp_path / "history"), kept.stat()) == (kept, before)
    [run], left = runs.read_kept_runs(tmp_path / "history")
    assert (run.count("ok"), left, len(run.starts)) == (CELLS, {}, 1)
    assert run.made_with["software.xrootd"] == "5.9.0"
    assert run.parameters["bandwidth"] == 1.0 and "rtt" not in run.parameters


def test_what_does_not_say_when_it_was_measured_is_refused(once: xr.Dataset, tmp_path: Path) -> None:
    once.assign_attrs(measured_until="unknown").to_netcdf(tmp_path / "dataset.nc")
    with pytest.raises(runs.HistoryError, match="measured_until of the dataset is 'unknown'"):
        runs.keep_run(tmp_path / "dataset.nc", tmp_path / "history")
    assert not (tmp_path / "history").exists()


def test_files_that_are_none_of_the_history_are_left_out_and_named(once: xr.Dataset, tmp_path: Path) -> None:
    of_weeks = weekly(once, 3)
    # A cell was measured anew after the second run had been kept.
    again = of_weeks[1].copy(deep=True)
    again["started"][0] = again["started"][0] + np.timedelta64(1, "h")
    again = again.assign_attrs(measured_until=f"{week(1):%Y-%m-%d}T05:00:00Z")
    other = of_weeks[0].assign_attrs(sweep="smoke")
    for name, summary in (*zip("abc", of_weeks, strict=True), ("again", again), ("other", other)):
        summary.to_netcdf(tmp_path / f"{name}.nc")
    (tmp_path / "broken.nc").write_text("no dataset")
    found, left = runs.read_kept_runs(tmp_path)
    assert [run.file for run in found] == ["a.nc", "again.nc", "c.nc"]
    assert "cannot be read" in left.pop("broken.nc")
    said = "again.nc contains these measurements and newer ones"
    assert left == {"b.nc": said, "other.nc": "it belongs to sweep smoke on testbed netns"}


def test_repetitions_are_one_measurement_of_a_run(once: xr.Dataset) -> None:
    both = xr.concat([once, times(once, 4.0)], "repetition", data_vars="minimal")
    both = both.assign_coords(repetition=[1, 2])
    both["status"][0, 0, 0] = 2
    [run] = runs_of([both.drop_vars("throughput_freedom")])
    assert run.cells.throughput_freedom.isnull().all()
    expected = np.where(np.indices((2, 3)).sum(axis=0) == 0, 4, 2) * once.throughput.values[..., 0]
    assert run.cells.throughput.values == pytest.approx(expected)
    assert run.count("ok") == CELLS


@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_a_single_run_has_the_error_that_its_dataset_has(once: xr.Dataset, confidence: float) -> None:
    before, after = weekly(once.assign_attrs(measurement_confidence=confidence), 2)
    cells = join_runs(runs_of([before, after]))
    found = compare(*(cells.isel(repetition=[at]) for at in (0, 1))).cells
    expected = compare(before, after).cells
    assert np.isfinite(expected["freedom"]).any()
    names = ["ratio", "error", "freedom", "p"]
    np.testing.assert_allclose(found[names], expected[names])


def test_a_change_has_its_date_its_size_its_cells_and_what_changed_with_it(once: xr.Dataset) -> None:
    def change(number: int, summary: xr.Dataset) -> xr.Dataset:
        if number < 9:
            return summary
        slower = times(summary, np.where(summary.rtt.values == 50, 0.7, 1.0)[:, None, None])
        return with_software(slower, xrootd="6.0.0").assign_coords(bandwidth=2.0)

    told = find_history(runs_of(weekly(once, 16, change)), {})
    [found] = told.changes
    assert found.place == 9 and not found.new
    assert found.overall.low < math.sqrt(0.7) < found.overall.high < 1
    verdicts = found.comparison.cells.set_index("rtt")["verdict"]
    assert set(verdicts[50.0]) == {"slower"} and set(verdicts[5.0]) == {"no difference found"}
    assert list(found.differences) == [
        Difference("bandwidth", "1 Gbit/s", "2 Gbit/s"),
        Difference("software.xrootd", "5.9.0", "6.0.0"),
    ]
    text = sentence(told, found)
    assert text.startswith("Between 2026-03-01 03:00 and 2026-03-08 03:00 throughput of all cells is 0.8")
    assert "of 6 cells 3 slower" in text
    assert "by rtt: no difference found at 5 ms (1" in text and "slower at 50 ms (0." in text
    assert text.endswith("Recorded changes: bandwidth 1 Gbit/s → 2 Gbit/s; software.xrootd 5.9.0 → 6.0.0.")


def slower_from(place: int, factor: float = 0.7) -> object:
    return lambda number, summary: times(summary, factor) if number >= place else summary


def test_it_fails_on_a_change_once_and_where_it_is_asked(once: xr.Dataset) -> None:
    every = runs_of(weekly(once, 14, slower_from(8), seed=1))
    told = {count: find_history(every[:count], {}) for count in range(9, 15)}
    first = next(count for count, one in told.items() if one.changes)
    for count, one in told.items():
        assert [change.place for change in one.changes] == [8] * (count >= first)
        found = [sentence(one, change) for change in one.changes if count == first]
        assert [failures(one, asked) for asked in ("slower", "change", None)] == [found, found, []]
    every = runs_of(weekly(once, 14, slower_from(8, 1.4), seed=1))
    looks = [find_history(every[:count], {}) for count in range(9, 15)]
    assert not any(failures(one, "slower") for one in looks)
    assert sum(len(failures(one, "change")) for one in looks) == 1


@pytest.mark.parametrize(("status", "verb"), [(2, "failed"), (0, "was not measured")])
@pytest.mark.parametrize("weeks", [2, 6])
def test_a_cell_that_is_lost_since_the_last_run_is_named(
    once: xr.Dataset, status: int, verb: str, weeks: int
) -> None:
    of_weeks = weekly(once, weeks)
    for name, value in (("status", status), ("message", "exit code 5\x07")):
        of_weeks[-1][name].loc[{"rtt": 50, "streams": 2}] = value
    told = find_history(runs_of(of_weeks), {})
    [reason] = failures(told, "slower")
    assert reason == f"rtt 50 ms, streams 2 {verb}: exit code 5\x07"
    assert f"in the last run rtt 50 ms, streams 2 {verb}" in change_points.summary(told)
    assert failures(find_history(runs_of([*of_weeks, of_weeks[-1]]), {}), "slower") == []


def test_the_file_has_every_run_and_the_cells_of_every_change(once: xr.Dataset) -> None:
    def change(number: int, summary: xr.Dataset) -> xr.Dataset:
        if number == 8:
            summary["status"].loc[{"rtt": 5, "streams": 4}] = 0
        slower = times(summary, np.where(summary.rtt.values == 50, 0.5, 1.0)[:, None, None])
        return slower if number > 5 else summary

    told = find_history(runs_of(weekly(once, 10, change)), {"x.nc": "why"})
    content = told.to_dict()
    assert [run["cells"]["ok"] for run in content["runs"]] == [*[CELLS] * 8, CELLS - 1, CELLS]
    [change_told] = content["changes"]
    assert (change_told["after"], change_told["from"]) == ("5.nc", "6.nc")
    assert len(change_told["comparison"]["cells"]) == CELLS
    with pytest.raises(runs.HistoryError, match="no run that a history can use: a: it is broken"):
        find_history([], {"a": "it is broken"})


def test_a_parameter_that_becomes_an_axis_keeps_its_earlier_runs(once: xr.Dataset) -> None:
    summaries = weekly(once, 10, lambda number, ds: ds.sel(rtt=[50.0]) if number < 5 else ds)
    told = find_history(runs_of(summaries), {})
    assert told.axes == ["rtt", "streams"]
    known = np.isfinite(told.cells.throughput.sel(streams=1)).values
    assert known.sum(axis=1).tolist() == [5, 10]
    assert told.changes == []


def test_one_cell_alone_has_a_history_too(once: xr.Dataset) -> None:
    told = find_history(runs_of(weekly(once.isel(rtt=[0], streams=[0]), 12, slower_from(6, 0.5))), {})
    assert [change.place for change in told.changes] == [6]
    assert [row["values"] for row in history_content(told)["rows"]] == [[]]


def test_of_very_many_cells_those_without_a_result_are_shown_first(
    once: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(number: int, summary: xr.Dataset) -> xr.Dataset:
        summary["status"][-1, -1, 0] = 2 if number == 7 else 1
        return summary

    monkeypatch.setattr("tpcsweep.analysis.history.history_page._MOST_ROWS", 2)
    content = history_content(find_history(runs_of(weekly(once, 8, change)), {}))
    assert [row["status"] for row in content["rows"]] == ["", "failed"]
    assert [row["line"].count(",") for row in content["rows"]] == [8, 7]
    assert f"2 of {CELLS} cells are shown" in render("history", **content)


def test_the_page_says_what_was_found_and_text_stays_text(once: xr.Dataset) -> None:
    def change(number: int, summary: xr.Dataset) -> xr.Dataset:
        summary = summary.assign_attrs(sweep=HOSTILE, testbed=HOSTILE)
        if number == 9:
            summary["status"][0, 0, 0] = 2
            summary["message"][:] = HOSTILE
        if number < 6:
            return summary
        summary["flags"][:] = flag_masks(summary)["not_steady"]
        return with_software(times(summary, 0.7), xrootd=HOSTILE)

    told = find_history(runs_of(weekly(once, 10, change)), {HOSTILE: HOSTILE})
    html = render("history", **history_content(told))
    soup = BeautifulSoup(html, "html.parser")
    assert len(soup.find_all("script")) == 3 and not soup.select("img, [src], link")
    assert soup.h1 is not None and soup.h1.get_text() == f"{HOSTILE} over time"
    text = " ".join(soup.get_text().split())
    assert sentence(told, told.changes[0]) in text and f"failed: {HOSTILE}" in text
    cells, listed = soup.select("tbody")
    assert len(cells.select("tr")) == CELLS
    assert [link["href"] for link in listed.select("a")] == [f"{number}.nc" for number in range(9, -1, -1)]
    drawn = json.loads(soup.find(id="runs").get_text())
    assert [run["differs"] for run in drawn["runs"]].index(True) == 6 and len(drawn["runs"]) == 10
    assert drawn["levels"] == pytest.approx([1, 0.7], rel=0.05)
    [change] = drawn["changes"]
    assert drawn["runs"][5]["time"] < change["time"] < drawn["runs"][6]["time"]
    assert change["verdict"] == "slower"
