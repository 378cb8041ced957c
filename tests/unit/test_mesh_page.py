# SPDX-License-Identifier: Apache-2.0
"""The page of a mesh: its sentences agree with the cells that its sections use."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray as xr
from tpcsweep.analysis.links import goals
from tpcsweep.analysis.links.sentences import ASSUMED, site_rows
from tpcsweep.analysis.page_sections import links_section, models_section
from tpcsweep.data import opening
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.labels import SIMULATED, TRANSFERS_GROUP, flag_masks
from tpcsweep.pages.content import page_content
from tpcsweep.pages.dataset_facts import dataset_facts
from tpcsweep.sweeps.link_goals import Goal

from tests.support import meshes

SITES = meshes.names(6)


class Made(NamedTuple):
    """The groups of a dataset of 30 links."""

    summary: xr.Dataset
    samples: xr.Dataset
    transfers: xr.Dataset


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Made:
    logs = meshes.truth(SITES, 2, site_spread=0.0, pair_spread=0.0).logs
    made = meshes.measured(logs, SITES, 2, streams={1: 1.0})
    file = meshes.folded(tmp_path_factory.mktemp("mesh"), made)
    made = Made(*(opening.load(file, group) for group in (None, "samples", TRANSFERS_GROUP)))
    made.summary.attrs["excluded"] = np.arange(len(SITES)) * (len(SITES) + 1)
    return made


@pytest.fixture
def mesh(folded: Made) -> Made:
    """A copy for tests that change it."""
    return folded._replace(summary=folded.summary.copy(deep=True))


def content(mesh: Made) -> dict[str, Any]:
    return page_content(*mesh, links=links_section(Path(), mesh.summary)["links"])


def flag(mesh: Made, name: str, source: str, destination: str) -> None:
    at = {"source": source, "destination": destination}
    mesh.summary["flags"].loc[at] = flag_masks(mesh.summary)[name]


def advice_of(page: dict[str, Any], point: int) -> str:
    advice = page["data"]["points"]["advice"]
    return str(advice["texts"][advice["at"][point]])


def text_of(texts: Sequence[str], beginning: str) -> str:
    [text] = [text for text in texts if text.startswith(beginning)]
    return text


def finding_of(page: dict[str, Any], words: str) -> str:
    [text] = [found["text"] for found in (*page["findings"], *page["doubts"]) if words in found["text"]]
    return str(text)


def test_links_with_a_warning_are_compared_and_the_page_says_so(mesh: Made) -> None:
    flag(mesh, "not_steady", "S01", "S02")
    flag(mesh, "files_missing", "S03", "S04")
    page = content(mesh)
    links = page["data"]["links"]
    compared = {
        (SITES[link["source"]], SITES[link["destination"]]) for link in links["links"] if link["compared"]
    }
    assert ("S01", "S02") in compared and ("S03", "S04") not in compared
    assert "links and goals use those with a warning." in finding_of(page, "carry a warning")
    [doubted] = [found for found in page["doubts"] if "carry a warning" in found["text"]]
    assert [link.words for link in doubted["links"]] == [
        "S01 → S02",
        "S03 → S04",
    ]
    assert "cells with a warning count, invalid ones do not" in text_of(page["links"], "Links scatter")


def test_a_link_that_waited_has_its_pause_and_no_other_limit_or_advice(mesh: Made) -> None:
    flag(mesh, "waited", "S01", "S03")
    mesh.summary["limit"] = xr.full_like(mesh.summary["limit"].astype(object), "between_files")
    mesh.summary["waited_share"] = mesh.summary["throughput"] * 0.0
    mesh.summary["waited_share"].loc[{"source": "S01", "destination": "S03"}] = 0.723
    page = content(mesh)
    points = page["data"]["points"]
    assert (points["paused"][2], points["limit"][2]) == ("72", -1) and page["data"]["cells"]["limit"][2] == -1
    assert advice_of(page, 2) == f"To measure it: {FLAGS['waited'].remedy}."
    assert points["paused"][3] is None and points["limit"][3] >= 0 and "more streams" in advice_of(page, 3)
    old = content(mesh._replace(summary=mesh.summary.drop_vars("waited_share")))
    assert old["data"]["points"]["paused"] is None


def test_an_implausible_cell_names_its_figure(mesh: Made) -> None:
    flag(mesh, "implausible", "S02", "S01")
    flag(mesh, "implausible", "S02", "S03")
    flag(mesh, "implausible", "S02", "S04")
    mesh.summary["client_cpu"] = mesh.summary["throughput"] * 0.0
    mesh.summary["client_cpu"].values.flat[[6, 8]] = -0.02256, -0.5
    page = content(mesh)["data"]
    flags = [one for one in page["flags"] if one["words"].startswith("implausible figures")]
    named, plain = "implausible figures: client CPU -0.5 to -0.0226 cores", "implausible figures"
    assert [one["words"] for one in flags] == [named, plain]
    marks = page["cells"]["marks"]
    assert [marks["texts"][at] for at in marks["at"][6:10]] == [named, "", named, plain]


def test_links_without_a_measurement_have_their_reasons_by_site(mesh: Made) -> None:
    status, message = mesh.summary["status"], mesh.summary["message"].astype(object)
    for lost, why in (("S06", "connection refused"), ("S05", "site S05 is left out: bad certificate")):
        for role in ("source", "destination"):
            status.loc[{role: lost}], message.loc[{role: lost}] = 0, why
    message.loc[{"source": "S01", "destination": "S05"}] = "bad certificate"
    status.loc[{"source": "S02", "destination": "S01"}] = 2
    message.loc[{"source": "S02", "destination": "S01"}] = "disk full"
    mesh.summary["message"] = message
    assert finding_of(content(mesh), "not measured").split("\n") == [
        "30 cells: 1 failed and 18 were not measured.",
        "Site S05 (10 links): site S05 is left out: bad certificate.",
        "Site S06 (8 links): connection refused.",
        "S02 → S01: disk full.",
    ]
    [text] = [text for text in content(mesh)["links"] if "usable" in text]
    assert text.startswith(
        "19 links without a usable measurement:\nSite S05 (10 links): site S05 is left out"
    )


def test_the_page_opens_the_link_that_is_slow_although_its_sites_are_not(tmp_path: Path) -> None:
    truth = meshes.truth(SITES, 3, links={("S02", "S05"): 0.2}, site_spread=0.0, pair_spread=0.02)
    file = meshes.folded(tmp_path, meshes.measured(truth.logs, SITES, 3))
    slow = Made(*(opening.load(file, group) for group in (None, "samples", TRANSFERS_GROUP)))
    assert content(slow)["data"]["start"]["cell"] == "S02,S05,4", "at its fastest setting"


def test_a_page_of_which_no_site_and_link_is_slow_opens_a_fast_one(mesh: Made) -> None:
    assert "cell" not in content(mesh)["data"]["start"]


def test_no_formula_follows_from_one_setting_of_each_link(mesh: Made, tmp_path: Path) -> None:
    assert models_section(tmp_path / "dataset.nc", mesh.summary) == {}
    several = meshes.measured(meshes.truth(SITES, 3).logs, SITES, 3)
    assert models_section(tmp_path / "dataset.nc", several) == {"forecast": None}, "its fits are not there"


def test_an_interval_that_is_not_the_cells_own_says_so(mesh: Made) -> None:
    at = {"source": "S01", "destination": "S02"}
    mesh.summary["throughput"].loc[at] *= 3
    for name in ("throughput_low", "throughput_high"):
        mesh.summary[name].loc[at] = np.nan
    page, words = content(mesh), f"; {ASSUMED})"
    assert words in text_of(page["links"], "S01 → S02 alone is fast") and words in page["answers"][0]
    links = page["data"]["links"]
    assert [words in link["text"] for link in links["links"]] == [True] + [False] * 29
    wanted = [Goal("S01", "S02", 1.0, 2), Goal("S02", "S01", 1.0, 3)]
    own = [row[goals.HEADS.index("interval")] for row in goals.texts(goals.judge_goals(mesh.summary, wanted))]
    assert [text.endswith(f"; {ASSUMED}") for text in own] == [True, False]


@pytest.mark.parametrize(
    ("streams", "repetitions", "size"),
    [
        (1, 1, "6 sites, 30 links, one cell each, all measured: "),
        (1, 2, "6 sites, 30 links × 2 repetitions = 60 cells, all measured: "),
        (2, 1, "6 sites, 30 links, 60 settings × 1 repetition = 60 cells, all measured: "),
    ],
)
def test_the_head_counts_sites_and_links(mesh: Made, streams: int, repetitions: int, size: str) -> None:
    one = mesh.summary
    more = xr.concat(
        [one.assign_coords(streams=[at]) for at in range(streams)], "streams", data_vars="minimal"
    )
    more = xr.concat(
        [more.assign_coords(repetition=[at]) for at in range(repetitions)], "repetition", data_vars="minimal"
    )
    shaped = more.transpose(*one["throughput"].dims, ...)
    count = streams * repetitions
    diagonal = (np.arange(6) * 7)[:, None] * count + np.arange(count)
    facts = dataset_facts(shaped.assign_attrs(one.attrs | {"excluded": diagonal.ravel()}))
    assert facts["state"].startswith(size)


def test_cells_have_the_time_of_their_start(mesh: Made) -> None:
    started = mesh.summary["started"].values.reshape(-1)
    started[:] = np.datetime64("NaT")
    started[[3, 5]] = np.datetime64("2026-11-30T01:57:40"), np.datetime64("2026-11-30T01:59:00")
    times = content(mesh)["data"]["cells"]["started"]
    assert times[3:6] == ["2026-11-30 01:57:40", None, "2026-11-30 01:59:00"]
    started[:] = np.datetime64("NaT")
    assert content(mesh)["data"]["cells"]["started"] is None


def test_sites_are_listed_with_the_best_sender_first() -> None:
    truth = meshes.truth(
        SITES, 2, sends={"S03": 2.0}, receives={"S02": 0.4}, site_spread=0.02, pair_spread=0.02
    )
    rows = site_rows(meshes.found_in(meshes.measured(truth.logs, SITES, 2)))
    assert rows[0]["site"] == "S03"
    assert sorted(row["site"] for row in rows) == sorted(SITES)
    by_site = {row["site"]: row for row in rows}
    assert re.fullmatch(r"(1|2)\.\d+ \([\d.]+ to [\d.]+\), 5 links ▲", by_site["S03"]["sends"]), by_site[
        "S03"
    ]
    assert re.fullmatch(r"0\.\d+ \([\d.]+ to [\d.]+\), 5 links ▼", by_site["S02"]["receives"]), by_site["S02"]


def test_a_cell_without_an_interval_says_why(mesh: Made) -> None:
    assert content(mesh)["data"]["no_interval"].startswith("no interval: fewer than eight samples")
    mesh.summary.attrs["testbed_kind"] = SIMULATED
    assert not content(mesh)["data"]["no_interval"]


def test_links_that_a_full_machine_measured_are_listed(mesh: Made) -> None:
    mesh.summary["machine_cpu"] = xr.full_like(mesh.summary["throughput"], 0.2)
    mesh.summary["machine_cpu"].loc[{"source": "S01", "destination": "S02"}] = 0.99
    [(words, links)] = dataset_facts(mesh.summary)["disturbed"]
    assert words == "Cells on the full measuring machine"
    assert [link.words for link in links] == ["S01 → S02"]


def test_goals_name_the_full_machine_where_a_link_does_not_reach_them(mesh: Made) -> None:
    """A rate of a full machine that reaches the goal needs no caveat."""
    mesh.summary["machine_cpu"] = xr.full_like(mesh.summary["throughput"], 0.2)
    mesh.summary["machine_cpu"].loc[{"source": "S01"}] = 0.99
    links = (("S01", "S02", 99.0), ("S01", "S03", 1e-3), ("S02", "S01", 99.0))
    results = goals.judge_goals(mesh.summary, [Goal(*link, 1) for link in links])
    verdicts = [row[goals.HEADS.index("verdict")] for row in goals.texts(results)]
    assert verdicts == ["not reached, on a full measuring machine", "reached", "not reached"]
    words = "Measured on a full machine, so that its rate may be the machine's own: S01 → S02."
    assert goals.in_a_sentence(results).endswith(words)
    results = goals.judge_goals(mesh.summary.drop_vars("machine_cpu"), [Goal(*link, 1) for link in links])
    assert "full" not in goals.in_a_sentence(results)
