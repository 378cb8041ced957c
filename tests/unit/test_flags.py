# SPDX-License-Identifier: Apache-2.0
"""Flags of cells: the table, and the rules that raise them."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.common.numbers import BYTES
from tpcsweep.data import flag_rules
from tpcsweep.data.cell_result import Summary
from tpcsweep.data.flag_rules import RULES, Counters, Evidence, raised_flags
from tpcsweep.data.flags import FLAGS, GRADES, SETTING_CHANGED, graded, worst_grade

FIGURES = {
    "throughput": 0.9,
    "throughput_low": 0.85,
    "throughput_high": 0.95,
    "duration": 10.0,
    "warmup": 5.0,
}
FIGURES |= {"machine_cpu": 1.0, "machine_used": 0.5}


def raised(figures: dict[str, Any], status: Any = "ok", **evidence: Any) -> set[str]:
    summary = Summary(FIGURES | figures)
    return set(raised_flags(Evidence(status=status, summary=summary, **{"bandwidth": 1.0, **evidence})))


def test_each_flag_has_a_rule_and_each_rule_a_flag() -> None:
    assert set(RULES) | {SETTING_CHANGED} == set(FLAGS)

    def unheard_of(_: Evidence) -> bool:
        return True

    with pytest.raises(TypeError, match="has no flag unheard_of"):
        flag_rules._rule(unheard_of)


def test_entries_of_flags_are_for_people() -> None:
    labels = {flag.label for flag in FLAGS.values()}
    assert len(labels) == len(FLAGS)
    assert "_" not in "".join(labels)
    assert all(flag.grade in GRADES and flag.meaning and flag.remedy for flag in FLAGS.values())


@given(st.lists(st.sampled_from(list(FLAGS)), unique=True))
def test_flags_are_graded_in_the_order_of_their_bits_and_the_worst_counts(some: list[str]) -> None:
    by_grade = [graded(some, grade) for grade in GRADES]
    assert sorted(itertools.chain(*by_grade)) == sorted(some)
    assert graded(some, *GRADES) == [flag for flag in FLAGS if flag in some]
    assert worst_grade(some) == max(
        (grade for grade in GRADES if graded(some, grade)), key=GRADES.index, default=None
    )


@pytest.mark.parametrize(
    ("figures", "evidence", "flags"),
    [
        ({}, {}, set()),
        ({}, {"steady": False, "short": True}, {"not_steady", "too_short"}),
        ({}, {"precision": 0.05}, {"wide_interval"}),
        ({}, {"precision": 0.06}, set()),
        ({"throughput_low": None, "throughput_high": None}, {"precision": 0.06}, {"wide_interval"}),
        ({"length_files": 0.9}, {}, {"within_files"}),
        ({"length_files": 1.0}, {"cycles": 0.9}, {"within_files"}),
        ({"transfers": 7, "transfers_failed": 1}, {"files": 8}, {"transfers_failed", "files_missing"}),
        ({"xrootd_share": 0.98}, {}, {"monitoring_disagrees"}),
        ({"xrootd_share": 1.005}, {}, set()),
        ({"machine_used": 0.96}, {}, {"machine_saturated"}),
        ({"machine_others": 0.06, "machine_steal": 0.06}, {}, {"disturbed"}),
        ({"machine_slowed": 0.6}, {}, {"disturbed"}),
        ({"machine_used": 0.99, "machine_others": 0.9, "machine_slowed": 0.6}, {"outside": True}, set()),
        ({"throughput": 1e5, "throughput_average": 1e5}, {"bandwidth": math.nan}, {"implausible"}),
        ({"throughput": 9e3, "throughput_average": 9e3}, {"bandwidth": math.nan}, set()),
        ({"waited_share": 0.1}, {}, {"waited"}),
        ({"waited_share": 0.09}, {}, set()),
        ({}, {"slow_path": True}, {"path_slow"}),
        ({"throughput": 1.03}, {}, {"beyond_path"}),
        ({"throughput": 1.03}, {"declared": True}, {"beyond_declared"}),
        ({"throughput": 3.0, "wire_throughput": 3.1}, {"declared": True}, {"beyond_declared"}),
        ({"throughput": 0.9}, {"declared": True}, set()),
        # Nothing but what holds of every cell is said of figures that were interrupted.
        (
            {"machine_others": 0.5, "duration": -1.0},
            {"status": "failed", "slow_path": True, "steady": False, "usable": False, "broken": True},
            {"deployment_broken", "implausible"},
        ),
    ],
)
def test_rules_raise_their_flags(figures: dict[str, Any], evidence: dict[str, Any], flags: set[str]) -> None:
    assert raised(figures, **evidence) == flags


@pytest.mark.parametrize(
    ("goodput", "wire", "headers", "disagree"),
    [
        (1.0, 1.05, 0, False),
        (1.0, 1.25, 0, True),  # much was sent twice
        (1.02, 1.0, 0, True),
        (1e-8, 1e-3, 1.5e-3, False),  # of files of one byte there is nothing but headers
        (1e-8, 3e-3, 1.5e-3, True),
    ],
)
def test_counters_disagree_past_headers(goodput: float, wire: float, headers: float, disagree: bool) -> None:
    transfers = round(headers * FIGURES["duration"] * BYTES / flag_rules.HEADERS)
    counters = Counters(9 * goodput, 9 * wire, transfers)
    flags = raised({"throughput": goodput, "wire_throughput": wire}, counters=counters)
    assert ("counters_disagree" in flags) == disagree


SHARE = st.none() | st.floats(0, 1)


@given(st.tuples(SHARE, SHARE, st.none() | st.floats(-1, 10)), st.integers(0, 2), st.floats(0, 1))
def test_more_load_calms_no_cell(found: tuple[float | None, ...], place: int, more: float) -> None:
    names = ("machine_others", "machine_steal", "machine_slowed")
    worse = [(value or 0) + more if at == place else value for at, value in enumerate(found)]
    before, after = (raised(dict(zip(names, figures, strict=True))) for figures in (found, worse))
    assert "disturbed" in after or "disturbed" not in before


@pytest.mark.parametrize(
    ("status", "figures", "wrong"),
    [
        ("ok", {}, ""),
        ("ok", {"throughput": None}, "throughput"),
        ("ok", {"throughput": -0.9}, "throughput"),
        ("ok", {"throughput_low": -0.1}, ""),
        ("ok", {"throughput_high": math.inf}, "throughput_high"),
        # What had filled buffers during the warm-up arrives after it, but no more than the path has carried in all.
        ("ok", {"throughput": 2.0}, ""),
        ("ok", {"throughput": 2.3}, "throughput"),
        ("ok", {"throughput": 2.0, "warmup": 0.0}, "throughput"),
        ("ok", {"throughput": 1.05, "duration": None}, ""),
        ("ok", {"throughput_average": 1.2}, "throughput_average"),
        ("ok", {"wire_throughput": 1.2}, "wire_throughput"),
        ("ok", {"machine_cpu": 1.2}, "machine_cpu"),
        ("ok", {"retransmits": None}, ""),
        ("failed", {"throughput": 9.0}, ""),
        ("failed", {"duration": -1.0}, "duration"),
    ],
)
def test_figures_that_cannot_be_are_implausible(
    status: Any, figures: dict[str, float | None], wrong: str
) -> None:
    cell = Evidence(status=status, summary=Summary(FIGURES | figures), bandwidth=1.0)
    assert flag_rules.implausible_figure(cell) == wrong
    assert ("implausible" in raised(figures, status)) is bool(wrong)
