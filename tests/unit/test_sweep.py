# SPDX-License-Identifier: Apache-2.0
"""The grid: axes → cells → deployments."""

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from tpcsweep.sweeps.parameters import DEPLOYMENT, Parameters
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.sweeps.sweep import Grid, Sweep, cell_paths, expand
from tpcsweep.testbeds.netns.settings import Netns

from tests.support.projects import cases, study_of

Axes = dict[str, list[Any]]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "origins": st.integers(1, 50),
    "cores": st.none() | st.floats(0.001, 1000, allow_nan=False),
    "rtt": st.floats(0, 1000, allow_nan=False),
    "loss": st.floats(0, 0.15),
    "queue_limit": st.none() | st.integers(1, 2**32 - 1),
    "tcp_buffer": st.integers(4096, 2**31 - 1),
    "congestion_control": st.sampled_from(["cubic", "bbr", "reno", "h-tcp"]),
    "copy_mode": st.sampled_from(["pull", "push"]),
    "file_size": st.integers(1, 2**44),
    "streams": st.integers(1, 1000),
}


@st.composite
def axes(draw: st.DrawFn) -> dict[str, list[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4, unique=True))
    return {name: draw(st.lists(VALUES[name], min_size=1, max_size=3, unique=True)) for name in names}


@st.composite
def subset(draw: st.DrawFn, of: dict[str, list[Any]]) -> dict[str, list[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(of)), min_size=1, unique=True))
    return {name: draw(st.lists(st.sampled_from(of[name]), min_size=1, unique=True)) for name in names}


def grid(parameters: dict[str, Any], **more: Any) -> Grid:
    return expand(Sweep.model_validate({"parameters": parameters, "max_cells": 10**6, **more}))


def paths(of: Grid) -> list[str]:
    return [cell.path for cell in of.cells]


def configured(of: Grid) -> SweepStudy:
    testbed = Netns(kind="netns")
    return SweepStudy("s", of.sweep, "s.yaml", "t", testbed, "t.yaml", Path("results"), of, requested={})


REPEAT = st.sampled_from(["cells", "deployments"])


@given(st.data(), axes(), st.integers(1, 2))
def test_rules_exclude_and_include_cells(data: st.DataObject, values: Axes, repetitions: int) -> None:
    exclude = data.draw(st.lists(subset(values), max_size=2))
    include = data.draw(st.lists(subset(values), max_size=2))
    names = list(values)

    def matches(point: tuple[Any, ...], rule: dict[str, list[Any]]) -> bool:
        return all(point[names.index(name)] in allowed for name, allowed in rule.items())

    product = set(itertools.product(*values.values()))
    expected = {point for point in product if not any(matches(point, rule) for rule in exclude)}
    for rule in include:
        added = {point for point in product if matches(point, rule)} - expected
        assume(added)
        expected |= added
    assume(expected)
    found = grid(values, exclude=exclude, include=include, repetitions=repetitions)
    points = [(*(cell.axes[name] for name in names), cell.repetition) for cell in found.cells]
    repeated = [(*point, number) for point in expected for number in range(1, repetitions + 1)]
    assert Counter(points) == Counter(repeated)
    assert list(found.axes) == [n for n in Parameters.model_fields if n in values] + ["repetition"]
    held = {tuple(cell.axes.values()) for cell in found.cells}
    places = enumerate(itertools.product(*found.axes.values()))
    assert found.excluded == [at for at, place in places if place not in held]


@given(axes(), st.integers(1, 3), st.integers(0, 100), REPEAT)
def test_deployments_partition_cells(values: Axes, repetitions: int, seed: int, repeat: str) -> None:
    found = grid(values, repetitions=repetitions, seed=seed, repeat=repeat)
    held = [cell for cells in found.deployments.values() for cell in cells]
    assert Counter(held) == Counter(found.cells)
    for path, cells in found.deployments.items():
        assert {cell.deployment.path for cell in cells} == {path}
        assert len({cell.parameters.model_dump_json(include=set(DEPLOYMENT)) for cell in cells}) == 1
    assert found.priorities.keys() == found.deployments.keys()
    assert sorted(found.priorities.values()) == list(range(1, len(found.deployments) + 1))
    in_groups = [f"{d}/{c}" for cells, paths in found.paths_by_cells.items() for d in paths for c in cells]
    assert Counter(in_groups) == Counter(paths(found))


@given(axes(), st.integers(1, 2), REPEAT)
def test_paths_name_cells(values: dict[str, Any], repetitions: int, repeat: str) -> None:
    found = grid(values, repetitions=repetitions, repeat=repeat)
    assert len({path.casefold() for path in paths(found)}) == len(found.cells)
    for cell in found.cells:
        assert cell.path == "/".join((cell.deployment.path, cell.cell_path))
        assert cell.path == "/".join(cell_paths(cell.axes, repeat))
        named = dict(part.split("=") for part in cell.path.split("/"))
        only = {"deployment"} if repeat == "deployments" or not cell.deployment.values else set()
        assert set(named) == {*values, "repetition"} | only
        assert list(named)[-1] == "repetition"


