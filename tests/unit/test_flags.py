# SPDX-License-Identifier: Apache-2.0
"""Grades of flags."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.flags import FLAGS, GRADES, graded, implausible, worst

SOME = st.lists(st.sampled_from(list(FLAGS)), unique=True)


@given(SOME, SOME)
def test_every_flag_has_a_grade_and_the_worst_is_that_of_all(some: list[str], others: list[str]) -> None:
    by_grade = [graded(some, grade) for grade in GRADES]
    assert sorted(itertools.chain(*by_grade)) == sorted(some)
    assert graded(some, *GRADES) == [flag for flag in FLAGS if flag in some]
    order = (None, *GRADES)
    assert order.index(worst(some + others)) == max(order.index(worst(some)), order.index(worst(others)))


def test_what_is_no_flag_is_refused_and_words_for_people_are_no_identifiers() -> None:
    for ask in (worst, graded):
        with pytest.raises(KeyError, match="unheard"):
            ask(["unheard"])
    words = {flag.words for flag in FLAGS.values()}
    assert len(words) == len(FLAGS)
    assert "_" not in "".join(words)


FIGURES = {"throughput": 0.9, "throughput_low": -0.1, "duration": 10.0, "warmup": 5.0, "machine_cpu": 1.0}


@pytest.mark.parametrize(
    ("status", "figures", "wrong"),
    [
        ("ok", {}, False),
        ("ok", {"throughput": None}, True),
        ("ok", {"throughput": math.nan}, True),
        ("ok", {"throughput": -0.9}, True),
        ("ok", {"throughput_high": math.inf}, True),
        ("ok", {"source_cpu": -1.0}, True),
        # What had filled buffers during the warm-up arrives after it, but no more than the path has carried in all.
        ("ok", {"throughput": 2.0}, False),
        ("ok", {"throughput": 2.3}, True),
        ("ok", {"throughput": 2.0, "warmup": 0.0}, True),
        ("ok", {"throughput": 1.05, "duration": None}, False),
        ("ok", {"throughput_average": 1.2}, True),
        ("ok", {"wire_throughput": 1.2}, True),
        ("ok", {"machine_cpu": 1.2}, True),
        ("ok", {"retransmits": None}, False),
        ("failed", {"throughput": None}, False),
        ("failed", {"throughput": 9.0}, False),
        ("failed", {"duration": -1.0}, True),
    ],
)
def test_figures_that_cannot_be_are_told(status: str, figures: dict[str, float | None], wrong: bool) -> None:
    assert implausible(status, FIGURES | figures, 1.0) is wrong
