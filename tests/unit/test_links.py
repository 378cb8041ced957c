# SPDX-License-Identifier: Apache-2.0
"""Links of a mesh: slow sites and slow paths against built truth, goals, and settings for transfer services."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bs4 import BeautifulSoup
from tpcsweep.analysis import page_sections
from tpcsweep.analysis.claims.judging import judge
from tpcsweep.analysis.history.change_points import find_history, sentence
from tpcsweep.analysis.links import handing_over, matrix_plots
from tpcsweep.analysis.links.crossed_effects import mixed_model
from tpcsweep.analysis.links.headline import headline
from tpcsweep.analysis.links.link_rates import mesh_of
from tpcsweep.analysis.links.sentences import CRITERION, FULL, link_matrix, sentences
from tpcsweep.pages.making import make_page
from tpcsweep.sweeps.problems import ConfigurationError

from tests.support import histories, meshes
from tests.support.commands import tpcsweep
from tests.support.odd import rewrite

SIX, TWELVE = meshes.names(6), meshes.names(12)
SLOW_LINKS = {("S01", "S03"): 0.3, ("S04", "S02"): 0.5}
WORLDS: dict[str, dict[str, Any]] = {
    "natural scatter": {},
    "a slow receiver": {"receives": {"S02": 0.4}},
    "a slow sender and a slow receiver": {"sends": {"S01": 0.5}, "receives": {"S02": 0.4}},
    "slow links": {"links": SLOW_LINKS},
    "a slow site and slow links, one of them to it": {"receives": {"S02": 0.4}, "links": SLOW_LINKS},
}


def test_the_mixed_model_is_that_of_the_whole_covariance() -> None:
    random = np.random.default_rng(0)
    logs, variances = random.normal(size=(4, 5)), random.uniform(0.1, 0.3, (4, 5))
    logs[0, 1] = np.nan
    used = np.isfinite(logs)
    used[2, 2] = False
    covariates = np.stack([np.ones((4, 5)), random.normal(size=(4, 5))])
    restricted, plain, estimates, covariance = mixed_model(
        logs, variances, covariates, used, np.array([0.5, 0.3, 0.2])
    )
    at, y, fixed = np.argwhere(used), logs[used], covariates[:, used].T
    sources, destinations = np.eye(4)[at[:, 0]], np.eye(5)[at[:, 1]]
    whole = 0.5 * sources @ sources.T + 0.3 * destinations @ destinations.T + np.diag(0.2 + variances[used])
    inverse = np.linalg.inv(whole)
    information = fixed.T @ inverse @ fixed
    slopes = np.linalg.solve(information, fixed.T @ inverse @ y)
    rest = y - fixed @ slopes
    likelihood = np.linalg.slogdet(whole)[1] + rest @ inverse @ rest
    assert plain == pytest.approx(likelihood)
    assert restricted == pytest.approx(likelihood + np.linalg.slogdet(information)[1])
    assert estimates[:2] == pytest.approx(slopes)
    assert estimates[2:6] == pytest.approx(0.5 * sources.T @ inverse @ rest)
    assert np.linalg.inv(covariance[:2, :2]) == pytest.approx(information)


@pytest.mark.parametrize("world", WORLDS)
def test_slow_sites_and_slow_paths_are_told_apart(world: str) -> None:
    about = WORLDS[world]
    built = {("sends", site) for site in about.get("sends", {})}
    built |= {("receives", site) for site in about.get("receives", {})} | {*about.get("links", {})}
    for seed in range(5):
        truth = meshes.truth(TWELVE, seed, site_spread=0.05, pair_spread=0.03, **about)
        found = meshes.found_in(meshes.measured(truth.logs, TWELVE, seed))
        assert meshes.named(found) == built, seed
        for link in found.links:
            if link.verdict == "slow":
                true = truth.pairs[TWELVE.index(link.source), TWELVE.index(link.destination)]
                assert link.ratio_low <= np.exp(true) <= link.ratio_high


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_the_scatter_of_links_contains_their_noise(noise: float) -> None:
    """The model's own variance of pairs is near zero where noise explains the scatter."""
    truth = meshes.truth(TWELVE, 1, pair_spread=0.0)
    found = meshes.found_in(meshes.measured(truth.logs, TWELVE, 1, streams={1: 1.0}, noise=noise, luck=0.0))
    assert found.scatter == pytest.approx(noise, rel=0.25)