@given(st.data(), axes(), st.integers(0, 100))
def test_a_new_value_leaves_other_cells_alone(data: st.DataObject, values: dict[str, Any], seed: int) -> None:
    name = data.draw(st.sampled_from(sorted(values)))
    new = data.draw(VALUES[name].filter(lambda value: value not in values[name]))
    before = grid(values, seed=seed)
    after = grid(values | {name: [new, *values[name]]}, seed=seed + 1, repetitions=2)
    cells = {cell.path: cell for cell in after.cells}
    for cell in before.cells:
        assert cell_spec(configured(before), cell) == cell_spec(configured(after), cells[cell.path])
    more = grid(values, seed=seed, repetitions=2)
    for path, cells in before.deployments.items():
        assert [cell for cell in more.deployments[path] if cell.repetition == 1] == list(cells)


@given(axes(), st.integers(1, 4), st.integers(0, 100))
def test_repetitions_may_be_deployments(values: dict[str, Any], repetitions: int, seed: int) -> None:
    once = grid(values, repetitions=repetitions, seed=seed)
    found = grid(values, repetitions=repetitions, seed=seed, repeat="deployments")
    assert [cell.axes for cell in found.cells] == [cell.axes for cell in once.cells]
    assert len(found.deployments) == repetitions * len(once.deployments)
    assert all(len({cell.repetition for cell in cells}) == 1 for cells in found.deployments.values())
    # Of as many places as there are repetitions each has one of its own; and all places are chosen alike.
    assert sorted(found.preferred_places.values()) == list(range(len(found.deployments)))
    places = defaultdict(list)
    for path, cells in found.deployments.items():
        places[tuple(cells[0].deployment.values.values())].append(found.preferred_places[path] % repetitions)
    assert all(sorted(chosen) == list(range(repetitions)) for chosen in places.values())


def test_the_seed_shuffles_deployments_cells_and_places_the_same_in_every_process() -> None:
    grids = [grid({"rtt": list(range(1, 11)), "streams": list(range(1, 11))}, seed=seed) for seed in range(5)]
    assert len({tuple(made.priorities.items()) for made in grids}) == 5
    assert len({tuple(made.preferred_places.items()) for made in grids}) == 5
    assert len({tuple(cell.cell_path for cell in made.deployments["rtt=1"]) for made in grids}) == 5
    fixed = grid({"rtt": [1, 2, 3], "streams": [1, 2, 3]})
    assert [fixed.priorities[f"rtt={rtt}"] for rtt in (1, 2, 3)] == [3, 1, 2]
    assert [cell.axes["streams"] for cell in fixed.deployments["rtt=1"]] == [1, 3, 2]


def test_each_run_has_its_own_order_which_its_seed_repeats() -> None:
    axes = {"rtt": list(range(1, 11)), "streams": list(range(1, 11))}

    def orders(sweep: Grid) -> tuple[Any, Any]:
        first = next(iter(sweep.deployments.values()))
        return list(sweep.priorities.items()), [cell.cell_path for cell in first]

    drawn = [replace(grid(axes), run_seed=seed) for seed in (1, 2)]
    assert all(here != there for here, there in zip(*map(orders, drawn), strict=True))
    assert drawn[0].preferred_places == drawn[1].preferred_places  # pairs of nodes remain
    assert orders(grid(axes, seed=drawn[0].seed)) == orders(drawn[0])
    fixed = replace(grid(axes, seed=7), run_seed=1)
    assert (fixed.seed, orders(fixed)) == (7, orders(grid(axes, seed=7)))


def test_rules_know_the_values_of_the_testbed_and_included_values_come_at_their_place() -> None:
    sweep = {"parameters": {"rtt": [5, 20]}, "exclude": [{"rtt": 5, "mtu": 1500}]}
    (cell,) = expand(Sweep.model_validate(sweep), {"mtu": 1500}).cells
    assert cell.axes["rtt"] == 20
    with pytest.raises(ConfigurationError, match=r"exclude\[0\]\.mtu: .* one of 9000 B"):
        expand(Sweep.model_validate(sweep))
    parameters = {"rtt": [5, 50], "streams": [1, 2]}
    adding = Sweep.model_validate({"parameters": parameters, "include": [{"rtt": 20}]})
    included = expand(adding, {"rtt": 7.0, "mtu": 1500})
    assert included.axes["rtt"] == (5, 20, 50)
    assert [cell.value("rtt") for cell in included.cells] == [5, 5, 20, 20, 50, 50]
    assert {cell.value("mtu") for cell in included.cells} == {1500}


