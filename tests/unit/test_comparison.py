# SPDX-License-Identifier: Apache-2.0
"""Comparison of two datasets: what is found where the truth is known, and what is said of the rest."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tpcsweep.analysis import comparison, comparison_plots
from tpcsweep.analysis.comparison import ComparisonError, compare, gate_failures, load_side
from tpcsweep.analysis.sides import read_side
from tpcsweep.data import differences, folding, run_effects, scatter
from tpcsweep.data.labels import STATUS, flag_masks
from tpcsweep.data.run_effects import FASTER, NOT_COMPARABLE, SAME, SLOWER
from tpcsweep.data.scatter import SHARED, Spread
from tpcsweep.sweeps.problems import ConfigurationError

from tests.support import synthetic


def made(
    seed: int, repetitions: int = 3, effect: float = 1, between: float = 0, sweeps: int = 1
) -> xr.Dataset:
    """A dataset of 6 RTTs × 8 streams, or many side by side: known levels with log-normal noise."""
    generator = np.random.default_rng(seed)
    noise, shape = 0.05, (6, 8 * sweeps)
    truth = np.random.default_rng(7).uniform(0.1, 10, shape) * effect
    truth *= np.exp(between * generator.normal(size=shape))
    found = truth[..., None] * np.exp(noise * generator.normal(size=(*shape, repetitions)))
    half = 1.96 * noise * found
    axes = {"rtt": [0.0, 5.0, 10.0, 20.0, 50.0, 100.0], "streams": [*range(1, 8 * sweeps + 1)]}
    return synthetic.bare(found, half, axes | {"repetition": [*range(1, repetitions + 1)]})


@pytest.mark.parametrize(("repetitions", "luck"), [(1, 0.02), (3, 0.0)])
def test_of_equals_nothing_at_all_is_called_different(repetitions: int, luck: float) -> None:
    """48 cells, 14 values and the overall effect; each single measurement has luck of its own besides its noise.

    `benchmarks/held_out.py` has the rate.
    """
    found = compare(*(made(seed, repetitions, between=luck) for seed in (0, 500)))
    assert {found.overall.verdict, *found.parts["verdict"], *found.cells["verdict"]} == {SAME}


def test_single_measurements_have_the_share_by_which_runs_differ() -> None:
    base, new = made(1, 1), made(2, 1)
    stated = compare(base, new)
    assert (stated.scatter.share, stated.scatter.estimated) == (0.02, False)
    squares = (stated.cells["error"] ** 2).to_numpy()
    assert squares == pytest.approx(2 * (0.05**2 + 0.02**2 + SHARED**2), rel=1e-3)
    runs = made(3, 4, between=0.0)
    luck = np.exp(0.2 * np.random.default_rng(0).normal(size=runs.throughput.shape))
    number = xr.zeros_like(runs.throughput) + xr.DataArray(range(4), dims="repetition")
    several = (runs * luck).assign(run=number, status=runs.status, flags=runs.flags).assign_attrs(runs.attrs)
    estimated = compare(several, new)
    assert estimated.scatter.estimated and estimated.scatter.share == pytest.approx(0.2, rel=0.15)
    assert set(compare(made(1), made(2)).cells["evidence"]) == {"repetitions"}
    assert "0.02" not in json.dumps(compare(made(1), made(2)).summary())


def test_the_noise_within_runs_is_no_difference_between_them() -> None:
    two = {"cell": [0, 0], "run": [0, 1], "throughput": np.exp([0.1, -0.1]), "freedom": math.inf}

    def share(noise: float) -> float | None:
        rows = pd.DataFrame(two).assign(error=lambda rows: noise * rows["throughput"])
        return scatter.run_to_run(rows)

    assert share(math.nan) == pytest.approx(math.sqrt(0.02))  # unknown noise
    assert share(0.1) == pytest.approx(math.sqrt(0.02 - 0.01))
    assert share(0.2) == 0


def on(work: float, cpu: slice = slice(None)) -> xr.Dataset:
    """A dataset of a machine that takes `work` ms for a piece of work; a CPU bound the cells of some RTTs."""
    one = made(3)
    limit = xr.full_like(one["throughput"], "window", dtype=object)
    limit[cpu] = "cpu_destination"
    return one.assign(limit=limit, machine_work=xr.where(limit == "window", 1.0, work))


def test_a_slower_machine_is_named_for_cells_that_a_cpu_bound() -> None:
    base, new = on(0.25, slice(0, 3)), on(0.30, slice(2, 6))
    found = compare(base, new)
    assert found.slowdown == pytest.approx(1.2)
    first = found.cells.loc[found.cells["rtt"] == 0, ["base_work", "new_work"]]
    assert first.isna().to_numpy().tolist() == [[False, True]] * 8
    assert "new ran on a machine that was 1.20 times slower" in found.summary()
    assert "base ran on a machine that was 1.20 times slower" in compare(new, base).summary()
    for equal in (on(0.26, slice(0, 3)), on(0.30, slice(3, 6)), made(3)):
        assert "machine" not in compare(base, equal).summary()


def test_flags_of_each_side_are_counted_and_a_disturbed_side_blames_nobody() -> None:
    new = on(0.25)
    new["flags"][:] = flag_masks(new)["disturbed"]
    summary = compare(on(0.30), new).summary()
    assert "of 48 cells of new: machine disturbed 48" in summary
    assert "slower" not in summary and "cells of base" not in summary


def test_a_single_measurement_has_the_freedom_of_its_interval() -> None:
    base, new = made(1, 1), made(2, 1)
    unsaid = compare(base, new).cells
    few = [one.assign(throughput_freedom=xr.full_like(one.throughput, 4.0)) for one in (base, new)]
    said = compare(*few).cells
    assert said["freedom"].between(4, 8 * (1 + (0.02**2 + SHARED**2) / 0.035**2) ** 2).all()
    assert (unsaid["freedom"] > 100).all()  # that of the luck alone
    assert (said["error"] < unsaid["error"]).all()  # of the same intervals, with thicker tails


def runs_of(seed: int, runs: int, shared: float, effect: float = 1) -> xr.Dataset:
    """Return a dataset like `made` whose repetitions are runs, each with luck that all its cells share."""
    one = made(seed, runs, effect)
    luck = np.exp(shared * np.random.default_rng([seed, 1]).normal(size=runs))
    figures = {name: one[name] * luck for name in ("throughput", "throughput_low", "throughput_high")}
    number = xr.zeros_like(one["throughput"]) + xr.DataArray(np.arange(runs), dims="repetition")
    return one.assign(figures | {"run": number}).assign_attrs(one.attrs)


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_luck_that_cells_of_a_run_share_is_no_difference(runs: int) -> None:
    """Of 16 comparisons 5 % are 0.8; more than three would be one chance in 130."""
    found = [compare(runs_of(seed, runs, 0.02), runs_of(seed + 100, runs, 0.02)) for seed in range(16)]
    verdicts = [{one.overall.verdict, *one.parts["verdict"], *one.cells["verdict"]} for one in found]
    assert sum(each != {SAME} for each in verdicts) <= 3
    assert sum(one.overall.low <= 1 <= one.overall.high for one in found) >= 12
    assert all(("each side is one run" in one.summary()) == (runs == 1) for one in found)


def test_more_runs_find_more() -> None:
    def named(runs: int) -> int:
        base, new = runs_of(1, runs, 0.01), runs_of(2, runs, 0.01)
        new["throughput"][{"streams": 0}] *= 0.8
        cells = compare(base, new).cells
        return int((cells["verdict"] == SLOWER)[cells["streams"] == 1].sum())

    assert named(1) <= named(2) <= named(4) and named(4) >= 4
    assert compare(runs_of(3, 4, 0.01), runs_of(4, 4, 0.01, 0.93)).overall.verdict == SLOWER


def test_disturbed_single_measurements_do_not_count_and_others_replace_them() -> None:
    for repetitions in (1, 3):
        base, new = made(1, repetitions), made(2, repetitions)
        at = {"streams": 3, "repetition": 1}
        for name in ("throughput", "throughput_low", "throughput_high"):
            new[name].loc[at] *= 0.5
        new["flags"].loc[at] |= flag_masks(new)["disturbed"]
        found = compare(base, new)
        disturbed = found.cells["streams"] == 3
        assert set(found.cells["verdict"][~disturbed]) == {SAME} == {found.overall.verdict}
        assert set(found.cells["verdict"][disturbed]) == {NOT_COMPARABLE if repetitions == 1 else SAME}
        assert found.overall.cells == (42 if repetitions == 1 else 48)


def test_pooled_variances_are_those_of_limma() -> None:
    """Cells that differ no more than by chance are taken for equal, others keep their own variance."""
    generator = np.random.default_rng(0)
    truth = np.repeat([1.0, 100.0], 200)
    found = Spread(truth * generator.chisquare(4, 400) / 4, np.full(400, 4.0))
    equal, _ = differences.moderated_together(Spread(found.variance / truth, found.freedom), np.ones(400))
    assert np.std(np.log(equal)) < 0.2 and np.mean(equal) == pytest.approx(1, rel=0.1)
    known, _ = differences.moderated_together(found, truth)
    assert np.std(np.log(known / truth)) < 0.2
    apart, freedom = differences.moderated_together(found, np.ones(400))
    assert np.median(apart[200:]) > 30 * np.median(apart[:200]) and (freedom < 8).all()


@pytest.mark.parametrize(("repetitions", "between"), [(1, 0.0), (3, 0.0), (3, 0.1)])
def test_a_known_effect_is_found_and_covered(repetitions: int, between: float) -> None:
    base, new = made(3, repetitions, sweeps=60), made(4, repetitions, 0.9, between=between, sweeps=60)
    found = compare(base, new)
    cells = found.cells
    sweeps = cells.groupby((cells["streams"] - 1) // 8).indices.values()
    means = np.array([found.scatter.mean(sweep) for sweep in sweeps])
    half = stats.t.ppf(0.975, means[:, 2]) * means[:, 1]
    assert np.mean(np.abs(means[:, 0] - np.log(0.9)) <= half) > 0.91
    assert np.mean(means[:, 0] + half < 0) > 0.97
    covered = cells["ratio_low"].le(0.9) & cells["ratio_high"].ge(0.9)
    assert between or 0.94 < covered.mean() < 0.995  # the data have less luck than is assumed


def test_one_cell_that_differs_is_named() -> None:
    base, new = made(1), made(2)
    new["throughput"].loc[{"rtt": 20.0, "streams": 4}] *= 0.3
    found = compare(base, new)
    different = found.cells[found.cells["verdict"] != SAME]
    assert different[["rtt", "streams", "verdict"]].values.tolist() == [[20.0, 4, SLOWER]]
    said = f"rtt 20 ms, streams 4: the ratio is {different['ratio'].iloc[0]:.3g}, below 0.9"
    assert gate_failures(found, 0.9) == [said]


def test_a_difference_at_one_rtt_alone_is_named() -> None:
    """The cells of one RTT are half as fast, and the other 40 as fast or somewhat faster."""
    base, new = made(1, repetitions=2), made(2, repetitions=2)
    half, others = np.linspace(0.42, 0.58, 8), np.tile([1.0, 1.18], 4)
    for rtt in new["rtt"].values:
        new["throughput"].loc[{"rtt": rtt}] *= xr.DataArray(half if rtt == 20 else others, dims="streams")
    found = compare(base, new)
    assert found.overall.verdict == SAME
    verdicts = found.parts.set_index(["axis", "value"])["verdict"]
    assert verdicts["rtt", 20.0] == SLOWER
    assert set(verdicts.drop(("rtt", 20.0))) == {SAME}
    assert "; slower at rtt 20 ms in 8 cells (0.4" in found.summary()
    assert "\nrtt 20 ms in 8 cells: the ratio is 0.4" in "\n".join(["", *gate_failures(found, 0.9)])


def test_an_interval_beside_1_and_no_difference_found_are_explained_together() -> None:
    found = compare(made(12), made(112, effect=1.06))
    assert found.overall.verdict == SAME and found.overall.low > 1
    said = "(95% interval 1.011 to 1.113, but p is 0.12 after correction for all verdicts)"
    assert said in found.summary()


@settings(max_examples=4)
@given(st.integers(0, 1000), st.floats(0.5, 2), st.integers(1, 4))
def test_swapping_sides_inverts_ratios(seed: int, effect: float, repetitions: int) -> None:
    base, new = made(seed, repetitions), made(seed + 1, repetitions, effect)
    there, back = compare(base, new), compare(new, base)
    assert np.allclose(there.cells["ratio"] * back.cells["ratio"], 1)
    assert np.allclose(there.cells["ratio_low"] * back.cells["ratio_high"], 1)
    assert np.allclose(there.cells["difference"], -back.cells["difference"])
    assert there.overall.low * back.overall.high == pytest.approx(1)
    swapped = {FASTER: SLOWER, SLOWER: FASTER}
    assert back.cells["verdict"].tolist() == [swapped.get(v, v) for v in there.cells["verdict"]]


def test_the_mean_of_effects_is_that_of_statsmodels() -> None:
    from statsmodels.stats.meta_analysis import combine_effects

    generator = np.random.default_rng(3)
    variances = generator.uniform(0.01, 0.1, 20)
    found = generator.normal(0.2, np.sqrt(variances + 0.2))
    theirs = combine_effects(found, variances, method_re="dl")
    mean, error, spread, _ = differences.random_effects(found, variances)
    assert mean == pytest.approx(theirs.mean_effect_re)
    assert spread**2 == pytest.approx(theirs.tau2)
    assert error == pytest.approx(max(theirs.sd_eff_w_re, theirs.sd_eff_w_re_hksj))


@settings(max_examples=20)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=30), st.integers(0, 3))
def test_p_values_are_corrected_as_statsmodels_does(values: list[float], unjudged: int) -> None:
    from statsmodels.stats.multitest import multipletests

    p = np.array(values)
    overall, parts, cells = run_effects.correct_family(p[0], p[:1], p[1:], len(p) - 1 + unjudged)
    theirs = multipletests([*p, *np.ones(unjudged)], method="fdr_bh")[1][: len(p)] / 0.8
    assert [*overall, *parts, *cells] == pytest.approx(np.minimum([5 * p[0], *theirs], 1))


def test_cells_that_lack_something_say_what() -> None:
    base, new = made(1, 1), made(2, 1)
    at = {"streams": 1}
    new["status"].loc[{**at, "rtt": 0.0}] = STATUS.index("failed")
    new["throughput"].loc[{**at, "rtt": 0.0}] = np.nan
    base["status"].loc[{**at, "rtt": 5.0}] = STATUS.index("not_measured")
    new["throughput"].loc[{**at, "rtt": 10.0}] = 0.0
    new["throughput_low"].loc[{**at, "rtt": 20.0}] = np.nan
    found = compare(base, new)
    cells = found.cells[found.cells["streams"] == 1].set_index("rtt")
    none = "new: neither repetitions that differ nor an interval"
    assert [*cells["why"]] == ["new: failed", "base: not measured", "new: no throughput", none, "", ""]
    lacking = cells["why"] != ""
    assert set(cells["verdict"][lacking]) == {NOT_COMPARABLE}
    assert cells.loc[lacking, ["ratio", "p", "p_corrected", "difference_low"]].isna().all(axis=None)
    assert found.overall.cells == 44
    assert gate_failures(found, 0.5) == ["rtt 0 ms, streams 1: failed in new"]


def test_short_single_measurements_count_together_and_have_no_verdict_alone() -> None:
    base, new = made(1, 1), made(2, 1, effect=0.5)
    base["flags"][:, :4] |= flag_masks(base)["too_short"]
    found = compare(base, new)
    assert found.overall.cells == 48
    assert found.overall.verdict == SLOWER
    short = found.cells["streams"] <= 4
    assert set(found.cells["verdict"][short]) == {NOT_COMPARABLE}
    assert found.cells.loc[short, "p"].isna().all()
    assert NOT_COMPARABLE not in set(found.cells["verdict"][~short])


def test_nothing_comparable_does_not_pass_a_gate() -> None:
    base = made(1, 1)
    base["throughput_low"][:] = np.nan
    found = compare(base, base)
    assert set(found.cells["verdict"]) == {NOT_COMPARABLE}
    assert gate_failures(found, 0.5) == ["no cell could be compared"]
    assert found.to_dict()["overall"]["ratio"] is None
    assert "not comparable" in " ".join(text.get_text() for text in comparison_plots.forest(found).texts)
    comparison_plots.ratios(found)


def test_repetitions_on_one_side_alone_are_used() -> None:
    cells = compare(made(1, 1), made(2, 4, 0.5)).cells
    assert (set(cells["evidence"]), set(cells["verdict"])) == ({"both"}, {SLOWER})
    assert (cells["freedom"] >= 3).all()


def test_values_of_one_side_alone_are_named() -> None:
    base = made(1).isel(streams=slice(0, 6)).assign_coords(tool="curl", mtu=9000)
    new = made(2).isel(streams=slice(2, 8), rtt=[0, 2]).assign_coords(tool="gfal-copy")
    compared = compare(base, new)
    found = compared.alignment
    assert found.axes == {"rtt": (0.0, 10.0), "streams": (3, 4, 5, 6)}
    assert found.unmatched_values["base"] == {"rtt": (5.0, 20.0, 50.0, 100.0), "streams": (1, 2)}
    assert found.unmatched_values["new"] == {"streams": (7, 8)}
    assert found.different == {"mtu": (9000, None), "tool": ("curl", "gfal-copy")}
    assert len(compared.cells) == 8
    first = float(base["throughput"].sel(rtt=0, streams=3).mean("repetition"))
    assert compared.cells["base"].iloc[0] == pytest.approx(first)


def test_an_axis_of_one_side_is_met_by_the_value_of_the_other() -> None:
    both = xr.concat([made(1), made(2, effect=0.5).assign_coords(tool="gfal-copy")], "tool")
    both.attrs = made(1).attrs
    found = compare(both, made(3))
    assert found.alignment.axes["tool"] == ("curl",)
    assert found.alignment.unmatched_values["base"] == {"tool": ("gfal-copy",)}
    assert set(found.cells["verdict"]) == {SAME}


def test_what_has_nothing_in_common_is_refused() -> None:
    with pytest.raises(ComparisonError, match=r"rtt has no value in common: 0 ms, .* in base, 7 ms in new"):
        compare(made(1), made(2).isel(rtt=[0]).assign_coords(rtt=[7.0]))
    unknown = made(2).isel(rtt=0, drop=True)
    with pytest.raises(ComparisonError, match=r"rtt is an axis of base .* as in NAME:rtt=0 ms"):
        compare(made(1), unknown)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here") / "results"
    axes = {"rtt": [5.0, 20.0], "tool": ["gfal-copy", "curl"], "streams": [1, 4], "repetition": [1, 2, 3]}
    specs = synthetic.write_sweep(folder / "tools", axes)
    folding.write(folding.fold(specs, axes), folder / "tools/dataset.nc")
    return folder


@pytest.mark.parametrize("name", ["tools", "it's {1}: run, 2:tool=curl", "é:12:30"])
def test_a_part_of_a_dataset_is_a_side(results: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.symlink_to(results / "tools")
    found = read_side("base", f"{place}:tool=curl,rtt=20 ms")
    assert found.chosen == {"tool": "curl", "rtt": 20.0}
    part = load_side(found)
    assert part["throughput"].dims == ("streams", "repetition")
    assert (part.tool.item(), part.rtt.item()) == ("curl", 20.0)
    by_path = read_side("new", f"{place}/dataset.nc:tool=gfal-copy,rtt=20")
    compared = compare(part, load_side(by_path))
    assert compared.alignment.different["tool"] == ("curl", "gfal-copy")


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "tool": "allowed: a results folder with a dataset.nc, or the path of a dataset: tools[?] one of .*tools$",
        "folder.nc": r"given 'folder.nc', allowed: (?!.*folder.nc)",
        "tools:curl": "allowed: tools:AXIS=VALUE,AXIS=VALUE",
        "tools:rtt=5 MB": "base, rtt: given '5 MB', allowed: a time such as",
        "tools:tol=curl": "for tol: tool[?] one of rtt, tool, streams, repetition",
        "text.nc": "text.nc: dataset: given a file that cannot be read: it is no file of NetCDF 4",
        "other.nc": "other.nc: dataset: given a dataset without .*flags.*allowed: a dataset of tpcsweep",
    }.items(),
)
def test_a_wrong_side_is_named(results: Path, text: str, message: str, monkeypatch: Any) -> None:
    monkeypatch.chdir(results.parent)  # the folder of results is found by its name
    Path("text.nc").write_text("not a dataset")
    Path("folder.nc").mkdir(exist_ok=True)
    made(1).drop_vars("flags").to_netcdf("other.nc")
    with pytest.raises(ConfigurationError, match=message):
        load_side(read_side("base", text))


def test_files_hold_everything(tmp_path: Path) -> None:
    found = compare(made(1), made(2, effect=0.5), ("old", "young"))
    comparison.write_files(found, tmp_path / "comparison.json", tmp_path / "cells.csv", 0.9)
    read = json.loads((tmp_path / "comparison.json").read_text())
    assert read["summary"].startswith("young against old: slower, by a ratio of 0.50")
    assert read["verdicts"] == {FASTER: 0, SLOWER: 48, SAME: 0, NOT_COMPARABLE: 0}
    assert len(read["cells"]) == 48
    assert [part["value"] for part in read["parts"]] == [0, 5, 10, 20, 50, 100, *range(1, 9)]
    assert read["gate"]["failures"][0].startswith("the overall ratio is 0.5")
    assert list(pd.read_csv(tmp_path / "cells.csv").columns) == ["rtt", "streams", *comparison.TABLE]


@pytest.mark.parametrize("repetitions", [1, 3])
def test_figures_say_what_was_found(repetitions: int) -> None:
    new = made(2, repetitions, 0.5).assign_coords(tool="gfal-copy")
    new["status"][0, 0] = STATUS.index("not_measured")
    found = compare(made(1, repetitions), new, ("old", "young"))
    for figure in (comparison_plots.forest(found), comparison_plots.ratios(found)):
        text = " ".join(" ".join(one.get_text() for one in figure.texts).split())
        assert "tool curl → gfal-copy" in text
        assert "1 not comparable" in text
        assert ("measured once" in text) == (repetitions == 1)
    assert len(comparison_plots.forest(found).axes[0].get_yticklabels()) == 47 + 1