def test_meshes_of_equal_sites_have_no_slow_one() -> None:
    false = 0
    for seed in range(40):
        truth = meshes.truth(SIX, seed, site_spread=0.0, pair_spread=0.0)
        false += bool(meshes.named(meshes.found_in(meshes.measured(truth.logs, SIX, seed))))
    assert false <= 5  # 5 % of meshes: 6 or more of 40 in one test of seventy


def test_a_statement_has_ratio_interval_and_limit() -> None:
    truth = meshes.truth(TWELVE, 3, receives={"S02": 0.4}, links={("S01", "S03"): 0.3}, site_spread=0.05)
    limit = np.full((12, 12), "bandwidth", object)
    limit[:, 1] = "cpu_destination"
    found = meshes.found_in(meshes.measured(truth.logs, TWELVE, 3, limit=limit))
    site, link, best, method, *more = sentences(found)
    assert site.startswith("Site S02 receives 0.") and "times what the others receive (" in site
    assert site.endswith("over 11 links; the destination's CPU limits 11 of them.")
    assert (
        link.startswith("S01 → S03 alone is slow: ")
        and "; limit: the path's bandwidth. Both sites reach more on their other links" in link
    )
    assert sentences(found, full={("S01", "S03"), ("S01", "S04")})[1] == f"{link} {FULL}"
    many = sentences(found, full={("S01", "S03"), *((site, "S12") for site in TWELVE[:4])})[1]
    others = "The 4 other links that were measured on a full machine reach "
    assert many.startswith(f"{link} {FULL} {others}") and many.endswith(" times the expectation.")
    assert re.fullmatch(
        r"Best sender: S\d\d, 1\.\d+ times the others \(1\.\d+ to 1\.\d+\); not told from it by .*: S\d\d.*\.",
        best,
    )
    assert method.startswith("Links scatter by about ") and method.endswith(CRITERION) and not more
    assert CRITERION.startswith("Slow: 0.8 times the others or less; fast: 1.25 times or more")


def test_a_slow_link_that_a_host_limits_is_not_put_on_the_path() -> None:
    """The CPU of its destination is no property of the path."""
    truth = meshes.truth(TWELVE, 3, links={("S01", "S03"): 0.3}, site_spread=0.05)
    limit = np.full((12, 12), "not_visible", object)
    limit[0, 2] = "cpu_destination"
    cause = "which points to the path between them"
    for limits, on_path in ((limit, False), (np.full((12, 12), "not_visible", object), True)):
        found = meshes.found_in(meshes.measured(truth.logs, TWELVE, 3, limit=limits))
        about = {(row["source"], row["destination"]): row["about"] for row in link_matrix(found)["links"]}
        assert (
            (cause in headline(found)) == (cause in about[0, 2]) == (cause in sentences(found)[0]) == on_path
        )


