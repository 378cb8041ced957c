# SPDX-License-Identifier: Apache-2.0
"""Meshes: links of sites, their rounds, the most that they ask of each site, and sites that are left out."""

import itertools
import json
import math
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tpcsweep.data import cell_files
from tpcsweep.data.cell_result import NotMeasured
from tpcsweep.running import meshes, status
from tpcsweep.running.meshes import MOST_FAILURES, measure_mesh
from tpcsweep.running.runner import Ending
from tpcsweep.running.studies import Studies
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.tournament import in_rounds, makespan, startable, tournament
from tpcsweep.testbeds import kinds, support
from tpcsweep.testbeds.endpoints.spending import BudgetError, Spending
from tpcsweep.testbeds.loading import load

from tests.support import synthetic

Patch = pytest.MonkeyPatch
Failure = Callable[[str, str], tuple[str, list[str]] | None]
"""Returns the reason of a link's failure, and the sites that do not answer; None if the link goes well."""
MIB = 1 << 20
FILES = {"until": "files", "files": 8, "max_time": "30 s"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def names(count: int) -> list[str]:
    return [f"S{number}" for number in range(count)]


def mesh_of(count: int = 3, pairs: object = "mesh", **changes: Any) -> dict[str, Any]:
    sites = [{"name": name, "urls": [f"davs://{name}.example/x"]} for name in names(count)]
    budget = {"bytes": "100 TiB", "time": "100 h"}
    return {
        "kind": "endpoints",
        "sites": sites,
        "pairs": pairs,
        "budget": budget,
        "max_streams": 8,
        **changes,
    }


def study(folder: Path, testbed: dict[str, Any], **sweep: Any) -> SweepStudy:
    parameters = {"tool": "native", "file_size": "1 MiB", **sweep.pop("parameters", {})}
    content = {"parameters": parameters, "measurement": FILES, "seed": 0, "retry_share": 0, **sweep}
    for name, text in (("sweeps/links", content), ("testbeds/mine", testbed)):
        file = folder / f"config/{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(text))
    return load({"sweep": "links", "testbed": "mine", "results": str(folder / "results")}, folder)


@pytest.mark.parametrize(("count", "rounds"), [(2, 2), (3, 6), (12, 22), (13, 26), (50, 98)])
def test_a_tournament_has_each_link_once_and_no_site_twice_in_a_round(count: int, rounds: int) -> None:
    found = tournament(names(count), 0)
    links = Counter(itertools.chain.from_iterable(found))
    assert links.keys() == set(itertools.permutations(names(count), 2))
    assert set(links.values()) == {1}
    assert len(found) == rounds
    for one in found:
        assert len({site for link in one for site in link}) == 2 * len(one) == 2 * (count // 2)
    assert found == tournament(names(count), 0) != tournament(names(count), 1) or count == 2


@pytest.mark.parametrize("count", [2, 3, 12, 50])
def test_rounds_measure_each_deployment_of_a_mesh_once(tmp_path: Path, count: int) -> None:
    made = study(tmp_path, mesh_of(count), repetitions=2, repeat="deployments", max_cells=20_000)
    assert list(made.grid.axes) == ["source", "destination", "repetition"]
    rounds = in_rounds(made.grid)
    assert sorted(itertools.chain.from_iterable(rounds)) == sorted(made.grid.deployments)
    assert len(made.grid.deployments) == 2 * count * (count - 1)
    for paths in rounds:
        sites = [
            site
            for path in paths
            for site in made.testbed.occupied(made.grid.deployments[path][0].parameters)
        ]
        assert len(sites) == len(set(sites))


def test_fifty_sites_need_an_hour(tmp_path: Path) -> None:
    """Each of 98 rounds starts and tears down its links, and measures a cell of 30 s with what a cell needs beyond."""
    made = study(tmp_path, mesh_of(50), measurement={"until": "seconds", "seconds": "30 s"})
    each = made.testbed.deploy_seconds + made.testbed.cell_seconds + 30
    assert made.testbed.expected_seconds(made.grid) == (pytest.approx(98 * each), pytest.approx(98 * each))
    assert 98 * each < 1.5 * 3600
    assert {(use.sent, use.received, use.high) for use in made.testbed.uses(made.grid)} == {
        (49, 49, 98 * each)
    }


@pytest.mark.parametrize(
    ("pairs", "links"),
    [
        ("mesh", [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]),
        ({"from": "S1"}, [(1, 0), (1, 2)]),
        ({"to": ["S0", "S1"]}, [(0, 1), (1, 0), (2, 0), (2, 1)]),
        ({"from": ["S0", "S1"], "to": "S2"}, [(0, 2), (1, 2)]),
        (["S2 -> S0", "S0->S1"], [(2, 0), (0, 1)]),
    ],
)
def test_links_are_all_of_a_mesh_or_some(tmp_path: Path, pairs: object, links: list[tuple[int, int]]) -> None:
    made = study(tmp_path, mesh_of(3, pairs))
    found = {(cell.parameters.source, cell.parameters.destination) for cell in made.grid.cells}
    assert found == {(f"S{one}", f"S{other}") for one, other in links}
    assert {"source", "destination"} < made.grid.axes.keys()
    assert support.check(made) == []
    assert len(made.grid.excluded) == math.prod(map(len, made.grid.axes.values())) - len(links)
    assert sum(map(len, in_rounds(made.grid))) == len(links)


def test_a_sweep_may_measure_some_links_of_a_mesh(tmp_path: Path) -> None:
    made = study(tmp_path, mesh_of(4), parameters={"source": ["S0", "S1"], "destination": ["S1", "S2"]})
    assert len(made.grid.cells) == 3
    wrong = study(tmp_path, mesh_of(4, {"from": "S0"}), parameters={"source": ["S0", "S3"]}, include=[
        {"source": "S3", "destination": "S1"}
    ])  # fmt: skip
    assert "allowed: a link of this testbed" in str(support.check(wrong)[0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pairs": "all"}, "pairs: given 'all', allowed: mesh, a mapping with from or to, or a list"),
        ({"pairs": {"from": "S9"}}, "pairs: given S9, allowed: one of S0, S1, S2"),
        ({"pairs": {"form": "S0"}}, "pairs.form: given an unknown key, allowed: from? one of from, to"),
        ({"pairs": ["S0 -> S9"]}, "pairs[0]: given S0 -> S9, allowed: one of S0"),
        ({"pairs": ["S0 -> S0"]}, "pairs[0]: given S0 -> S0, allowed: two different sites"),
        ({"pairs": ["S0 -> S1", "S0->S1"]}, "pairs[1]: given S0 -> S1 again"),
        ({"pairs": ["S0"]}, "pairs[0]: given 'S0', allowed: a link between two sites, such as A -> B"),
        ({"sites": []}, "pairs: given no link, allowed: sites with a link between two of them"),
        ({"sites": [{"name": "S0", "urls": ["davs://a/x"]}] * 2}, "sites[1]: given S0 again"),
        (
            {
                "sites": [
                    {"name": name, "urls": [url]} for name, url in (("A", "davs://a/x"), ("B", "root://b//x"))
                ]
            },
            "pairs: given root:// with another scheme",
        ),
    ],
)
def test_a_wrong_mesh_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        study(tmp_path, mesh_of(3) | changes)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("source,destination,Gbit/s\nS0,S1,1\n", ""),
        (
            "source,destination,Gbit/s\nS0,S9,1\n",
            "line 2: given destination 'S9', allowed: one of S0, S1, S2",
        ),
        (None, "goals: given '"),
    ],
)
def test_a_table_of_goals_is_read_before_anything_is_measured(
    tmp_path: Path, table: str | None, words: str
) -> None:
    file = tmp_path / "goals.csv"
    if table is not None:
        file.write_text(table)
    made = study(tmp_path, mesh_of(3, goals=str(file)))
    assert words in "\n".join(map(str, support.check(made)))
    assert bool(support.check(made)) == bool(words)
    found = Studies({"sweep": "links", "testbed": "mine", "results": str(made.results)}, tmp_path)
    assert found.goals(SimpleNamespace(study=made.folder.name)) == [str(file)]


