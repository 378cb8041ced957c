# SPDX-License-Identifier: Apache-2.0
"""Effects of settings inside blocks, on datasets whose effects are known."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep.analysis import effects_report
from tpcsweep.analysis.block_effects import BlockEffects, Row, block_effects, verdict_text
from tpcsweep.analysis.effects_headline import best_two, headline
from tpcsweep.analysis.effects_plots import forest
from tpcsweep.analysis.holm import holm
from tpcsweep.analysis.page_sections import effects_section
from tpcsweep.cli.group import main
from tpcsweep.common.numbers import between, short
from tpcsweep.data.labels import TRANSFERS_GROUP
from tpcsweep.pages.making import make_page
from tpcsweep.sweeps.problems import ConfigurationError

from tests.support.blocks import STREAMS, made_up, screened, written


def overall(found: BlockEffects, value: str, measure: str = "throughput") -> Row:
    [row] = [row for row in found.rows if (row.value, row.axis, row.measure) == (value, "", measure)]
    return row


def says_anything(found: BlockEffects) -> bool:
    return any(row.differs or row.axis or row.verdict == "gain" for row in found.rows)


def test_settings_without_effect_are_seldom_said_to_have_one() -> None:
    """A rate of 5 % says something in more than 14 of 120 families in one of 1000 tries."""
    gains = {"stock": 0.0, "same": 0.0, "again": 0.0}
    wrong = sum(says_anything(block_effects(made_up(gains, 5, seed), "tuning")) for seed in range(120))
    assert wrong <= 14


@settings(max_examples=20)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_p_values_are_corrected_as_statsmodels_does(values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    theirs = multipletests(values, method="holm")[1]
    assert holm(np.array(values), np.full(len(values), 1 / len(values))) == pytest.approx(theirs)


def test_verdicts_follow_the_effects() -> None:
    found = block_effects(made_up({"stock": 0.0, "fq": 0.3, "rmem": 0.0}, 6, seed=1), "tuning")
    assert found.verdict == "gain"
    assert [overall(found, value).verdict for value in ("fq", "rmem")] == ["gain", "less"]
    row = overall(found, "fq")
    assert row.low < 1.3 < row.high
    assert row.blocks == 6
    # Drift of 20 % between blocks cancels.
    assert row.high / row.low < 1.1
    assert not overall(found, "fq", "cpu").differs
    assert {row.axis for row in found.rows} == {""}


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(-0.5, 1.0), st.integers(0, 1))
def test_retransmits_are_not_compared_where_there_are_few(seed: int, gain: float, segments: int) -> None:
    """Half a segment over different Gbit is no effect, however long cells are."""
    summary = made_up({"stock": 0.0, "fq": gain}, 5, seed)
    duration = np.random.default_rng(seed).uniform(1, 100, summary["duration"].shape)
    summary["duration"][:] = duration * np.array([1, 10])[:, None, None, None]
    summary["retransmits"][:] = 0
    summary["retransmits"][0, 0, 0, 0] = segments
    found = block_effects(summary, "tuning")
    assert {row.measure for row in found.rows} == {"throughput", "cpu"}
    counted = "1 segment" if segments else "0 segments"
    assert found.notes == [f"retransmits: {counted} in 60 cells, too few to compare"]


def test_retransmits_are_compared_only_where_both_sides_have_some() -> None:
    summary = made_up({"stock": 0.0, "fq": 0.0, "rmem": 0.0}, 5, seed=4)
    summary["retransmits"].loc["rmem"] = 0
    found = block_effects(summary, "tuning")
    assert {row.value for row in found.rows if row.measure == "retransmits"} == {"fq"}
    assert found.notes == ["retransmits: 0 segments in 30 cells of rmem, too few to compare"]
    # A part of the grid without retransmits hides no effect in the rest of it.
    summary = made_up({"stock": 0.0, "fq": 0.0}, 5, seed=4)
    summary["retransmits"].loc["fq"] *= 3
    summary["retransmits"].loc[:, 5.0] = 0
    found = block_effects(summary, "tuning")
    row = overall(found, "fq", "retransmits")
    assert row.low < 3 < row.high
    assert row.differs
    assert found.notes == ["retransmits: 0 segments in 30 cells, too few to compare"]


def test_an_effect_near_the_wanted_gain_needs_more_blocks() -> None:
    few = block_effects(made_up({"stock": 0.0, "fq": 0.16}, 3, seed=2, luck=0.05), "tuning")
    row = overall(few, "fq")
    assert (few.verdict, row.verdict) == ("undecided", "undecided")
    assert row.further_blocks is not None
    more = [
        block_effects(made_up({"stock": 0.0, "fq": 0.16}, 3 + row.further_blocks, seed, luck=0.05), "tuning")
        for seed in range(20)
    ]
    assert np.mean([found.verdict == "gain" for found in more]) > 0.5


def test_an_effect_that_depends_on_streams_has_a_row_for_each_value() -> None:
    found = block_effects(made_up({"stock": 0.0, "fq": 0.0}, 8, seed=3, many_streams=0.4), "tuning")
    rows = {row.at: row for row in found.rows if row.axis == "streams"}
    assert list(rows) == ["1", "4", "16"]
    assert [rows[at].verdict for at in rows] == ["less", "less", "gain"]
    assert not [row for row in found.rows if row.axis == "rtt"]


def test_any_value_is_the_reference_and_gaps_are_named() -> None:
    summary = made_up({"stock": 0.0, "fq": 0.3}, 5, seed=4)
    summary["throughput"][0, 0, 0, 2] = np.nan
    found = block_effects(summary, "tuning", reference="fq")
    row = overall(found, "stock")
    assert (row.verdict, row.blocks) == ("less", 5)
    assert row.low < 1 / 1.3 < row.high
    assert found.notes == ["tuning stock: 5 of 30 pairs are in blocks or cells with gaps, and not used"]


@pytest.mark.parametrize(
    ("change", "asked", "problem"),
    [
        ({}, {"setting": "tunin"}, "tuning? one of tuning, rtt, streams"),
        ({}, {"reference": "stok"}, "stock? one of stock, fq"),
        ({"repeat": "cells"}, {}, "order: blocks"),
        ({"testbed_kind": "simulation"}, {}, "a simulated dataset"),
    ],
)
def test_datasets_without_blocks_are_refused(change: Any, asked: Any, problem: str) -> None:
    summary = made_up({"stock": 0.0, "fq": 0.3}, 3, seed=0).assign_attrs(change)
    with pytest.raises(ConfigurationError) as error:
        block_effects(summary, **{"setting": "tuning"} | asked)
    assert problem in str(error.value)
    one = made_up({"stock": 0.0, "fq": 0.3}, 1, seed=0)
    with pytest.raises(ConfigurationError, match="2 blocks or more"):
        block_effects(one, "tuning")


@pytest.mark.parametrize(("gain", "code"), [(0.4, 0), (0.0, 1), (0.095, 3)])
def test_the_command_exits_by_the_verdict(tmp_path: Path, gain: float, code: int) -> None:
    file = written(tmp_path, made_up({"stock": 0.0, "fq": gain}, 4, seed=5))
    asked = ["effects", str(file), "--of", "tuning", "--reference", "stock", "--at-least", "10%"]
    done = CliRunner().invoke(main, [*asked, "-o", str(tmp_path / "effects.svg")])
    assert (tmp_path / "effects.svg").read_text().startswith("<?xml")
    assert done.exit_code == code, done.output
    words = {0: "gain of at least 10 %", 1: "less than 10 %", 3: "would decide"}
    assert words[code] in " ".join(done.output.split())
    content = json.loads(CliRunner().invoke(main, [*asked, "--json"]).output)
    assert content["of"] == {"tuning": "stock"}
    assert content["verdict"] == {0: "gain", 1: "less", 3: "undecided"}[code]


def test_the_figure_has_a_row_for_each_value_and_lines_at_one_and_the_wanted_gain(tmp_path: Path) -> None:
    gains = {"stock": 0.0, "fq": 0.0, "rmem": 0.3}
    summary = xr.load_dataset(written(tmp_path, made_up(gains, 8, seed=3, many_streams=0.4)))
    found = block_effects(summary, at_least=0.2)
    [axes] = forest(summary, found).axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["fq", "rmem", *(f"rmem, streams {count}" for count in STREAMS)]
    straight = [set(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert straight == [{1}, {1.2}]
    low, high = axes.get_xlim()
    assert low < 1 < overall(found, "rmem").high < high


def test_the_answer_has_the_gain_of_each_value_and_what_would_decide_it() -> None:
    gains = {"stock": 0.0, "fq": 0.15, "rmem": 0.5, "slow": -0.3, "cap": -0.5}
    found = block_effects(made_up(gains, 5, seed=11))
    best, open_one, loss, rest = headline(found).split(".\n")
    row, other = overall(found, "rmem"), overall(found, "fq")
    assert best == (
        f"rmem gives {short(row.ratio)} times ({between(row.low, row.high)}) the throughput of stock: a gain of at "
        "least 10 %"
    )
    assert open_one.startswith(f"fq gives {short(other.ratio)} times (")
    assert open_one.endswith(f"10 % is not decided; {other.further_blocks} more blocks would decide")
    assert re.search(r"the throughput of stock: a loss of (2\d|3\d) % \(2\d to 3\d\)$", loss)
    assert rest == "1 further value: see the effects below."
    assert re.fullmatch(
        r"a loss of (4\d|5\d) % \(4\d to 5\d\)", verdict_text(overall(found, "cap"), found.at_least)
    )


def test_the_answer_names_the_ends_of_an_effect_that_differs_along_an_axis() -> None:
    found = block_effects(made_up({"stock": 0.0, "rmem": 0.3}, 8, seed=3, many_streams=0.4))
    parts = {row.at: short(row.ratio) for row in found.rows if row.axis == "streams"}
    least = min(parts, key=lambda at: float(parts[at]))
    assert f", from {parts[least]} with streams {least} to {parts['16']} with streams 16: a gain" in (
        headline(found)
    )
    mixed = block_effects(made_up({"stock": 0.0, "cap": -0.5}, 8, seed=3, many_streams=1.5))
    assert re.fullmatch(
        r"cap against stock depends on streams: 0\.\d+ times \(0.*\) with streams 1, a loss of 5\d % \(4.*\); "
        r"1\.\d+ times \(1.*\) with streams 16, a gain of at least 10 %\. Over all cells: 0\.\d+ times \(0.*\)\.",
        headline(mixed),
    ), headline(mixed)
    several = block_effects(screened({"buffers": 0.4, "pacing": 0.0, "rings": 0.0}, 6, seed=1))
    assert headline(several).startswith("buffers v1 gives 1.")
    assert "the throughput of buffers v0: a gain of at least 10 %." in headline(several)


def test_opposite_effects_have_no_verdict_over_all_cells() -> None:
    summary = made_up({"stock": 0.0, "cap": -0.5}, 8, seed=3, many_streams=1.5).assign_attrs(order="blocks")
    section = effects_section(Path(), summary)["effects"]
    rows = {row["words"]: row["verdict"] for row in section["rows"] if row["drawn"]}
    assert rows["cap"] == "depends on streams" and rows["cap, streams 16"] == "gain of at least 10 %"


@pytest.mark.parametrize(("order", "blocks"), [("blocks", 4), ("random", 4), ("blocks", 1)])
def test_the_page_of_a_sweep_in_blocks_has_the_verdicts(tmp_path: Path, order: str, blocks: int) -> None:
    file = written(tmp_path, made_up({"stock": 0.0, "fq": 0.4}, blocks, seed=5), order=order)
    make_page(file, tmp_path / "index.html", analyses=[effects_section])
    page = (tmp_path / "index.html").read_text()
    shown = order == "blocks" and blocks > 1
    assert ("Effects of settings" in page) == shown
    assert ("<summary>fq gives 1." in page) == shown
    assert not shown or page.index("Effects of settings") < page.index(">Findings<")
    assert (">gain of at least 10 %</td>" in page) == shown


def test_a_report_has_the_figures_of_each_setting_and_every_effect(tmp_path: Path) -> None:
    file = written(tmp_path, made_up({"stock": 0.0, "fq": 0.4}, 4, seed=5))
    summary, transfers = xr.load_dataset(file), xr.load_dataset(file, group=TRANSFERS_GROUP)
    summary["host_sent"] = summary["throughput"].copy(data=2 * summary["throughput"].values)
    table = effects_report.metrics(summary, transfers)
    assert table["tuning"].tolist() == ["stock", "fq"]
    assert table["throughput (Gbit/s)"].tolist() == pytest.approx((table["host_sent (Gbit/s)"] / 2).tolist())
    expected = transfers["total"].where((transfers["tuning"] == "fq") & (transfers["ok"] == 1)).median()
    assert table[effects_report.COMPLETION].iloc[1] == pytest.approx(float(expected))
    _, effects, _ = effects_report.report(summary)
    assert effects["value"].unique().tolist() == ["fq"]
    _, none, [reason] = effects_report.report(summary.isel(repetition=[0]))
    assert none.empty
    assert "2 blocks or more" in reason


@pytest.mark.parametrize(
    ("gains", "text"),
    [
        (
            {"stock": 0.0, "fq": 0.3, "bbr": 0.3},
            r"(fq|bbr) against (fq|bbr): 1\S* times \(.*\), no difference found; less than 10 %, for which .*\.",
        ),
        (
            {"stock": 0.0, "fq": 0.3, "bbr": 0.9},
            r"bbr against fq: 1\.4\S* times \(.*\), a difference; gain of at least 10 %, for which .* 8 blocks .*\.",
        ),
        ({"stock": 0.0, "fq": 0.3, "cap": -0.3}, ""),
    ],
)
def test_the_two_best_values_are_compared_with_each_other(gains: dict[str, float], text: str) -> None:
    summary = made_up(gains, 8, seed=3)
    assert re.fullmatch(text, best_two(summary, block_effects(summary)))
