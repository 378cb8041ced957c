# SPDX-License-Identifier: Apache-2.0
"""Designs for screening: their runs, the sweeps that use them, and the effects that they find."""

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console
from scipy import stats
from tpcsweep.analysis.block_effects import aliased, block_effects
from tpcsweep.cli.grid import grid_table
from tpcsweep.sweeps.designs import FEWEST_FACTORS, MOST_FACTORS, screening_runs
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy

from tests.support.blocks import screened
from tests.support.projects import study_of


@pytest.mark.parametrize("factors", range(FEWEST_FACTORS, MOST_FACTORS + 1))
def test_effects_of_a_design_are_independent_of_each_other(factors: int) -> None:
    runs = np.array(screening_runs(factors))
    assert len(runs) == {3: 4}.get(factors, 8 if factors < 8 else 12)
    assert not runs[0].any()
    signs = 2 * runs - 1
    assert np.array_equal(signs.T @ signs, len(runs) * np.eye(factors))
    assert not signs.sum(axis=0).any()


def test_four_settings_are_clear_of_interactions_and_others_name_them() -> None:
    signs = 2 * np.array(screening_runs(4)) - 1
    for one, other, third in itertools.product(range(4), repeat=3):
        if len({one, other, third}) == 3:
            assert (signs[:, one] * signs[:, other] * signs[:, third]).sum() == 0
    [four] = aliased(["a", "b", "c", "d"])
    assert "resolution IV" in four
    assert "a × b with c × d" in four
    [three] = aliased(["a", "b", "c"])
    assert "a is aliased with b × c; b is aliased with a × c; c is aliased with a × b" in three
    assert "a third of each interaction" in aliased([*"abcdefgh"])[0]


def study(folder: Path, settings: dict[str, int], **more: Any) -> SweepStudy:
    """A sweep of two streams and settings, each with so many values; `more` are keys of the sweep."""
    values = {name: [f"v{place}" for place in range(count)] for name, count in settings.items()}
    how = {name: {"values": dict.fromkeys(each, "true"), "restore": "true"} for name, each in values.items()}
    testbed = folder / "hosts.yaml"
    testbed.write_text(yaml.safe_dump({"kind": "netns", "settings": how}))
    sweep = {"design": "screening", "order": "blocks", "repetitions": 2, "seed": 0} | more
    return study_of(folder, str(testbed), parameters={**values, "streams": [1, 2]}, **sweep)


def test_a_sweep_measures_the_runs_of_its_design(tmp_path: Path) -> None:
    found = study(tmp_path, dict.fromkeys("abcde", 2), max_cells=32, exclude=[{"streams": 2}])
    assert len(found.grid.deployments) == 8 * 2
    assert len(found.grid.cells) == 8 * 2
    runs = {tuple(cell.deployment.values.values()) for cell in found.grid.cells}
    assert runs == {tuple(f"v{place}" for place in run) for run in screening_runs(5)}
    assert found.attributes["design"] == "screening"
    assert "effects" in found.notebooks
    console = Console(width=200, file=io.StringIO())
    console.print(grid_table(found))
    lines = console.file.getvalue()  # type: ignore[attr-defined]
    assert "two-level design" in lines
    assert lines.count("streams 1") == 16
    rows = [line.split()[1::2][:2] for line in lines.splitlines() if "streams 1" in line]
    assert [block for _, block in rows] == ["1"] * 8 + ["2"] * 8


@pytest.mark.parametrize(
    ("settings", "more", "problem"),
    [
        ({"a": 2, "b": 2, "c": 3}, {}, "parameters.c: given 3 values, allowed: 2 values"),
        ({"a": 2}, {}, "design: given screening of a, allowed: 3 to 11 of the testbed's settings"),
        ({}, {}, "design: given screening of no setting"),
        (dict.fromkeys("abcdefghijkl", 2), {}, "allowed: 3 to 11"),
        (dict.fromkeys("abc", 2), {"order": "random"}, "order: given random, allowed: blocks"),
        (dict.fromkeys("abc", 2), {"exclude": [{"a": "v1"}]}, "exclude[0].a: given a setting"),
        (dict.fromkeys("abc", 2), {"include": [{"a": "v0"}]}, "include[0].a: given a setting"),
        (dict.fromkeys("abc", 2), {"max_cells": 15}, "given 16 cells"),
    ],
)
def test_sweeps_that_are_no_design_are_refused(
    tmp_path: Path, settings: dict[str, int], more: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError) as error:
        study(tmp_path, settings, **more)
    assert problem in str(error.value)


FAMILIES = 100
GAINS = {"a": 0.3, "b": 0.0, "c": 0.05, "d": 0.0, "e": -0.1}


def test_effects_of_a_design_are_found_as_built() -> None:
    """Counts are in the central 99.9 % of binomials: of intervals that hold the effect, and of wrong families."""
    contained = wrong = 0
    for seed in range(FAMILIES):
        found = block_effects(screened(GAINS, 5, seed))
        rows = {row.setting: row for row in found.rows if (row.axis, row.measure) == ("", "throughput")}
        assert list(rows) == [*GAINS]
        assert found.verdict == rows["a"].verdict == "gain"
        contained += sum(rows[name].low <= 1 + gain <= rows[name].high for name, gain in GAINS.items())
        false = any(row.differs or row.axis for row in found.rows if row.setting in "bd")
        wrong += false or any(rows[name].verdict == "gain" for name in "bcde")
    few, many = stats.binom.ppf([0.0005, 0.9995], FAMILIES * len(GAINS), 0.95)
    assert few <= contained <= many
    assert wrong <= stats.binom.ppf(0.9995, FAMILIES, 0.05)


def test_runs_that_are_missing_cost_their_block_and_interactions_are_aliased() -> None:
    summary = screened(dict.fromkeys("abc", 0.0), 4, seed=1, interaction=0.2)
    found = block_effects(summary, "c")
    [row] = [row for row in found.rows if (row.axis, row.measure) == ("", "throughput")]
    # The interaction of a and b looks like an effect of c, whose second value is where these are unequal.
    assert row.low < 1 / 1.2 < row.high
    assert "c is aliased with a × b" in found.notes[-1]
    summary["throughput"][0, 0, 0, :, 2] = np.nan
    gaps = block_effects(summary, "c")
    assert {row.blocks for row in gaps.rows} == {3}
    assert "in blocks or cells with gaps" in gaps.notes[0]