def test_the_answer_of_a_mesh_has_its_slow_sites_and_links_and_counts_the_others() -> None:
    truth = meshes.truth(TWELVE, 3, receives={"S02": 0.4}, links={("S01", "S03"): 0.3}, site_spread=0.05)
    made = meshes.measured(truth.logs, TWELVE, 3, missing=[("S05", "S06")])
    assert re.fullmatch(
        r"Site S02 receives 0\.\d+ times what the others receive \(0\.\d+ to 0\.\d+\): "
        r"the path's bandwidth limits it\. "
        r"S01 → S03 alone is slow: 0\.\d+ times the expectation \(0\.\d+ to 0\.\d+\); "
        r"both sites reach more on their other links, which points to the path between them\. "
        r"119 of 132 links are within chance of the expectation, 12 slow, or of such a site, "
        r"1 without a usable measurement: S05 → S06\.",
        headline(meshes.found_in(made)),
    )
    slow = {(site, "S02"): 0.2 for site in TWELVE[2:7]}
    truth = meshes.truth(TWELVE, 3, links=slow, site_spread=0.0, pair_spread=0.02)
    text = headline(meshes.found_in(meshes.measured(truth.logs, TWELVE, 3)))
    assert (
        text.count("→") == 3
        and "2 further links are slow. 127 of 132 links are within chance of the expectation, 5 slow, or"
        in text
    )
    equal = meshes.truth(SIX, 3, site_spread=0.0, pair_spread=0.0)
    assert headline(meshes.found_in(meshes.measured(equal.logs, SIX, 3))) == (
        "No site or link is slow or fast: all 30 links are within chance of the expectation."
    )
    two = meshes.measured(equal.logs, SIX, 3).sel(source=["S01"], destination=["S02"])
    assert headline(meshes.found_in(two)) == ""


def test_a_far_site_is_not_called_slow_for_its_window() -> None:
    rtt = np.full((12, 12), 10.0) + np.arange(12)
    rtt[4], rtt[:, 4] = 150.0, 150.0
    logs = np.minimum(np.log(2.0), np.log(2.0 * 20 / rtt))
    np.fill_diagonal(logs, np.nan)
    limit = np.where(rtt > 20, "window", "bandwidth").astype(object)
    made = meshes.measured(logs, TWELVE, 0, limit=limit)
    found = meshes.found_in(made)
    assert meshes.named(found, "window") == {("sends", "S05"), ("receives", "S05")} and not meshes.named(
        found
    )
    text = sentences(found)[0]
    assert "TCP's window limits 11 of them" in text and "not called slow" in text
    known = meshes.found_in(meshes.measured(logs, TWELVE, 0, limit=limit, rtt=rtt))
    assert not meshes.named(known) and not meshes.named(known, "window")  # its RTT explains its throughput
    assert known.rtt_from < 30
    [(begins, share, farthest)] = re.findall(
        r"after the fall of the throughput with RTTs above ([\d.]+) ms, to ([\d.]+) times at ([\d.]+) ms",
        sentences(known)[-1],
    )
    assert 0 < float(share) < 1 and float(begins) < float(farthest)


def test_the_unknown_is_named() -> None:
    groups = [(one, other) for one in SIX for other in SIX if (one in SIX[:4]) != (other in SIX[:4])]
    lost = [("S01", other) for other in SIX[1:3]]
    truth = meshes.truth(SIX, 1)
    found = meshes.found_in(meshes.measured(truth.logs, SIX, 1, missing=[*groups, *lost]))
    text = " ".join(sentences(found))
    assert "One link cannot tell a slow site from a slow path: S01, S05, S06 send on one link" in text
    assert "S01, S02, S03, S04" in text and "Groups of links without a common site" in text
    assert (
        "18 links without a usable measurement: site S05 (8 links), site S06 (8 links), site S01 (2 links)."
        in text
    )


def test_one_source_has_slow_links_and_no_slow_site() -> None:
    truth = meshes.truth(TWELVE, 2, links={("S01", "S04"): 0.3}, site_spread=0.05)
    made = meshes.measured(truth.logs, TWELVE, 2).sel(source=["S01"])
    found = meshes.found_in(made)
    assert meshes.named(found) == {("S01", "S04")}
    assert sentences(found)[0].startswith("S01 → S04 is slow, S04 or the path: ")


