# SPDX-License-Identifier: Apache-2.0
"""What nodes did to throughput, and the census of crashes: found where the truth is known."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep.analysis import node_plots
from tpcsweep.analysis.census import TABLE, census
from tpcsweep.analysis.hardware import node_effects
from tpcsweep.data import folding
from tpcsweep.data.flags import BROKEN
from tpcsweep.data.labels import MASKS, STATUS
from tpcsweep.data.tables import write_csv
from tpcsweep.pages import figures

from tests.support import synthetic

Pairs = Callable[[int, int], int]
Noise = tuple[float, float]
RTTS, STREAMS = (1.0, 10.0, 50.0, 100.0), (1, 4, 16)


def anywhere(generator: np.random.Generator, count: int) -> Pairs:
    """Each deployment on any of so many pairs."""
    return lambda *_: int(generator.integers(count))


def made(
    effects: list[float], on: Pairs, seed: int = 1, repetitions: int = 4, noise: Noise = (0.02, 0.03)
) -> xr.Dataset:
    """A dataset of RTTs × streams; deployments are of an RTT and a repetition, and `on` says of each on which pair.

    noise: of deployments, and of the cells in them.
    """
    generator = np.random.default_rng(seed)
    shape = (len(RTTS), len(STREAMS), repetitions)
    truth = np.random.default_rng(7).uniform(0.1, 10, shape[:2])
    pair = np.array([[on(rtt, repetition) for repetition in range(repetitions)] for rtt in range(len(RTTS))])
    of_deployments = np.array(effects)[pair] + noise[0] * generator.normal(size=pair.shape)
    found = truth[..., None] * np.exp(of_deployments[:, None] + noise[1] * generator.normal(size=shape))
    axes = {"rtt": [*RTTS], "streams": [*STREAMS], "repetition": [*range(1, repetitions + 1)]}
    of_each = {
        "provenance": np.arange(pair.size, dtype=np.int32).reshape(pair.shape),
        "source_node": np.char.mod("s%d", pair).astype(object),
        "destination_node": np.char.mod("d%d", pair).astype(object),
    }
    made = synthetic.bare(found, 0.0, axes)
    for name, values in of_each.items():
        made[name] = (tuple(axes), np.broadcast_to(values[:, None], shape).copy())
    return made.assign_attrs(sweep="made up", testbed="made up", testbed_kind="kubernetes")


def in_turn(count: int) -> Pairs:
    return lambda rtt, repetition: (rtt + repetition) % count


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), st.floats(0.1, 10), st.integers(0, 1000))
@settings(max_examples=10)
def test_a_made_up_effect_is_recovered(effects: list[float], level: float, seed: int) -> None:
    count = len(effects)
    summary = made(effects, in_turn(count), seed, 7, (1e-5, 1e-5))
    summary["throughput"] = summary["throughput"] * level
    found = node_effects(summary).pairs
    assert found["pair"].to_list() == [f"s{number} → d{number}" for number in range(count)]
    assert found["ratio"].to_list() == pytest.approx(np.exp(np.array(effects) - np.mean(effects)), rel=1e-3)
    assert (found["with"] == count).all()
    assert found["cells"].sum() == summary["throughput"].size
    assert found["deployments"].sum() == summary.sizes["rtt"] * summary.sizes["repetition"]


def test_cells_that_failed_bias_nothing() -> None:
    effects = [-0.3, 0.0, 0.3]
    summary = made(effects, in_turn(3), 1, 6, (1e-5, 1e-5))
    best = summary["throughput"] == summary["throughput"].max("streams")
    summary["throughput"] = summary["throughput"].where(~(best & (summary["source_node"] == "s0")))
    assert node_effects(summary).pairs["ratio"].to_list() == pytest.approx(np.exp(effects), rel=1e-3)


def test_intervals_cover_the_truth() -> None:
    """Of ratios and of their spread, in made-up sweeps on four pairs: 95 % are asked for, of 40 × 4 and of 40."""
    ratios, spread = [], []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        effects = 0.05 * generator.normal(size=4)
        found = node_effects(made(list(effects), anywhere(generator, 4), seed, 5))
        if len(found.pairs) == 4 and not found.confounded:
            truth = np.exp(effects - effects.mean())[[int(pair[1]) for pair in found.pairs["pair"]]]
            ratios.append(found.pairs["ratio_low"].le(truth) & found.pairs["ratio_high"].ge(truth))
            spread.append(found.spread)
    assert len(ratios) > 36
    assert 0.91 < np.mean(ratios) < 0.98
    assert np.mean([one.low <= 0.05 <= one.high for one in spread]) > 0.89
    assert np.mean([one.p < 0.05 for one in spread]) > 0.8


@pytest.mark.parametrize(("pairs", "noise"), [(4, (0.02, 0.03)), (3, (0.1, 0.001))])
def test_where_nodes_do_nothing_an_effect_is_seldom_found(pairs: int, noise: Noise) -> None:
    """A deployment that is off is one observation, however many cells it has: taken singly they would accuse a pair."""
    found = []
    for seed in range(25):
        on = anywhere(np.random.default_rng(seed), pairs)
        spread = node_effects(made([0.0] * pairs, on, seed, 4, noise)).spread
        found.append(spread.p < 0.05)
    assert np.mean(found) < 0.15


def test_each_setting_on_one_pair_is_confounded() -> None:
    found = node_effects(made([0.0, 0.1, 0.2, 0.3], lambda rtt, _: rtt))
    assert len(found.confounded) == 4
    assert found.spread is None
    assert found.pairs["ratio"].isna().all()
    assert found.summary().startswith("Confounded: each setting was measured on only one of the 4 pairs")
    assert "repeat: deployments" in found.summary()


def test_pairs_are_compared_where_they_share_settings_only() -> None:
    # Two RTTs on the first two pairs, one on the third and fourth, one on the fifth alone.
    pairs = [(0, 1), (0, 1), (2, 3), (4, 4)]
    effects = [0.0, 0.2, 0.5, 0.9, 3.0]
    found = node_effects(made(effects, lambda rtt, number: pairs[rtt][number % 2], noise=(1e-4, 0)))
    assert found.pairs["with"].to_list() == [2, 2, 2, 2, 1]
    wanted = [*np.exp([-0.1, 0.1, -0.2, 0.2]), np.nan]
    assert found.pairs["ratio"].to_list() == pytest.approx(wanted, rel=1e-2, nan_ok=True)
    assert found.confounded == ["s4 → d4"]
    assert found.summary().endswith("Confounded: 1 of 5 pairs, which share no setting with another.")


def test_one_measurement_on_each_pair_has_ratios_and_no_intervals() -> None:
    found = node_effects(made([0.0, 0.1, 0.2, 0.3], lambda _, repetition: repetition).isel(rtt=[0]))
    assert found.pairs["ratio"].notna().all()
    assert found.pairs["ratio_low"].isna().all()
    assert found.summary().startswith("Each pair has measured too little to tell its effect from chance.")


def test_findings_name_two_pairs_one_pair_or_none() -> None:
    differ = node_effects(made([0.0, 0.5], in_turn(2)))
    assert differ.summary().startswith("Pairs of nodes differ (p < 0.001): their standard deviation is ")
    summary = made([0.0], lambda *_: 0)
    assert node_effects(summary).summary() == "All cells were measured on one pair of nodes, s0 → d0."
    within = summary.assign(destination_node=summary["source_node"])
    assert node_effects(within).pairs["pair"].to_list() == ["s0"]
    for unknown in (
        summary.drop_vars(["source_node", "destination_node"]),
        summary.assign(source_node=xr.full_like(summary["source_node"], "")),
        summary.assign(status=summary["status"] * 0),
    ):
        found = node_effects(unknown)
        assert found.pairs.empty
        assert found.summary() == "No usable cell records its nodes."


def test_a_name_with_dollars_is_no_formula(tmp_path: Path) -> None:
    summary = made([0.0, 0.1], in_turn(2))
    summary = summary.assign(source_node=summary["source_node"].str.replace("s", r"$\nothing$"))
    figures.save(node_plots.hardware(summary, node_effects(summary)), tmp_path, "figure")
    assert (tmp_path / "figure.svg").stat().st_size


def test_a_dataset_has_the_nodes_of_each_cell() -> None:
    axes = {"streams": (1, 4), "repetition": (1,)}
    places, about = [np.array([1]), np.array([0])], {"testbed_kind": "imported"}
    unnamed: dict[str, object] = {"host": "a"}
    for record, nodes in (({"nodes": {"source": "a", "destination": "b"}}, "ab"), (unnamed, ("", ""))):
        summary = folding.tabulate(axes, places, {}, {}, record, about).summary
        for side, node in zip(("source", "destination"), nodes, strict=True):
            assert summary[f"{side}_node"].values.tolist() == [[""], [node]]


@pytest.fixture
def summary(tmp_path: Path) -> xr.Dataset:
    """Four repetitions of two releases on two origins, 12 s each: nothing broke."""
    axes = {"xrootd": ["5.5.3", "5.8.1"], "origins": [2], "streams": [8], "repetition": [1, 2, 3, 4]}
    made = folding.fold(synthetic.write_sweep(tmp_path, axes), axes).summary
    none = made["throughput"] * 0
    return made.assign(transfers=none + 10, transfers_failed=none)


def broke(summary: xr.Dataset, repetition: int, message: str, status: str = "failed") -> None:
    values = {"status": STATUS.index(status), "flags": MASKS[BROKEN], "message": message}
    for name, value in values.items():
        summary[name].loc[{"xrootd": "5.5.3", "repetition": repetition}] = value


def test_a_server_that_died_is_counted_by_what_it_died_of(summary: xr.Dataset) -> None:
    broke(summary, 1, "dst1: xrootd was killed by SIGSEGV; its last words: ssl3_finish_mac")
    broke(summary, 2, "srcm: cmsd was killed by SIGABRT", "ok")
    broke(summary, 3, "Error: container xrootd ended with exit code 139 on node a")
    broke(summary, 4, "client was killed by SIGKILL")
    table = census(summary, "xrootd").set_index("xrootd")
    first, second = table.loc["5.5.3"], table.loc["5.8.1"]
    counts = ["cells", "crashes", "otherwise_broken", "whole_cells", "died_of"]
    assert first[counts].tolist() == [4, 3, 1, 0, "SIGSEGV 1, SIGABRT 1, exit code 139 1"]
    assert second[counts].tolist() == [4, 0, 0, 4, ""]
    # Two origins on each of two sides, four cells of 12 s.
    assert second["server_hours"] == pytest.approx(4 * 4 * 12 / 3600)
    rates = ["crashes_per_hour", "crashes_per_hour_low", "crashes_per_hour_high"]
    # The intervals are Garwood's.
    for release, expected in ((first, (3, 0.619, 8.767)), (second, (0, 0, 3.689))):
        assert (release[rates] * release["server_hours"]).tolist() == pytest.approx(expected, abs=1e-3)
    at_once = census(summary.assign(duration=summary["duration"] * 0), "xrootd")
    assert at_once["crashes_per_hour_high"].tolist() == [np.inf] * 2


def test_failed_transfers_and_cells_that_were_not_measured(summary: xr.Dataset, tmp_path: Path) -> None:
    summary["message"][:] = "xrootd was killed by SIGSEGV"  # only a flag makes a crash of it
    summary["transfers_failed"][0, 0, 0, 1] = 3
    summary["status"][1, 0, 0, 0] = STATUS.index("not_measured")
    table = census(summary, "xrootd")
    counts = ["cells", "transfers", "transfers_failed", "cells_with_failures", "whole_cells", "crashes"]
    assert table[counts].to_numpy().tolist() == [[4, 43, 3, 1, 3, 0], [3, 30, 0, 0, 3, 0]]
    write_csv(table, tmp_path / "census.csv")
    assert list(pd.read_csv(tmp_path / "census.csv")) == ["xrootd", *TABLE]
    assert census(summary, "streams")["cells"].tolist() == [7]
    assert census(summary.sel(origins=2), "origins")["cells"].tolist() == [7]