def test_limits_of_a_site_hold_for_all_its_links(tmp_path: Path) -> None:
    mine = mesh_of(3)
    mine["sites"][1] |= {"max_streams": 2, "budget": "100 MiB"}
    made = study(tmp_path, mine, parameters={"streams": [2, 4]})
    problems = list(map(str, support.check(made)))
    assert len([one for one in problems if "at most 2 at site S1 (max_streams in " in one]) == 4
    # Four links, each with 8 files of 2 and of 4 streams, and a source file.
    assert any("budget of site S1: given 100 MiB, allowed: at least 196 MiB" in one for one in problems)
    assert {use.name: use.bytes / MIB for use in made.testbed.uses(made.grid)} == dict.fromkeys(names(3), 196)


BESIDE = {"busy": {"links": ["S0 -> S2", "S1 -> S2"], "streams": 3}}


def test_traffic_beside_a_link_occupies_its_sites_and_their_streams(tmp_path: Path) -> None:
    mine = mesh_of(4, ["S0 -> S1", "S2 -> S3"], beside=BESIDE, max_streams=6)
    for site in mine["sites"]:
        site["bandwidth"] = "1 Gbit/s"
    asked = {"streams": [2, 4], "beside": ["none", "reverse", "busy"]}
    made = study(tmp_path, mine, parameters=asked)
    occupied = {
        (cell.parameters.source, cell.parameters.beside): made.testbed.occupied(cell.parameters)
        for cell in made.grid.cells
    }
    assert occupied["S0", "none"] == occupied["S0", "reverse"] == {"S0", "S1"}
    assert occupied["S0", "busy"] == {"S0", "S1", "S2"}
    assert occupied["S2", "busy"] == {*names(4)}
    crowded = [str(one) for one in support.check(made)]
    assert len(crowded) == 5  # 8 in both directions of two links; 4 + 3 at S0; 2 + 3 + 3 and 4 + 3 at S2
    assert all("with the background traffic" in one for one in crowded)
    words = study(tmp_path, mine, parameters={"beside": ["none", "bussy"]})
    assert "allowed: busy? one of none, reverse, busy" in str(support.check(words)[0])