@pytest.fixture(scope="module")
def mesh_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset of a mesh of six sites: S02 receives slowly, S06 → S05 failed."""
    truth = meshes.truth(SIX, 4, receives={"S02": 0.4}, site_spread=0.02, pair_spread=0.02)
    made = meshes.measured(truth.logs, SIX, 4, missing=[("S06", "S05")])
    return meshes.folded(tmp_path_factory.mktemp("results") / "mesh", made)


@pytest.mark.parametrize("count", [6, 50])
def test_the_matrix_names_sites_links_and_limits(count: int, tmp_path: Path) -> None:
    from tpcsweep.pages.figures import write_figure

    sites = meshes.names(count)
    truth = meshes.truth(sites, 0, receives={"S02": 0.4}, links={("S04", "S05"): 0.2}, site_spread=0.03)
    made = meshes.measured(truth.logs, sites, 0, missing=[("S01", "S03")])
    drawn = matrix_plots.matrix(made)
    write_figure(drawn, tmp_path / "matrix.png")
    [axes, *_] = drawn.axes
    assert [text.get_text() for text in axes.get_xticklabels()][1] == "S02 ▼"
    assert [text.get_text() for text in axes.get_yticklabels()] == sites
    legend = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert any("slow path" in text for text in legend) and "failed or not measured" in legend
    assert len(axes.texts) == (3 * (count * (count - 1) - 1) if count == 6 else 0)


def test_the_page_of_a_mesh_starts_with_its_answer(mesh_file: Path, tmp_path: Path) -> None:
    goals = tmp_path / "goals.csv"
    goals.write_text("source,destination,Gbit/s\nS01,S03,1\nS01,S02,1.5\n")
    done = tpcsweep("page", mesh_file, "-o", tmp_path / "page.html", "--goals", goals)
    assert done.exit_code == 0, done.output
    page = BeautifulSoup((tmp_path / "page.html").read_text(), "html.parser")
    first, limit = [answer.get_text() for answer in page.select(".answer")]
    assert first.startswith("Site S02 receives 0.") and first.endswith(
        "2 goals: 1 reached; 1 not reached: S01 → S02."
    )
    assert "limits" in limit
    assert [head.get_text() for head in page.select("section > h2[id^=h-]")][:3] == [
        "Links",
        "Goals",
        "Findings",
    ]
    assert tpcsweep("figure", mesh_file, "--kind", "matrix", "-o", tmp_path / "m.svg").exit_code == 0


def test_a_page_made_by_hand_has_the_goals_of_the_run(mesh_file: Path, tmp_path: Path) -> None:
    """A run keeps them next to the dataset; those of the option come first, and a run without goals forgets them."""
    dataset, table, other = tmp_path / "mesh/dataset.nc", tmp_path / "table.csv", tmp_path / "other.csv"
    dataset.parent.mkdir()
    shutil.copy(mesh_file, dataset)
    table.write_text("source,destination,Gbit/s\nS01,S03,1\n")
    other.write_text("source,destination,Gbit/s\nS01,S02,9\n")
    page_sections.keep_goals([str(table)], dataset)
    make_page(dataset, dataset.with_name("index.html"), analyses=page_sections.SECTIONS)
    by_run, by_hand = dataset.with_name("index.html").read_text(), dataset.with_name("hand.html")
    table.unlink()  # the results alone are enough
    assert tpcsweep("page", dataset.parent, "-o", by_hand).exit_code == 0
    assert by_hand.read_text() == by_run and "1 goal: 1 reached." in by_run
    assert tpcsweep("page", dataset.parent, "-o", by_hand, "--goals", other).exit_code == 0
    assert "1 goal: 1 not reached: S01 → S02." in by_hand.read_text()
    page_sections.keep_goals([], dataset)
    assert tpcsweep("page", dataset.parent, "-o", by_hand).exit_code == 0
    assert "h-goals" not in by_hand.read_text()


def test_a_page_without_the_models_starts_with_what_limits(
    mesh_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_sections, "missing_extras", lambda names: names)
    make_page(mesh_file, tmp_path / "page.html", analyses=page_sections.SECTIONS)
    page = BeautifulSoup((tmp_path / "page.html").read_text(), "html.parser")
    [answer] = page.select(".answer")
    assert "limits" in answer.get_text()
    assert page.find(id="h-findings") and not page.find(id="h-links")


def test_a_page_counts_the_cells_of_links_and_knows_that_they_have_rtts(tmp_path: Path) -> None:
    """Of the grid of 6 × 6 sites, those of a site with itself are no cells."""
    truth, rtt = meshes.truth(SIX, 0), np.full((6, 6), 20.0)
    file = meshes.folded(tmp_path, meshes.measured(truth.logs, SIX, 0, missing=[("S01", "S03")], rtt=rtt))
    with xr.open_dataset(file) as summary:
        same = summary["source"] == summary["destination"]
        excluded = np.flatnonzero(same.broadcast_like(summary["status"]).transpose(*summary["status"].dims))
    rewrite(file, lambda summary: summary.assign_attrs(excluded=excluded).assign_coords(rtt=np.nan))
    done = tpcsweep("page", file, "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text()
    assert re.findall(r"\d+ cells(?:, all measured)?: [^.<]*", page) == [
        "60 cells, all measured: 58 without warnings, 2 failed",
        "60 cells: 2 failed",
    ]
    assert "not declared" not in page
    with xr.open_dataset(file) as summary:
        reasons = "\n".join(verdict.reason for verdict in judge(summary.load()))
    assert re.search(r"rtt: needed [^;]*; the dataset has none set: its pairs have ", reasons)


@pytest.mark.parametrize(
    ("lines", "code", "verdicts"),
    [
        ("S01,S03,1\nS03,S01,500 Mbit/s\n", 0, ["reached", "reached"]),
        ("S01,S03,1\nS01,S02,1.5\n", 1, ["reached", "not reached"]),
        ("S01,S03,1\nS06,S05,1\n", 3, ["reached", "not decided"]),
    ],
)
def test_the_exit_code_of_goals_is_their_verdict(
    mesh_file: Path, tmp_path: Path, lines: str, code: int, verdicts: list[str]
) -> None:
    goals = tmp_path / "goals.csv"
    goals.write_text(f"source,destination,Gbit/s\n{lines}")
    done = tpcsweep("goals", mesh_file, goals, "--json")
    assert done.exit_code == code, done.output
    assert [goal["verdict"] for goal in json.loads(done.stdout)["goals"]] == verdicts
    assert tpcsweep("goals", mesh_file, goals).exit_code == code


def test_a_goal_has_the_fewest_streams_and_the_chance_of_one_measurement(
    mesh_file: Path, tmp_path: Path
) -> None:
    rates = {"0.5": (1, 1.0), "1.5": (4, 1.0)}  # one stream has half of the throughput
    for rate, (streams, chance) in rates.items():
        goals = tmp_path / "goals.csv"
        goals.write_text(f"source,destination,Gbit/s\nS01,S03,{rate}\n")
        [goal] = json.loads(tpcsweep("goals", mesh_file, goals, "--json").stdout)["goals"]
        assert (goal["streams"], goal["probability"]) == (streams, pytest.approx(chance, abs=0.01))
    summary = xr.load_dataset(mesh_file)
    best = float(summary.throughput.sel(source="S01", destination="S03", streams=4, repetition=1))
    goals.write_text(f"source,destination,Gbit/s\nS01,S03,{best}\n")
    [goal] = json.loads(tpcsweep("goals", mesh_file, goals, "--json").stdout)["goals"]
    assert (goal["verdict"], goal["probability"]) == ("not decided", pytest.approx(0.5, abs=0.01))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "from,to,rate\n",
            "line 1: given 'from,to,rate', allowed: a table that begins with source,destination",
        ),
        ("S01,S9,1\n", "line 2: given destination 'S9', allowed: one of S01"),
        ("S01,S01,1\n", "line 2: given a link from S01 to itself"),
        ("S01,S02,1 GB\n", "line 2: given '1 GB', allowed: "),
        ("S01,S02,-1\n", "line 2: given "),
        ("S01,S02,0\n", "a rate above 0"),
        ("S01,S02,1\n\nS01,S02,2\n", "line 4: given S01 → S02 again, allowed: each link once; line 2 has it"),
        ("S01,S02\n", "line 2: given 2 values, allowed: 3: source,destination,Gbit/s"),
        ("", "given no rows"),
    ],
)
def test_an_error_in_goals_names_its_line(mesh_file: Path, tmp_path: Path, text: str, error: str) -> None:
    goals = tmp_path / "goals.csv"
    goals.write_text(text if text.startswith("from") else f"source,destination,Gbit/s\n{text}")
    done = tpcsweep("goals", mesh_file, goals)
    assert done.exit_code == 2 and f"{goals}: " in done.stderr and error in done.stderr


def weekly(mesh_file: Path, change: float, weeks: int = 10) -> list[xr.Dataset]:
    """Weeks of a mesh, in the second half of which S03 → S04 is slower."""

    def of_week(number: int, summary: xr.Dataset) -> xr.Dataset:
        here = (summary["source"] == "S03") & (summary["destination"] == "S04") & (number >= weeks // 2)
        factor = xr.where(here, change, 1.0).broadcast_like(summary["throughput"])
        return histories.times(summary, factor.transpose(*summary["throughput"].dims).values)

    return histories.weekly(xr.load_dataset(mesh_file), weeks, of_week)


def test_the_history_of_a_mesh_names_the_link_that_changed(mesh_file: Path) -> None:
    history = find_history(histories.runs_of(weekly(mesh_file, 0.4)), {})
    [change] = history.changes
    cells = change.comparison.cells
    slower = cells[cells["verdict"] == "slower"]
    assert {(row.source, row.destination) for row in slower.itertuples()} == {("S03", "S04")}
    assert "2 slower (S03 → S04)" in sentence(history, change)


def test_goals_name_the_last_other_verdict(mesh_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mesh"
    *before, last = weekly(mesh_file, 0.4)
    kept = {f"history/{number}.nc": summary for number, summary in enumerate(before[:5])}
    for name, summary in {**kept, "dataset.nc": last}.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(mesh_file.read_bytes())
        rewrite(folder / name, lambda _, summary=summary: summary)
    goals = tmp_path / "goals.csv"
    goals.write_text("source,destination,Gbit/s\nS03,S04,1.2\nS01,S03,1.2\n")
    fallen, same = json.loads(tpcsweep("goals", folder, goals, "--json").stdout)["goals"]
    assert (fallen["verdict"], fallen["before"]) == ("not reached", "reached on 2026-02-01")
    assert same["before"] == ""


# --- settings for transfer services

LINK_FIELDS = {"symbolicname": str, "source": str, "destination": str, "min_active": int, "max_active": int}
LINK_FIELDS |= {"nostreams": int, "optimizer_mode": int, "no_delegation": bool}
"""Fields of FTS' links with their types, by the columns of its table of links."""
SE_FIELDS = {"inbound_max_active", "outbound_max_active", "inbound_max_throughput", "outbound_max_throughput"}
RUCIO_FIELDS = {"rse_expression", "direction", "max_transfers", "strategy"}