REFUSED = """
{parameters: {rtt: [5, 20]}, exclude: [{rtt: 50}]}
    exclude[0].rtt: given rtt: 50 ms, allowed: one of 5 ms, 20 ms
{parameters: {rtt: [5]}, exclude: [{mtu: 1500}]}
    exclude[0].mtu: given mtu: 1500 B, allowed: one of 9000 B
{parameters: {rtt: [5, 20]}, exclude: [{rtt: [5, 20]}]}
    exclude: given rules that leave no cell, allowed: rules that leave at least one
{parameters: {rtt: [5, 20]}, include: [{rtt: 5}]}
    include[0]: given rtt: 5 ms, allowed: an entry that adds cells
{parameters: {rtt: [5, 20]}, include: [{streams: 5}]}
    include[0].streams: given a parameter that is no axis, allowed: one of rtt
{parameters: {rtt: [5, 20], streams: [1, 2, 3]}, repetitions: 2, max_cells: 11}
    parameters: given 12 cells (2 rtt × 3 streams × 2 repetitions), allowed: at most max_cells, 11
"""


@pytest.mark.parametrize(("sweep", "messages"), cases(REFUSED))
def test_rules_that_do_nothing_and_grids_too_large_are_refused(sweep: str, messages: list[str]) -> None:
    with pytest.raises(ConfigurationError) as error:
        expand(Sweep.model_validate(yaml.safe_load(sweep)))
    assert str(error.value).splitlines() == messages
    beyond_memory = {name: list(range(1, 1001)) for name in ("rtt", "streams", "origins")}
    with pytest.raises(ConfigurationError, match="at most max_cells"):
        expand(Sweep.model_validate({"parameters": beyond_memory}))


def test_expected_duration() -> None:
    class Slow(Netns):
        deploy_seconds = 5.0
        cell_seconds = 0.0

    class Pausing(Slow):
        cell_seconds = 1.0

    testbed = Slow(kind="netns")
    found = grid({"rtt": [5, 20], "streams": [1, 2, 3]}, measurement={"min_time": 4, "max_time": 40})
    # No cell ends before 30 s as it is steady. A fifth of the cells of each deployment may be measured again, in it.
    assert testbed.expected_seconds(found) == (2 * 5 + 6 * 30, 2 * 5 + (6 + 2) * 40)
    for measurement, kind, least, most in (
        ({"min_time": 4, "max_time": 10}, Pausing, 5 + 3 * 11, 5 + 3 * 11),
        ({"until": "seconds", "seconds": "1 min"}, Slow, 5 + 180, 5 + 180),
        ({"until": "files", "files": 2, "max_time": "1 h"}, Slow, 5, 5 + 3 * 3600),
    ):
        found = grid({"streams": [1, 2, 3]}, measurement=measurement, retry_share=0)
        assert kind(kind="netns").expected_seconds(found) == (least, most)


def test_expected_duration_with_settings_of_hosts(tmp_path: Path) -> None:
    how = {"values": {"a": "true", "b": "true"}, "restore": "true", "settle": "10 s", "timeout": "1 min"}
    file = tmp_path / "hosts.yaml"
    file.write_text(yaml.safe_dump({"kind": "netns", "settings": {"tuning": how}}))
    measured = {"measurement": {"until": "seconds", "seconds": "30 s"}, "retry_share": 0}
    without, with_setting = (
        study_of(tmp_path, str(file), parameters=parameters, **measured)
        for parameters in ({"rtt": [1, 2]}, {"tuning": ["a", "b"]})
    )
    least, most = without.testbed.expected_seconds(without.grid)
    # Commands that apply and restore may take all of their time.
    assert with_setting.testbed.expected_seconds(with_setting.grid) == (least + 2 * 10, most + 2 * (10 + 120))


def test_each_block_measures_every_deployment_once_in_random_order() -> None:
    found = grid({"rtt": [1, 2, 3, 4], "streams": [1, 2]}, repetitions=6, order="blocks", seed=0)
    started = sorted(found.priorities, key=lambda path: -found.priorities[path])
    blocks = [started[first : first + 4] for first in range(0, 24, 4)]
    assert [{path.rpartition("=")[2] for path in block} for block in blocks] == [
        {str(n)} for n in range(1, 7)
    ]
    orders = {tuple(path.split("/")[0] for path in block) for block in blocks}
    assert len(orders) > 1
    assert {frozenset(order) for order in orders} == {frozenset(f"rtt={n}" for n in range(1, 5))}
    assert {found.preferred_places[path] for path in blocks[2]} == {2}
    with pytest.raises(ValueError, match="2 or more with order: blocks"):
        grid({"rtt": [1, 2]}, order="blocks")