def test_traffic_without_a_declared_bandwidth_has_no_bound(tmp_path: Path) -> None:
    made = study(tmp_path, mesh_of(2), parameters={"beside": "reverse"})
    assert made.testbed.most_bytes(made.grid) == math.inf
    assert "a bandwidth for each pair" in str(support.check(made)[0])


def test_a_budget_may_be_spent_on_links_in_turns(tmp_path: Path) -> None:
    """Eight files and a source file for each link: the budget of a run allows six, and that of S0 two of its own."""
    budget = {"bytes": "54 MiB", "time": "2 h", "rotate": True}
    mine = mesh_of(4, budget=budget)
    mine["sites"][0]["budget"] = "18 MiB"
    made = study(tmp_path, mine)
    assert support.check(made) == []
    order = [path for paths in in_rounds(made.grid) for path in paths]
    part = made.testbed.affordable(made.grid, order)
    assert (len(part), sum("S0" in path for path in part)) == (6, 2)
    assert part[0] == order[0]
    each = made.testbed.expected_seconds(made.grid)[1] / len(in_rounds(made.grid))
    mine["budget"] = {"bytes": "1 TiB", "time": f"{2 * each + 1} s", "rotate": True}
    del mine["sites"][0]["budget"]
    hurried = study(tmp_path, mine)
    assert hurried.testbed.affordable(hurried.grid, order) == order[:4]
    mine["budget"]["bytes"] = "8 MiB"
    assert "budget: given too little for one link" in str(support.check(study(tmp_path, mine))[0])


def test_the_bytes_of_a_site_are_those_of_all_its_links(tmp_path: Path) -> None:
    budget = study(tmp_path, mesh_of()).testbed.budget
    first, second, third = (
        Spending(tmp_path / "here.spent", "1 2.0", budget, "here", sites)
        for sites in ({"A": 10 * MIB, "B": None}, {"C": None, "A": 10 * MIB}, {"B": None, "C": MIB})
    )
    for one in (first, second):
        one.note(5 * MIB)
        one.save()
        one.check()
    second.note(5 * MIB + 1)
    with pytest.raises(BudgetError, match=r"budget of site A: .* of 10 MiB"):
        second.check()
    third.save()
    with pytest.raises(BudgetError, match="site C"):
        third.check()


def test_a_link_starts_when_both_sites_are_free() -> None:
    waiting = {"ab": frozenset("ab"), "bc": frozenset("bc"), "cd": frozenset("cd"), "ef": frozenset("ef")}
    assert startable(waiting, "") == ["ab", "cd", "ef"]
    assert startable(waiting, "a") == ["bc", "ef"]
    assert startable(waiting, "", lambda path: path == "ab") == ["bc", "ef"]
    assert makespan((path, sites, 10.0) for path, sites in waiting.items()) == 20