@pytest.fixture
def storages(tmp_path: Path) -> Path:
    file = tmp_path / "storages.csv"
    lines = [f"{site},davs://{site.lower()}.example.org" for site in SIX]
    file.write_text("\n".join(["site,storage", *lines]))
    return file


def test_settings_for_fts_have_its_fields_and_types(mesh_file: Path, storages: Path) -> None:
    words = ("plan", "--recommend", "--format", "fts", "--names", storages, "--rtt", "50ms", mesh_file)
    done = tpcsweep(*words)
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)
    assert len(made["links"]) == 30
    for link in made["links"]:
        assert {name: type(value) for name, value in link.items()} == LINK_FIELDS
        assert 1 <= link["min_active"] <= link["max_active"] and link["source"].startswith("davs://")
        assert 1 <= link["optimizer_mode"] <= 3 and link["nostreams"] >= 1
        assert len(link["symbolicname"]) <= 255
    assert len({link["symbolicname"] for link in made["links"]}) == 30
    marked = [link["symbolicname"] for link in made["links"] if "not-measured" in link["symbolicname"]]
    assert marked == ["tpcsweep-S06-S05-not-measured"]
    assert {*made["se"]} == {link["source"] for link in made["links"]}
    assert all({*one} == {"se_info"} and {*one["se_info"]} == SE_FIELDS for one in made["se"].values())
    measured = [link for link in made["links"] if link["symbolicname"] not in marked]
    assert {(link["min_active"], link["max_active"]) for link in measured} <= {(1, 4), (4, 4)}