class Links:
    """Jobs of links that only play: they write times, and end as a function decides."""

    def __init__(self, folder: Path, patched: Patch, failure: Failure) -> None:
        self.folder = folder

        def job(study: SweepStudy, path: str, _: int, answer: Connection) -> None:
            wanted = study.grid.deployments[path][0].parameters
            began = time.monotonic()
            time.sleep(0.05)
            failed = failure(wanted.source, wanted.destination)
            for cell in study.grid.deployments[path]:
                spec = meshes.cell_spec(study, cell)
                cell_files.write_cell(study.cell_file(cell), spec, NotMeasured("played", "now"))
            record = [wanted.source, wanted.destination, began, time.monotonic()]
            (folder / f"{wanted.source}.{wanted.destination}.times").write_text(json.dumps(record))
            if failed is not None:
                answer.send((Ending(False, failed[0]), failed[1]))
            else:
                answer.send((Ending(), []))

        patched.setattr(meshes, "_measure_link", job)
        patched.setattr(kinds.load_testbed("endpoints"), "pause", lambda *_: 0.0)

    @property
    def times(self) -> list[list[Any]]:
        return [json.loads(file.read_text()) for file in self.folder.glob("*.times")]


@pytest.fixture
def mesh(tmp_path: Path) -> SweepStudy:
    made = study(tmp_path, mesh_of(6))
    (made.folder / "logs").mkdir(parents=True)
    return made


def test_links_without_a_common_site_run_side_by_side(
    mesh: SweepStudy, tmp_path: Path, monkeypatch: Patch
) -> None:
    links = Links(tmp_path, monkeypatch, lambda *_: None)
    measure_mesh(mesh, mesh.folder / "logs/rounds.log")
    assert len(links.times) == 30
    for one, other in itertools.combinations(links.times, 2):
        together = one[2] < other[3] and other[2] < one[3]
        assert not (together and {*one[:2]} & {*other[:2]})


def test_a_run_measures_the_links_whose_turn_it_is(tmp_path: Path, monkeypatch: Patch) -> None:
    """The budget allows two of six links; a run measures missing ones, and later ones those measured longest ago."""
    mine = mesh_of(3, budget={"bytes": "20 MiB", "time": "1 h", "rotate": True})
    made = study(tmp_path, mine)
    (made.folder / "logs").mkdir(parents=True)
    links = Links(tmp_path, monkeypatch, lambda *_: None)
    order = [path for paths in in_rounds(made.grid) for path in paths]
    assert status.due_files(made) == []
    measure_mesh(made, made.folder / "logs/rounds.log")
    assert sorted(f"source={one[0]}/destination={one[1]}" for one in links.times) == sorted(order[:2])
    reasons = Counter(cell_files.unmeasured_reason(made.cell_file(cell)) for cell in made.grid.cells)
    assert reasons == {"played": 2, "left to a later run: the budget allows 2 of 6 links": 4}
    for hour, path in enumerate(order):
        [cell] = made.grid.deployments[path]
        result = synthetic.result(
            None, {"throughput": 1.0}, provenance={"started": f"2026-01-01T{9 - hour:02}"}
        )
        cell_files.write_cell(made.cell_file(cell), meshes.cell_spec(made, cell), result)
    assert status.due_files(made) == [
        made.cell_file(made.grid.deployments[path][0]) for path in order[:-3:-1]
    ]
    sites = {one.site: one for one in status.count_by_site(made)}
    assert (sites["S0"].sent, sites["S0"].received, sites["S0"].failed) == ("2 of 2", "2 of 2", 0)