def test_a_storage_whose_cpu_limits_it_has_limits_of_its_own() -> None:
    def setting(source: str, destination: str, rate: float, streams: int, limit: str) -> Any:
        return handing_over.LinkSetting(source, destination, rate, 1, streams, 1, limit, "measured")

    settings = [setting("A", "B", 2.0, 8, "cpu_destination"), setting("C", "B", 1.0, 4, "window")]
    made = handing_over.fts(settings, {site: f"davs://{site}" for site in "ABC"})["se"]
    assert made["davs://B"]["se_info"] == {
        "inbound_max_active": 8, "inbound_max_throughput": 250.0,
        "outbound_max_active": None, "outbound_max_throughput": None,
    }  # fmt: skip
    assert made["davs://A"]["se_info"]["outbound_max_active"] == 8
    assert made["davs://A"]["se_info"]["outbound_max_throughput"] is None


def test_limits_for_rucio_are_arguments_of_its_client(mesh_file: Path) -> None:
    rows = json.loads(tpcsweep("plan", "--recommend", "--format", "rucio", mesh_file).stdout)
    assert {row["rse_expression"] for row in rows} == {*SIX} and len(rows) == 12
    assert all({*row} == RUCIO_FIELDS and row["direction"] in "SD" for row in rows)
    assert all(isinstance(row["max_transfers"], int) and row["max_transfers"] > 0 for row in rows)


def test_a_link_without_measurement_and_rtt_is_left_out_and_named(mesh_file: Path) -> None:
    done = tpcsweep("plan", "--recommend", "--format", "csv", mesh_file)
    rows = [*csv.DictReader(io.StringIO(done.stdout))]
    assert len(rows) == 29 and {row["from"] for row in rows} == {"measured"}
    assert "left out: S06 → S05" in done.stderr
    done = tpcsweep("plan", "--recommend", "--format", "csv", "--rtt", "50ms", mesh_file)
    [row] = [row for row in csv.DictReader(io.StringIO(done.stdout)) if row["from"] == "not measured"]
    assert (row["source"], row["destination"]) == ("S06", "S05") and 1.5 < float(row["Gbit/s"]) < 2.7
    assert int(row["max_active"]) >= 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--format", "fts"), "needs --names FILE.csv"),
        (("--format", "csv", "--streams", "4"), "only with --rtt and --bandwidth, not streams"),
        (("--names", "STORAGES"), "use --recommend --format with RESULTS of a mesh"),
        ((), "source and destination: given nothing, allowed: a link of the mesh, such as source S01 and"),
    ],
)
def test_errors_of_settings_name_the_option(
    mesh_file: Path, storages: Path, words: tuple[str, ...], error: str
) -> None:
    given = [storages if word == "STORAGES" else word for word in words]
    done = tpcsweep("plan", "--recommend", *given, mesh_file)
    assert done.exit_code == 2 and error in done.stderr


def test_storages_need_every_site_once(storages: Path) -> None:
    setting = handing_over.LinkSetting("S01", "S07", 1.0, 1, 1, 1, "", "measured")
    with pytest.raises(ConfigurationError, match=r"line 3: given 'S02,davs"):
        handing_over.read_names(storages, [setting])
    storages.write_text("site,storage\nS01,davs://a\n")
    with pytest.raises(ConfigurationError, match="a line for S07"):
        handing_over.read_names(storages, [setting])


def test_other_datasets_have_no_links(tmp_path: Path) -> None:
    made = histories.folded(tmp_path)
    with pytest.raises(ConfigurationError, match="allowed: a mesh, with the axes source and destination"):
        mesh_of(made)