@pytest.mark.parametrize("asked", [True, False])
def test_a_site_that_fails_three_times_is_left_out_and_named(
    mesh: SweepStudy, tmp_path: Path, monkeypatch: Patch, asked: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether or not its own answers show which end of a link is at fault."""
    links = Links(
        tmp_path,
        monkeypatch,
        lambda *ends: ("refused", {"S2": "its own fault"} if asked else {}) if "S2" in ends else None,
    )
    measure_mesh(mesh, mesh.folder / "logs/rounds.log")
    tried = [one for one in links.times if "S2" in one[:2]]
    assert len(tried) == MOST_FAILURES
    assert len(links.times) == 20 + MOST_FAILURES
    why = "links: site S2 is left out, as 3 of its links in a row failed, the last one "
    named = capfd.readouterr().err
    assert named.count(why) == 1
    assert named.count(": its own fault" if asked else ": refused") == 1
    reasons = Counter(
        str(cell_files.unmeasured_reason(mesh.cell_file(cell))).split(",")[0] for cell in mesh.grid.cells
    )
    assert reasons == {"played": 20 + MOST_FAILURES, "site S2 is left out": 10 - MOST_FAILURES}


def test_a_signal_ends_a_mesh_also_while_it_starts_a_process(
    mesh: SweepStudy, tmp_path: Path, monkeypatch: Patch
) -> None:
    """The kernel sends it when kill -9 ends Snakemake; Python ignores exceptions in hooks of fork(2)."""
    links = Links(tmp_path, monkeypatch, lambda *_: None)

    def measured() -> None:
        forks = itertools.count(1)
        os.register_at_fork(after_in_parent=lambda: next(forks) == 3 and signal.raise_signal(signal.SIGTERM))
        measure_mesh(mesh, mesh.folder / "logs/rounds.log")

    job = multiprocessing.get_context("fork").Process(target=measured)
    job.start()
    job.join()
    assert job.exitcode == 128 + signal.SIGTERM
    assert len(links.times) <= 3


def test_a_budget_that_is_spent_is_no_failure_of_sites(mesh: SweepStudy, monkeypatch: Patch) -> None:
    monkeypatch.setattr(
        meshes, "_measure_link", lambda *args: args[3].send((Ending(False, "budget", True), {}))
    )
    monkeypatch.setattr(kinds.load_testbed("endpoints"), "pause", lambda *_: 0.0)
    measure_mesh(mesh, log := mesh.folder / "logs/rounds.log")
    assert log.read_text().count("budget") == 30


def test_a_site_that_asks_for_a_pause_holds_its_own_links_only(
    mesh: SweepStudy, tmp_path: Path, monkeypatch: Patch
) -> None:
    """When only links of such sites are left, one of them starts, as a link itself awaits or refuses a pause."""
    links = Links(tmp_path, monkeypatch, lambda *_: None)
    paused = lambda _, wanted: 3600.0 * ("S2" in (wanted.source, wanted.destination))  # noqa: E731
    monkeypatch.setattr(kinds.load_testbed("endpoints"), "pause", paused)
    measure_mesh(mesh, mesh.folder / "logs/rounds.log")
    ordered = sorted(links.times, key=lambda one: one[2])
    assert ["S2" in one[:2] for one in ordered] == [False] * 20 + [True] * 10


def test_status_has_a_line_for_each_bad_site_and_for_each_shared_reason(mesh: SweepStudy) -> None:
    left, out = "left to a later run", "site S2 is left out, as 3 of its links in a row failed"
    reasons = {("S0", "S1"): left, ("S4", "S5"): left, ("S3", "S0"): "S0 asks for a pause"}
    others = [name for name in names(6) if name != "S2"]
    reasons |= {link: out for other in others for link in (("S2", other), (other, "S2"))}
    reasons["S0", "S2"] = "no certificate"
    holes = [
        {"deployment": path, "cells": [cell.path for cell in cells], "why": reasons[link]}
        for path, cells in mesh.grid.deployments.items()
        if (link := (cells[0].parameters.source, cells[0].parameters.destination)) in reasons
    ]
    (mesh.folder / "not_measured.json").write_text(json.dumps(holes))
    assert sorted(status.hole_lines(mesh)) == [
        f"2 links: 2 cells not measured: {left}",
        f"site S2 (10 links): 10 cells not measured: {out} (and 1 other reason)",
        "source=S3/destination=S0: 1 cell not measured: S0 asks for a pause",
    ]


def test_a_mesh_is_one_job_of_all_its_cells(mesh: SweepStudy, tmp_path: Path) -> None:
    found = Studies({"sweep": "links", "testbed": "mine", "results": str(mesh.results)}, tmp_path)
    assert found.deployment_groups == []
    [one] = found.meshes
    assert len(one.cells) == 30
    assert not one.damaged
